"""The models under test: architectures, and the mixers and position encodings inside them.

Axes are written by name, batch first: `[batch, time, dim]`, `[batch, heads, time, time2]`. The
package depends on torch only and imports nothing of this project from outside `models/`. The names
below are imported on first use, so that `import models` does not load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.architecture import Architecture, StackArchitecture
    from models.decoding import Decoded, Decoder, generate
    from models.errors import ModelError
    from models.initialisation import PartSeeds
    from models.interface import Input, Interface, Outputs
    from models.mixer import Cost, Mixer
    from models.model_spec import Knob, ModelSpec
    from models.registry import (
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
    "Architecture": "models.architecture",
    "Cost": "models.mixer",
    "Decoded": "models.decoding",
    "Decoder": "models.decoding",
    "Input": "models.interface",
    "Interface": "models.interface",
    "Knob": "models.model_spec",
    "Mixer": "models.mixer",
    "ModelError": "models.errors",
    "ModelSpec": "models.model_spec",
    "Outputs": "models.interface",
    "PartSeeds": "models.initialisation",
    "StackArchitecture": "models.architecture",
    "generate": "models.decoding",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'models' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "models.registry")), name)
