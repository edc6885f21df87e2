"""What `build_model` needs to know: one frozen value that names a whole model, and nothing else.

No torch here: a plan made of these values prints on any laptop, and their hash names a trial.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

Knob = bool | int | float | str | None
InputKind = Literal["tokens", "vectors"]
Runtime = Literal["eager", "compiled", "cuda_graph"]
RUNTIMES: tuple[Runtime, ...] = get_args(Runtime)


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model, complete: in a plan every knob stands here with its value, defaults included.

    Attributes:
        skeleton: Name of the part that stays still, a key of `models.SKELETONS`.
        mixer: A key of `models.MIXERS`, or a user's own as ``package.module:Class``.
        knobs: The mixer's `Config`, field by field.
        position: A key of `models.POSITIONS`: an absolute one meets the embeddings, a relative one
            acts inside the mixers.
        dim: Width of the model.
        depth: Number of blocks.
        length: The longest sequence that the model will see, in tokens.
        input_kind: ``tokens`` are integers `[batch, time]`; ``vectors`` are floats
            `[batch, time, input_size]`.
        input_size: Size of the vocabulary, or features of one input vector.
        output_size: Number of logits per token (language models, tagger), per sequence or pair
            (classifiers).
        settings: The skeleton's `Config`, field by field; what is left out has its default.
        runtime: How forward and backward are run: operation by operation (``eager``), compiled by
            torch (``compiled``), or captured once and replayed (``cuda_graph``). Changes what the
            model costs, never what it computes.
    """

    skeleton: str
    mixer: str
    knobs: Mapping[str, Knob]
    position: str
    dim: int
    depth: int
    length: int
    input_kind: InputKind
    input_size: int
    output_size: int
    settings: Mapping[str, Knob] = field(default_factory=dict)
    runtime: Runtime = "eager"

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """By name, in plain values: what is hashed, a hundred times for one model of a plan."""
        return asdict(self)

    @cached_property
    def spelling(self) -> str:
        """JSON that two models share exactly where they are the same."""
        return canonical_json(self.fields)


def canonical_json(content: Any) -> str:
    """The one spelling of a value that is hashed. Refuses NaN and infinities."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_hash(content: Any) -> str:
    """First 32 hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:32]
