"""Build the models of presets at the size of their papers."""

from __future__ import annotations

from typing import Any

from bakeoff.models import ModelSpec, architecture_class
from bakeoff.models.presets import Preset, preset
from bakeoff.models.registry import knobs_of_mixer


def full_size(name: str, *, num_classes: int = 1000, **changes: Any) -> ModelSpec:
    """Return a preset's spec for colour images of its size, or for texts of its own vocabulary.

    `changes` are fields that replace or extend the preset's.
    """
    named = preset(name)
    fields: dict[str, Any] = {**named.fields, **changes}
    side = fields.pop("side", named.side)
    parts = {key: fields.pop(key) for key in ("mixer", "position", "dim", "depth") if key in fields}
    of_mixer = knobs_of_mixer(parts["mixer"]) if "mixer" in parts else frozenset()
    takes = architecture_class(named.architecture).takes
    return ModelSpec(
        architecture=named.architecture,
        **{"position": "none", **parts} if "position" in takes else parts,
        knobs={key: value for key, value in fields.items() if key in of_mixer},
        settings={key: value for key, value in fields.items() if key not in of_mixer},
        **(_of_text(named) if named.vocabulary else _of_images(side, num_classes)),
    )


def _of_images(side: int, num_classes: int) -> dict[str, Any]:
    return {
        "length": side**2,
        "input_kind": "image",
        "input_size": 3,
        "grid": (side, side),
        "output_size": num_classes,
    }


def _of_text(named: Preset) -> dict[str, Any]:
    return {
        "length": named.length,
        "input_kind": "tokens",
        "input_size": named.vocabulary,
        "output_size": named.vocabulary,
    }
