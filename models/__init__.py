"""The models under test: architectures, and the mixers and position encodings inside them.

Axes are written by name, batch first: `[batch, time, dim]`, `[batch, heads, time, time2]`. The
package depends on torch only and imports nothing of this project from outside `models/`. The names
below are imported on first use, so that `import models` does not load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bakeoff.models.architecture import Architecture, StackArchitecture
    from bakeoff.models.decoding import Decoded, Decoder, generate
    from bakeoff.models.errors import ModelError
    from bakeoff.models.initialisation import PartSeeds
    from bakeoff.models.interface import Input, Interface, Outputs
    from bakeoff.models.mixer import Cost, Mixer
    from bakeoff.models.model_spec import Knob, ModelSpec
    from bakeoff.models.registry import (
        ARCHITECTURES,
        MIXERS,
        POSITIONS,
        architecture_class,
        build_mixer,
        build_model,
        build_shapes,
        mixer_class,
        mixer_config,
        position_class,
    )

__all__ = [
    "ARCHITECTURES",
    "MIXERS",
    "POSITIONS",
    "Architecture",
    "Cost",
    "Decoded",
    "Decoder",
    "Input",
    "Interface",
    "Knob",
    "Mixer",
    "ModelError",
    "ModelSpec",
    "Outputs",
    "PartSeeds",
    "StackArchitecture",
    "architecture_class",
    "build_mixer",
    "build_model",
    "build_shapes",
    "generate",
    "mixer_class",
    "mixer_config",
    "position_class",
]

_HOMES = {
    "Architecture": "bakeoff.models.architecture",
    "Cost": "bakeoff.models.mixer",
    "Decoded": "bakeoff.models.decoding",
    "Decoder": "bakeoff.models.decoding",
    "Input": "bakeoff.models.interface",
    "Interface": "bakeoff.models.interface",
    "Knob": "bakeoff.models.model_spec",
    "Mixer": "bakeoff.models.mixer",
    "ModelError": "bakeoff.models.errors",
    "ModelSpec": "bakeoff.models.model_spec",
    "Outputs": "bakeoff.models.interface",
    "PartSeeds": "bakeoff.models.initialisation",
    "StackArchitecture": "bakeoff.models.architecture",
    "generate": "bakeoff.models.decoding",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bakeoff.models' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "bakeoff.models.registry")), name)
