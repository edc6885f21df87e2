"""Read a GPU's clock, power and energy, and what limits it, from NVML where that answers.

Asked of NVIDIA's own library, which comes with every driver; the Python package for it may be
missing. Names, numbers and units are those of NVIDIA's header `nvml.h`.
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
# The bits of nvmlClocksEventReasons that mean less speed than the work could use.
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
    """One look at a GPU; None where it does not say.

    Attributes:
        megahertz: Clock of its multiprocessors.
        most_megahertz: The most that this clock can be.
        held_back_by: In words, several joined by commas; empty where nothing does.
        watts: Of the whole board; from Ampere on, but for GA100, the mean of the last second.
    """

    megahertz: int | None
    most_megahertz: int | None
    held_back_by: str | None
    watts: float | None = None


def gpu_state(device: torch.device) -> GpuState | None:
    """None where the driver says nothing: no NVML, another maker, a slice of a GPU."""
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
    """Read the GPU's energy counter, which Volta and newer have; what is returned reads it again.

    The counter is of the whole card, and tells its processes not apart. What shares a card is
    given its share of all that the card took meanwhile.

    Returns:
        Asked later, it says the share of the joules since; None where the counter does not answer
        both times, or was set back: the driver was loaded again.
    """
    begun = _joules(device)

    def since() -> float | None:
        ended = None if begun is None else _joules(device)
        if begun is None or ended is None or ended < begun:
            return None
        return share * (ended - begun)

    return since


def _joules(device: torch.device) -> float | None:
    """Since the driver was loaded."""
    card = _card(device)
    name = "nvmlDeviceGetTotalEnergyConsumption"
    millijoules = card.asked(name, ctypes.c_ulonglong) if card else None
    return None if millijoules is None else millijoules * _MILLI


def _in_words(bits: int) -> str:
    return ", ".join(word for bit, word in _REASONS.items() if bits & bit)


@dataclass(frozen=True)
class _Card:
    """NVML's handle of one GPU."""

    nvml: ctypes.CDLL
    handle: ctypes.c_void_p

    def asked(self, name: str, kind: Any, *arguments: object) -> int | None:
        """None where this card, or this version of the library, has no answer."""
        answer = kind()
        function = getattr(self.nvml, name, None)
        if function is None or function(self.handle, *arguments, ctypes.byref(answer)) != 0:
            return None
        return int(answer.value)


def _card(device: torch.device) -> _Card | None:
    try:
        return _card_of(str(torch.cuda.get_device_properties(device).uuid))
    except Exception:  # of the library, or of torch without CUDA: no trial ends for a reading
        return None


@cache
def _card_of(uuid: str) -> _Card:
    """With the library, initialised once in this process for each GPU.

    Raises:
        OSError: no such library, or it knows no such GPU.
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
