"""Import timm where torchvision is missing, since none of its builds for CPUs fits our torch.

timm's models need none of its names except a frozen batch norm, which no model here contains. Every
name of torchvision is an empty class, and every attribute of such a class is another one, so that
timm's modules can be imported; any use of one fails.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Empty(type):
    """An empty placeholder class, whose attributes are placeholders too."""

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
    """Import timm now and return it; leave torchvision as it was before."""
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
