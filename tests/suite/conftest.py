"""Small ablations for the tests of the engine: as values, and as files of a user's own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.spec import Ablation, Model, Scale, vary

SCALE = {"dim": 16, "depth": 1, "length": 8, "steps": 4, "batch": 2}
PARTS = {
    "question": "'How many?'",
    "baseline": 'Model(mixer="attention", heads=4)',
    "axes": '[vary("heads", [1, 4])]',
    "tasks": '["shakespeare_characters"]',
    "probes": '["quality", "parameters", "step_time"]',
    "scales": '{"quick": Scale(dim=16, depth=1, length=8, steps=4, batch=2)}',
}

MakeAblation = Callable[..., Ablation]
WriteAblation = Callable[..., Path]


@pytest.fixture(scope="session")
def make_ablation() -> MakeAblation:
    """An ablation in which only what is given differs; `scale` holds changes of the quick scale."""

    def make(*, scale: dict[str, Any] | None = None, **fields: Any) -> Ablation:
        return Ablation(
            **{
                "question": "How many?",
                "baseline": Model(mixer="attention", heads=4),
                "axes": [vary("heads", [1, 4])],
                "tasks": ["shakespeare_characters"],
                "probes": ["quality"],
                "scales": {"quick": Scale(**{**SCALE, **(scale or {})})},
                **fields,
            }
        )

    return make


@pytest.fixture
def own_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a user's files add to the interpreter's path and modules goes away again."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield
    for name in [
        name for name in sys.modules if name.partition(".")[0].startswith(("own", "mine"))
    ]:
        del sys.modules[name]


@pytest.fixture
def write_ablation(tmp_path: Path, own_imports: None) -> WriteAblation:
    """A file of a user's own: `source` as it stands, else the parts given instead of `PARTS`."""

    def write(source: str | None = None, *, name: str = "mine.py", **parts: str) -> Path:
        fields = "".join(f"    {key}={value},\n" for key, value in {**PARTS, **parts}.items())
        declared = "from suite import Ablation, Claim, Model, Scale, vary\n\nABLATION = Ablation(\n"
        path = tmp_path / name
        path.write_text(f'"""A note."""\n{declared}{fields})\n' if source is None else source)
        return path

    return write
