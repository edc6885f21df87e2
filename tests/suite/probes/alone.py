"""Trials of a mixer alone."""

from __future__ import annotations

from models import ModelSpec
from models.model_spec import Knob
from suite.schema import MIXER_ALONE, Trial


def trial_of_mixer(probe: str, mixer: str, length: int, *, dim: int = 64, **knobs: Knob) -> Trial:
    """One layer, as a sweep has it."""
    spec = ModelSpec(
        skeleton="mixer_alone", mixer=mixer, knobs=knobs, position="none", dim=dim, depth=1,
        length=length, input_kind="vectors", input_size=dim, output_size=dim,
    )  # fmt: skip
    return Trial(
        probe=probe, task=MIXER_ALONE, task_digest="", length=length, batch=1, subjects=(spec,),
        training=None, seed=0, versions={},
    )  # fmt: skip
