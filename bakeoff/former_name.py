"""Keep `suite`, the former name of the package, importable in programs that were written for it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FORMER_NAME = "suite"


def stand_in() -> None:
    """Make the former name another name of the package, with a warning.

    Call it from a module of the former name, or from its loader.
    """
    said = f"`{FORMER_NAME}` is now called `bakeoff`; import that instead."
    warnings.warn(said, FutureWarning, stacklevel=3)
    sys.modules[FORMER_NAME] = sys.modules["bakeoff"]


class _Alias(Loader):
    def exec_module(self, module: ModuleType) -> None:
        stand_in()


class FormerName(MetaPathFinder):
    """The last finder, so that any other module of the former name takes precedence."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the former name of the package."""
        return ModuleSpec(fullname, _Alias()) if fullname == FORMER_NAME else None
