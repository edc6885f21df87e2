"""Benchmark and ablate sequence architectures: the public names.

They are imported on first use, so that `import bakeoff` is instant. In the repository, the
subpackages are links to the folders of the same names beside this one.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from bakeoff.former_name import FormerName

if TYPE_CHECKING:
    from bakeoff.suite.commands.from_python import plan, run
    from bakeoff.suite.commands.results import curves, published_results, results, verdicts
    from bakeoff.suite.errors import NotRecorded
    from bakeoff.suite.execution.run_task import run_task
    from bakeoff.suite.spec import Ablation, Claim, Model, Recipe, Scale, ScalingLaw, vary
    from bakeoff.suite.spec.own_data import (
        Arrays,
        ImageFolder,
        Pairs,
        SavedDataset,
        Table,
        TextFile,
    )

__all__ = [
    "Ablation",
    "Arrays",
    "Claim",
    "ImageFolder",
    "Model",
    "NotRecorded",
    "Pairs",
    "Recipe",
    "SavedDataset",
    "Scale",
    "ScalingLaw",
    "Table",
    "TextFile",
    "curves",
    "plan",
    "published_results",
    "results",
    "run",
    "run_task",
    "vary",
    "verdicts",
]

_HOMES = {
    **dict.fromkeys(
        ("Ablation", "Claim", "Model", "Recipe", "Scale", "ScalingLaw", "vary"),
        "bakeoff.suite.spec",
    ),
    **dict.fromkeys(
        ("Arrays", "ImageFolder", "Pairs", "SavedDataset", "Table", "TextFile"),
        "bakeoff.suite.spec.own_data",
    ),
    **dict.fromkeys(("plan", "run"), "bakeoff.suite.commands.from_python"),
    **dict.fromkeys(
        ("curves", "published_results", "results", "verdicts"), "bakeoff.suite.commands.results"
    ),
    "NotRecorded": "bakeoff.suite.errors",
    "run_task": "bakeoff.suite.execution.run_task",
}

sys.meta_path.append(FormerName())


def __getattr__(name: str) -> Any:
    if name in ("ablations", "models", "reports", "suite"):
        return importlib.import_module(f"bakeoff.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'bakeoff' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
