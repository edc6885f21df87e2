"""Read a GPU's clock, power and energy, and what limits it, from NVML if it is available.

The library is NVIDIA's own, which comes with every driver; the Python package for it is not needed.
Names, numbers and units are those of NVIDIA's header `nvml.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

_SM_CLOCK = 1  # NVML_CLOCK_SM
_MILLI = 1e-3
# The bits of nvmlClocksEventReasons that reduce the speed below what the work could use.
_REASONS = {
    0x0000000000000004: "power cap",
    0x0000000000000008: "hardware slow-down",
    0x0000000000000010: "sync boost",
    0x0000000000000020: "heat, by software",
    0x0000000000000040: "heat, by hardware",
    0x0000000000000080: "power brake",
}


@dataclass(frozen=True)
class GpuState:
    """One reading of a GPU's state; a value is None if the driver does not report it.

    Attributes:
        megahertz: The clock of its multiprocessors.
        most_megahertz: The maximum of this clock.
        held_back_by: The reasons for a lower clock, joined by commas; empty if there are none.
        watts: The power of the whole board; from Ampere on, except for GA100, the mean of the last
            second.
    """

    megahertz: int | None
    most_megahertz: int | None
    held_back_by: str | None
    watts: float | None = None


def gpu_state(device: torch.device) -> GpuState | None:
    """Return the GPU's state, or None if NVML does not report it, e.g. on a MIG slice."""
    card = _card(device)
    if card is None:
        return None
    kind = ctypes.c_int(_SM_CLOCK)
    # The older name, which newer drivers keep.
    bits = card.asked("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
    milliwatts = card.asked("nvmlDeviceGetPowerUsage", ctypes.c_uint)
    return GpuState(
        megahertz=card.asked("nvmlDeviceGetClockInfo", ctypes.c_uint, kind),
        most_megahertz=card.asked("nvmlDeviceGetMaxClockInfo", ctypes.c_uint, kind),
        held_back_by=None if bits is None else _in_words(bits),
        watts=None if milliwatts is None else milliwatts * _MILLI,
    )


def joules_since(device: torch.device, share: float = 1.0) -> Callable[[], float | None]:
    """Read the GPU's energy counter (Volta and newer), and return a function to read it again.

    The counter covers the whole card and does not distinguish processes. A process that shares a
    card is charged with its share of the energy that the card took meanwhile.

    Returns:
        A function that returns the share of the joules since this call, or None if the counter
        could not be read both times, or was reset because the driver was loaded again.
    """
    begun = _joules(device)

    def since() -> float | None:
        ended = None if begun is None else _joules(device)
        if begun is None or ended is None or ended < begun:
            return None
        return share * (ended - begun)

    return since


def _joules(device: torch.device) -> float | None:
    """Return the joules since the driver was loaded, or None if they cannot be read."""
    card = _card(device)
    name = "nvmlDeviceGetTotalEnergyConsumption"
    millijoules = card.asked(name, ctypes.c_ulonglong) if card else None
    return None if millijoules is None else millijoules * _MILLI


def _in_words(bits: int) -> str:
    return ", ".join(word for bit, word in _REASONS.items() if bits & bit)


@dataclass(frozen=True)
class _Card:
    """NVML and its handle of one GPU."""

    nvml: ctypes.CDLL
    handle: ctypes.c_void_p

    def asked(self, name: str, kind: Any, *arguments: object) -> int | None:
        """Return the result of a query, or None if the card or the library does not support it."""
        answer = kind()
        function = getattr(self.nvml, name, None)
        if function is None or function(self.handle, *arguments, ctypes.byref(answer)) != 0:
            return None
        return int(answer.value)


def _card(device: torch.device) -> _Card | None:
    try:
        return _card_of(str(torch.cuda.get_device_properties(device).uuid))
    except Exception:  # errors of NVML or of torch without CUDA: a reading must not fail a trial
        return None


@cache
def _card_of(uuid: str) -> _Card:
    """Initialise NVML, once in this process for each GPU, and return the card.

    Raises:
        OSError: if the library is missing, or if it has no GPU with that UUID.
    """
    library = ctypes.CDLL("libnvidia-ml.so.1")
    _check(library.nvmlInit_v2())
    handle = ctypes.c_void_p()
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    _check(library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)))
    return _Card(library, handle)


def _check(code: int) -> None:
    if code != 0:
        raise OSError(f"NVML answers with the code {code}")
