"""Test tensors in files: round trip, rejection of foreign files, hashes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.training.tensor_io import read_tensors, refuse_misfit, sha256_of, write_tensors


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
def test_every_type_comes_back_bit_for_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = (torch.randn(3, 5) * 10).to(dtype)
    write_tensors(tmp_path / "file", {"a": tensor, "b": tensor.T})
    found = read_tensors(tmp_path / "file")
    assert found["a"].dtype == dtype
    assert torch.equal(found["a"], tensor)
    assert torch.equal(found["b"], tensor.T)
    assert sha256_of({"": found}) == sha256_of({"": {"b": tensor.T, "a": tensor}})


def test_what_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(CheckpointError, match="safetensors cannot hold its tensors"):
        write_tensors(tmp_path / "file", {"a": sparse})
    with pytest.raises(CheckpointError, match="a tensor has no plain bytes"):
        sha256_of({"": {"a": sparse}})


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04K\x01.", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}x"]
)
def test_what_is_no_file_of_ours_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"^file cannot be read \("):
        read_tensors(tmp_path / "file")


def test_hashes_tell_names_groups_shapes_and_types() -> None:
    plain = torch.zeros(4)
    groups = [
        {"g": {"a": plain}},
        {"g": {"b": plain}},
        {"h": {"a": plain}},
        {"g": {"a": plain.int()}},
        {"g": {"a": plain.view(2, 2)}},
        {"g": {"a": -plain}},
        {"g": {"a": plain, "b": plain[:0]}},
    ]
    assert len({sha256_of(group) for group in groups}) == len(groups)


def test_misfits_are_named() -> None:
    wanted = {"a": torch.zeros(2), "b": torch.zeros(3)}
    refuse_misfit("tensor", wanted, wanted)
    for found, words in (
        ({"a": wanted["a"]}, "^tensor b is not in the checkpoint$"),
        (wanted | {"c": wanted["a"]}, "^tensor c is in the checkpoint alone$"),
        (wanted | {"a": torch.zeros(3)}, r"^tensor a has shape \(3,\) and type torch.float32 in"),
        (wanted | {"a": torch.zeros(2).int()}, "torch.int32 in the checkpoint, and"),
    ):
        with pytest.raises(CheckpointError, match=words):
            refuse_misfit("tensor", found, wanted)
