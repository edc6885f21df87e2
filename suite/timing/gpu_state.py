"""Read the GPU's clock and what limits it, from NVML where that answers.

Asked of NVIDIA's own library, which comes with every driver; the Python package for it may be
missing. Names and numbers are those of NVIDIA's header `nvml.h`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

_SM_CLOCK = 1  # NVML_CLOCK_SM
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
    """One look at a GPU.

    Attributes:
        megahertz: Clock of its multiprocessors.
        most_megahertz: The most that this clock can be.
        held_back_by: In words, several joined by commas; empty where nothing does.
    """

    megahertz: int
    most_megahertz: int
    held_back_by: str


def gpu_state(device: torch.device) -> GpuState | None:
    """None where the driver does not say: no NVML, another maker, a slice of a GPU."""
    try:
        library, handle = _handle(str(torch.cuda.get_device_properties(device).uuid))
        handle_and_kind = (handle, ctypes.c_int(_SM_CLOCK))
        clock = _asked(library, "nvmlDeviceGetClockInfo", ctypes.c_uint, *handle_and_kind)
        most = _asked(library, "nvmlDeviceGetMaxClockInfo", ctypes.c_uint, *handle_and_kind)
        # The older name, which newer drivers keep.
        reasons = "nvmlDeviceGetCurrentClocksThrottleReasons"
        bits = _asked(library, reasons, ctypes.c_ulonglong, handle)
    except (OSError, AttributeError):
        return None
    held_back_by = ", ".join(word for bit, word in _REASONS.items() if bits & bit)
    return GpuState(clock, most, held_back_by)


@cache
def _handle(uuid: str) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """The library, initialised once in this process, and its name for the GPU.

    Raises:
        OSError: no such library, or it knows no such GPU.
    """
    library = ctypes.CDLL("libnvidia-ml.so.1")
    _check(library.nvmlInit_v2())
    handle = ctypes.c_void_p()
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    _check(library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)))
    return library, handle


def _asked(library: ctypes.CDLL, question: str, kind: Any, *arguments: object) -> int:
    answer = kind()
    _check(getattr(library, question)(*arguments, ctypes.byref(answer)))
    return int(answer.value)


def _check(code: int) -> None:
    if code != 0:
        raise OSError(f"NVML answers with the code {code}")
