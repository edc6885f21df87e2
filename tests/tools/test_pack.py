"""Test that the packed wheels are those that a sweep needs besides torch, without Ray or MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import pack as packing
from tools.pack import (
    installed_needs,
    names_for_a_visit,
    pack,
    pack_for_a_visit,
    packed_names,
    pins,
)

ROOT = Path(packing.__file__).parents[1]


def test_needs_are_followed_but_not_those_of_what_is_left_out() -> None:
    needs = {
        "bakeoff": ["torch>=2", "Pandas", "ruff; extra == 'test'", "numpy<3", "mlflow>=3"],
        "pandas": ["numpy", "tzdata", "old; python_version < '3.12'", "odd; extra == 'x'"],
        "numpy": [],
        "tzdata": [],
    }
    assert packed_names(needs.__getitem__, "3.12") == ["numpy", "pandas", "tzdata"]
    assert packed_names(needs.__getitem__, "3.12", frozenset({"pandas", "torch", "mlflow"})) == [
        "numpy"
    ]


def test_all_that_is_packed_has_a_pinned_version() -> None:
    names = packed_names(installed_needs, "3.12")
    assert {"numpy", "pandas", "pydantic", "typer", "safetensors", "pyarrow"} <= {*names}
    assert not [name for name in names if name.startswith(("nvidia", "torch", "triton", "ray"))]
    versions = pins((ROOT / "constraints.txt").read_text())
    assert not {*names} - versions.keys()


def test_wheels_are_asked_for_that_python_and_the_note_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(packing, "_pip", lambda *arguments: asked.append(arguments))
    pack(ROOT, tmp_path / "packed", "3.12")
    wheel, download = asked
    assert wheel[:2] == ("wheel", "--no-deps")
    assert {"--python-version=3.12", "--only-binary=:all:", "--no-deps"} <= {*download}
    assert any(each.startswith("numpy==2") for each in download)
    note = (tmp_path / "packed" / "README.md").read_text()
    assert "bakeoff run all --scale standard --executor inline" in note


def test_for_a_visit_only_what_an_image_with_torch_lacks_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = names_for_a_visit(installed_needs, "3.12")
    assert {"pydantic", "pydantic-core", "pooch", "platformdirs", "sacrebleu", "pytest"} <= {*names}
    images_have = {"torch", "numpy", "pandas", "scipy", "jinja2", "filelock", "typing-extensions"}
    assert not images_have & {*names}
    assert not {"ray", "mlflow", "pyarrow", "matplotlib", "scikit-learn"} & {*names}
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(packing, "_pip", lambda *arguments: asked.append(arguments))
    pack_for_a_visit(ROOT, tmp_path / "packed", "3.12")
    ((download, *wanted),) = asked
    assert download == "download"
    assert [each for each in wanted if each.startswith("pydantic-core==")]
    note = (tmp_path / "packed" / "README.md").read_text()
    assert "python3.12 -m tools.gpu_visit --minutes 12 --out visit" in note
