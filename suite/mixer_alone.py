"""Which mixers stand alone, and at which lengths and widths? The sweeps of a scale, spelled out.

A probe that measures the mixer alone meets no task: one layer, vectors in and out, no position
but one that acts inside the mixer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models import ModelSpec
from models.registry import relative_position
from suite.spec import Scale, SpecError
from suite.subjects import (
    Subject,
    checked_knobs,
    knobs_and_settings,
    position_of,
    refuse_unbuildable,
    runtime_of,
    scale_of,
)
from suite.variants import Baseline, Variant

SKELETON = "mixer_alone"


@dataclass(frozen=True, kw_only=True)
class Coordinate:
    """A place of a sweep.

    Attributes:
        at: As in the table, ``length=1024`` or ``dim=128``.
        changes: What it sets of the scale.
        is_along_lengths: Along lengths; else along widths.
    """

    at: str
    changes: Mapping[str, int]
    is_along_lengths: bool

    @property
    def length(self) -> int:
        """Tokens."""
        return self.changes["length"]


def coordinates(scale: Scale) -> tuple[Coordinate, ...]:
    """Every length at the scale's width, then every width at one length.

    Raises:
        SpecError: where the scale names no length.
    """
    if not scale.lengths:
        raise SpecError(
            "a probe of the mixer alone measures along lengths; give Scale(lengths=[64, 128, ...])."
        )
    middle = scale.dims_length or scale.lengths[len(scale.lengths) // 2]
    along_lengths = [
        Coordinate(at=f"length={length}", changes={"length": length}, is_along_lengths=True)
        for length in scale.lengths
    ]
    along_dims = [
        Coordinate(at=f"dim={dim}", changes={"dim": dim, "length": middle}, is_along_lengths=False)
        for dim in scale.dims
    ]
    return (*along_lengths, *along_dims)


def mixer_subject_of(baseline: Baseline, variant: Variant, coordinate: Coordinate) -> Subject:
    """The variant's mixer at the coordinate, one sequence a batch.

    Raises:
        SpecError: for what is misspelt or mistyped.
        Impossible: for what has no sense.
    """
    scale = scale_of(baseline.scale, {**variant.changes, **coordinate.changes})
    spec = _model_spec(baseline, variant, scale)
    refuse_unbuildable(spec)
    return Subject(
        task=None, model=spec, training=None, length=scale.length, batch=1, parallel=None
    )  # fmt: skip


def _model_spec(baseline: Baseline, variant: Variant, scale: Scale) -> ModelSpec:
    model = baseline.ablation.baseline
    mixer = str(variant.changes.get("mixer", model.mixer))
    knobs, _ = knobs_and_settings(model.knobs, variant, mixer, SKELETON)
    position = position_of(str(variant.changes.get("position", model.position)))
    return ModelSpec(
        skeleton=SKELETON,
        mixer=mixer,
        knobs=checked_knobs(mixer, scale.dim, knobs),
        position=position if relative_position(position) else "none",
        dim=scale.dim,
        depth=1,
        length=scale.length,
        input_kind="vectors",
        input_size=scale.dim,
        output_size=scale.dim,
        runtime=runtime_of(str(variant.changes.get("runtime", model.runtime)), mixer, scale),
    )
