"""An ablation as a value, in which only what is given differs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.spec import Ablation, Model, Scale, vary

SCALE = {"dim": 16, "depth": 1, "length": 8, "steps": 4, "batch": 2}
WriteAblation = Callable[..., Path]


def make_ablation(*, scale: dict[str, Any] | None = None, **fields: Any) -> Ablation:
    """As the fields say; `scale` holds changes of the quick scale."""
    return Ablation(
        **{
            "question": "How many?",
            "name": "own",
            "baseline": Model(mixer="attention", heads=4),
            "axes": [vary("heads", [1, 4])],
            "tasks": ["shakespeare_characters"],
            "probes": ["quality"],
            "scales": {"quick": Scale(**{**SCALE, **(scale or {})})},
            **fields,
        }
    )
