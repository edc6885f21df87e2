"""Test the round trip of nested containers: types, keys, every bit; others are refused."""

from __future__ import annotations

import math
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.training.engines.sharded_checkpoint import read_tree, tensors_in, write_tree

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NESTS = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below)
        | st.lists(below).map(tuple)
        | st.dictionaries(st.integers() | st.text(), below)
    ),
    max_leaves=12,
)


@pytest.mark.whole
@settings(deadline=None)  # files may be slow on a busy machine
@given(nest=NESTS)
def test_any_nest_comes_back(nest: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("nest") / "kept"
    write_tree(path, nest)
    assert repr(read_tree(path)) == repr(nest)


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    base = torch.arange(12, dtype=torch.float64).view(3, 4)
    nest = OrderedDict(
        [
            ("view", base.T[1:]),
            (3, [base, base]),
            ("none", torch.zeros(0, 5)),
            ("half", torch.tensor([0.1, torch.nan, torch.inf], dtype=torch.bfloat16)),
            ("number", torch.tensor(7)),
            ("size", base.shape),
            ("infinite", -math.inf),
        ]
    )
    write_tree(tmp_path / "kept", nest)
    found = read_tree(tmp_path / "kept")
    assert list(found) == list(nest)
    assert torch.equal(found["view"], base.T[1:])
    assert all(torch.equal(each, base) for each in found[3])
    assert found["none"].shape == (0, 5)
    assert torch.equal(found["half"].view(torch.int16), nest["half"].view(torch.int16))
    assert (found["number"].item(), found["number"].shape) == (7, ())
    assert (found["size"], found["infinite"]) == ((3, 4), -math.inf)
    assert found["view"].data_ptr() != base.data_ptr()
    assert len(tensors_in(nest)) == 5


def test_what_is_none_of_these_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"^something of type PosixPath cannot be kept$"):
        write_tree(tmp_path / "kept", {"a": [tmp_path]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spoilt", ['["tensor", "9"]', '["what", []]', '["dict", 3]', "[1]", "{"])
def test_what_is_no_nest_of_ours_is_refused(spoilt: str, tmp_path: Path) -> None:
    write_tree(tmp_path / "kept", {})
    (tmp_path / "kept.json").write_text(spoilt)
    with pytest.raises(
        CheckpointError, match=r"^kept\.json (has another format|cannot be read) \("
    ):
        read_tree(tmp_path / "kept")
