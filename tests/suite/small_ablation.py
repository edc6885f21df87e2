"""A function that builds a small ablation, in which a test changes some fields."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bakeoff.suite.spec import Ablation, Model, Scale, vary

SCALE = {"dim": 16, "depth": 1, "length": 8, "steps": 4, "batch": 2}
WriteAblation = Callable[..., Path]


def make_ablation(*, scale: dict[str, Any] | None = None, **fields: Any) -> Ablation:
    """Return an ablation with the given fields; `scale` changes fields of the quick scale."""
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
