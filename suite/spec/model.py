"""The part of a specification that names the model."""

from __future__ import annotations

import math
import reprlib
from typing import Annotated

from pydantic import Field

from bakeoff.models.errors import ModelError
from bakeoff.models.model_spec import Knob
from bakeoff.models.presets import preset as preset_named
from bakeoff.suite.spec.fields import FrozenSpec, Name, SpecError, printed

SIZES = ("dim", "depth")  # set on the model itself, else taken from the scale
_LARGEST = 2**53  # integers up to here survive JSON and a column of floats


class Model(FrozenSpec):
    """A model to build, for example ``Model("language_model", mixer="attention", heads=8)``.

    Attributes:
        architecture: A shipped architecture, or the user's own as ``package.module:Class``; by
            default that of each task.
        mixer: A shipped mixer, or the user's own as ``package.module:Class``, or None if the
            architecture does not take a mixer.
        preset: A named size from a paper, for example ``vit_tiny``
            (`bakeoff.models.presets.PRESETS`). It fills in all fields that are not given,
            including the architecture.
        position: The position encoding, for an architecture that has a choice of it.
        dim: Model width; by default the scale's.
        depth: Number of blocks; by default the scale's.
        label: The name in an axis of models, for example ``ViT`` for ``model=ViT``; the default is
            the mixer or architecture with all fields that are set. It does not affect results.
        knobs: Fields of the `Config` of the mixer and of the architecture, given as further
            keywords: ``heads=8, norm_placement="post"``.
    """

    architecture: Name | None = None
    mixer: Name | None = None
    preset: Name | None = None
    position: Name = "sinusoidal"
    dim: Annotated[int, Field(ge=1, le=65_536)] | None = None
    depth: Annotated[int, Field(ge=1, le=1_024)] | None = None
    label: Annotated[str, Field(pattern=r"^[^=,;()\s][^=,;()]{0,39}$")] | None = None
    knobs: dict[str, Knob] = Field(default_factory=dict)

    def __init__(
        self,
        architecture: str | None = None,
        *,
        mixer: str | None = None,
        preset: str | None = None,
        position: str | None = None,
        dim: int | None = None,
        depth: int | None = None,
        **knobs: Knob,
    ) -> None:
        label = knobs.pop("label", None)  # not a knob
        parts: dict[str, object] = {
            "architecture": architecture,
            "mixer": mixer,
            "preset": preset,
            "position": position,
            "dim": dim,
            "depth": depth,
        }
        for name, given in parts.items():
            if isinstance(given, type):
                path = f"{given.__module__}:{given.__qualname__}"
                raise SpecError(f"Model: {name} is a class; name it by its import path, {path!r}.")
        of_preset, knobs_of_preset = _of_preset(preset, architecture)
        checked = {name: scalar(f"Model: {name}=", value) for name, value in knobs.items()}
        fields = {
            **of_preset,
            **{name: given for name, given in parts.items() if given is not None},
            "label": label,
            "knobs": {**knobs_of_preset, **checked},
        }
        super().__init__(**fields)

    @property
    def sizes(self) -> dict[str, Knob]:
        """The sizes that are set on the model itself."""
        every = {name: getattr(self, name) for name in SIZES}
        return {name: size for name, size in every.items() if size is not None}

    def own_values(self) -> dict[str, Knob]:
        """Return the fields that differ from the preset or, without one, from the defaults."""
        mine = {"position": self.position, **self.sizes, **self.knobs}
        usual = {"position": type(self).model_fields["position"].default}
        if self.preset is not None:
            mine = {"mixer": self.mixer, **mine}
            usual |= preset_named(self.preset).fields
        return {k: v for k, v in mine.items() if k not in usual or not is_alike(v, usual[k])}


def is_alike(value: object, other: object) -> bool:
    """Return True if both are equal in type and value: True is not 1, and 8.0 is not 8."""
    return type(value) is type(other) and value == other


def _of_preset(name: object, architecture: object) -> tuple[dict[str, object], dict[str, Knob]]:
    """Return the fields of a model that a preset fills in, and its knobs.

    Raises:
        SpecError: If no preset has that name, or if it belongs to another architecture.
    """
    if not isinstance(name, str):
        return {}, {}
    try:
        found = preset_named(name)
    except ModelError as error:
        raise SpecError(f"Model: {error}.") from None
    if architecture not in (None, found.architecture):
        raise SpecError(
            f"Model: the preset {name!r} is of {found.architecture}, not of {architecture}."
        )
    parts = {"mixer", "position", *SIZES}
    knobs = {key: value for key, value in found.fields.items() if key not in parts}
    given: dict[str, object] = {k: v for k, v in found.fields.items() if k in parts}
    return {"architecture": found.architecture, **given}, knobs


_SCALAR = (
    "a string of at most 200 printable characters, a bool, None or a finite number, a whole one at "
    "most 2**53"
)


def scalar(said: str, value: object) -> Knob:
    """Return the value as a plain type: a NumPy float64 becomes a float, a StrEnum a string.

    Args:
        said: The beginning of the error message, for example ``Model: heads=``.
        value: The value of a knob.

    Raises:
        SpecError: If the value is not a scalar.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value) + 0.0  # turns -0.0 into 0.0
    if isinstance(value, int) and abs(value) <= _LARGEST:
        return int(value)
    if isinstance(value, str) and len(value) <= 200 and value.isprintable():
        return printed(str.__str__(value))
    raise SpecError(f"{said}{reprlib.repr(value)} must be {_SCALAR}.")
