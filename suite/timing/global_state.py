"""Compare and restore the global state of a process, so that no trial or variant changes the next.

Random numbers are not part of it, because each trial seeds them. The functions of torch are
compared by identity; a wrapper that torch's compiler puts around one does not count as a change.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

_MOST_NAMED = 4
_BACKENDS: Any = torch.backends
# Functions that torch itself replaces when its compiler is imported, as the first optimiser does.
_COMPILER = tuple(str(Path(torch.__file__).parent / name) for name in ("_dynamo", "_compile.py"))
_OF_COMPILER = ("TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_")
_OF_SCIKIT_LEARN = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")  # set when it is imported
_HOLDERS: Mapping[str, Any] = {
    "torch": torch,
    "torch.nn.functional": nn.functional,
    "torch.nn.init": nn.init,
    "torch.Tensor": torch.Tensor,
    "torch.nn.Module": nn.Module,
}


def _folder() -> str | None:
    """Return the working folder, or None if it was removed."""
    with suppress(OSError):
        return os.getcwd()
    return None


def _change_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _deterministic() -> tuple[bool, bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )


def _set_deterministic(flags: tuple[bool, bool, bool, bool]) -> None:
    torch.use_deterministic_algorithms(flags[0], warn_only=flags[1])
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = flags[2:]


class _Precision(NamedTuple):
    """The precision of products by torch's two interfaces.

    The older interface cannot represent some settings; `of_products` is then "".
    """

    general: str
    of_products: str

    def __str__(self) -> str:
        usual = self.general == "none" and self.of_products
        return self.of_products if usual else f"fp32_precision = {self.general!r}"


def _precision() -> _Precision:
    of_products = ""
    with suppress(RuntimeError):
        of_products = torch.get_float32_matmul_precision()
    return _Precision(_BACKENDS.fp32_precision, of_products)


def _set_precision(precision: _Precision) -> None:
    _BACKENDS.fp32_precision = precision.general
    _BACKENDS.cuda.matmul.fp32_precision = "none"
    if precision.of_products:
        torch.set_float32_matmul_precision(precision.of_products)


def _flushes_denormals() -> bool:
    """Return True if products below the smallest normal number are 0 (torch has no getter)."""
    return sys.float_info.min / 2 == 0.0


def _cpus() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def _set_cpus(cpus: frozenset[int]) -> None:
    if cpus:
        os.sched_setaffinity(0, cpus)


# From the name of a setting to the functions that read and write it.
_SETTINGS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, torch.set_default_device),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's deterministic flags": (_deterministic, _set_deterministic),
    "torch's precision of matrix products": (
        _precision,
        _set_precision,
    ),
    "whether torch flushes denormal numbers": (_flushes_denormals, torch.set_flush_denormal),
    "whether torch looks for anomalies": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "torch's autocast on CPUs": (
        partial(torch.is_autocast_enabled, "cpu"),
        partial(torch.set_autocast_enabled, "cpu"),
    ),
    "the CPUs of this thread": (_cpus, _set_cpus),
    "whether torch keeps gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the working folder": (_folder, _change_folder),
}


@dataclass(frozen=True)
class GlobalState:
    """The global state of the process at the time when the value was made."""

    settings: Mapping[str, Any] = field(
        default_factory=lambda: {name: read() for name, (read, _) in _SETTINGS.items()}
    )
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    handlers: Mapping[int, Any] = field(
        default_factory=lambda: {n: signal.getsignal(n) for n in signal.valid_signals()}
    )
    functions: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {name: dict(vars(holder)) for name, holder in _HOLDERS.items()}
    )

    def changes(self) -> str:
        """Return a description of what has changed since; empty if nothing has."""
        found = [
            *self.changed_settings(),
            *(f"the environment variable {name}" for name in self._variables()),
            *(f"the handler of {signal.Signals(number).name}" for number in self._handlers()),
            *(f"{holder}.{name}" for holder, name in self._functions()),
        ]
        return _joined(found)

    def changed_settings(self) -> list[str]:
        """Return the changed settings, the part of `changes` that takes microseconds to find."""
        return [f"{name} ({self.settings[name]} -> {now})" for name, now in self._settings()]

    def restore(self) -> None:
        """Undo all changes. Signal handlers can only be restored in the main thread."""
        for name, _ in list(self._settings()):
            _SETTINGS[name][1](self.settings[name])
        for name in self._variables():
            os.environ.pop(name, None)
            if name in self.environment:
                os.environ[name] = self.environment[name]
        for number in self._handlers():
            with suppress(ValueError, TypeError, OSError):
                signal.signal(number, self.handlers[number])
        for holder, name in self._functions():
            setattr(_HOLDERS[holder], name, self.functions[holder][name])

    def _settings(self) -> Iterator[tuple[str, Any]]:
        for name, (read, _) in _SETTINGS.items():
            if (now := read()) != self.settings[name]:
                yield name, now

    def _variables(self) -> list[str]:
        now = dict(os.environ)
        names = sorted({*now, *self.environment})
        changed = [name for name in names if now.get(name) != self.environment.get(name)]
        return [name for name in changed if not name.startswith(_OF_COMPILER + _OF_SCIKIT_LEARN)]

    def _handlers(self) -> list[int]:
        return [n for n, before in self.handlers.items() if signal.getsignal(n) != before]

    def _functions(self) -> list[tuple[str, str]]:
        return [
            (holder, name)
            for holder, before in self.functions.items()
            for name, function in before.items()
            if callable(function)
            and not isinstance(function, type)
            and (now := vars(_HOLDERS[holder]).get(name)) is not function
            and not _is_of_compiler(now)
        ]


def _joined(found: Sequence[str]) -> str:
    rest = len(found) - _MOST_NAMED
    shown = [*found[:_MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def _is_of_compiler(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(_COMPILER)


@contextmanager
def state_restored() -> Iterator[None]:
    """Undo at the end of the block what was changed within it."""
    before = GlobalState()
    try:
        yield
    finally:
        before.restore()
