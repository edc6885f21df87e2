"""The table of probes: name -> "module:Class", resolved on first use."""

from __future__ import annotations

import importlib
from functools import cache

from suite.errors import unknown_name
from suite.probes.probe import Probe
from suite.spec import SpecError

PROBES: dict[str, str] = {
    "quality": "suite.probes.quality:Quality",
    "floors": "suite.probes.floors:Floors",
    "validation": "suite.probes.validation:Validation",
    "parameters": "suite.probes.model_counts:Parameters",
    "flops": "suite.probes.model_counts:ForwardFlops",
    "step_time": "suite.probes.step_time:StepTime",
    "decode": "suite.probes.decode:Decode",
    "peak_memory": "suite.probes.peak_memory:PeakMemory",
    "softmax": "suite.probes.softmax:Softmax",
    "data_parallel": "suite.probes.data_parallel:DataParallel",
    "gradient_by_distance": "suite.probes.gradient_by_distance:GradientByDistance",
    # of the mixer alone, along lengths and widths
    "mixer_time": "suite.probes.mixer_time:MixerTime",
    "mixer_memory": "suite.probes.mixer_memory:MixerMemory",
    "mixer_flops": "suite.probes.mixer_flops:MixerFlops",
    "path_length": "suite.probes.path_length:PathLength",
}


@cache
def probe(name: str) -> Probe:
    """The probe of that name.

    Raises:
        SpecError: if there is none; the message holds the nearest names.
    """
    if name not in PROBES:
        raise SpecError(unknown_name("probe", name, PROBES))
    module, _, kind = PROBES[name].partition(":")
    made: Probe = getattr(importlib.import_module(module), kind)()
    return made
