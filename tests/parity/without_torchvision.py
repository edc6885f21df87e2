"""Import timm where torchvision is missing: no build of it for CPUs fits our torch.

timm's models need none of its names but a frozen batch norm, of which no model here has one. Every
name of torchvision is an empty class, and every attribute of such a class another one, so that
timm's modules can be imported; using one of them fails.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Empty(type):
    """A class of no use, whose attributes are like it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Empty(name, (), {})


class _EmptyModule(ModuleType):
    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Empty(name, (), {})


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        is_meant = name.partition(".")[0] == "torchvision"
        return ModuleSpec(name, self, is_package=True) if is_meant else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return


def timm() -> Any:
    """The package, imported now; torchvision is as it was before."""
    if "timm" not in sys.modules:
        finder = _Finder()
        sys.meta_path.append(finder)
        try:
            import timm
        finally:
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
    import timm

    return timm
