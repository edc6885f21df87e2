"""The engine: from a question about an architecture to recorded measurements.

Public names are imported on first use, so that `import suite` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from suite.import_order import claim_names

claim_names()

if TYPE_CHECKING:
    from suite.commands.from_python import plan, run
    from suite.errors import NotRecorded
    from suite.execution.run_task import run_task
    from suite.spec import Ablation, Claim, Model, Recipe, Scale, ScalingLaw, vary

__all__ = [
    "Ablation",
    "Claim",
    "Model",
    "NotRecorded",
    "Recipe",
    "Scale",
    "ScalingLaw",
    "plan",
    "run",
    "run_task",
    "vary",
]

_HOMES = {
    **dict.fromkeys(
        ("Ablation", "Claim", "Model", "Recipe", "Scale", "ScalingLaw", "vary"), "suite.spec"
    ),
    **dict.fromkeys(("plan", "run"), "suite.commands.from_python"),
    "NotRecorded": "suite.errors",
    "run_task": "suite.execution.run_task",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'suite' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
