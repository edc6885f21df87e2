"""Describe what a model reads, is asked for and returns, so that tasks and architectures can meet.

No torch here, as in `models.model_spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

if TYPE_CHECKING:
    from torch import Tensor

InputKind = Literal["tokens", "vectors", "image"]
Answer = Literal[
    "class",
    "number",
    "symbols",
    "next_symbols",
    "continuation",
    "sequence",
    "pair",
    "choice",
    "image",
    "drawing",
    "action",
]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)
INPUTS = "inputs"  # the name of the first input, which every interface has
CONTEXT = "context"  # that of a second stream, which some have
# Those of a model that acts, beside its states, one of each for each step: what it did, what return
# was asked for from there on, and the steps since the episode began.
ACTIONS, RETURNS, TIMES = "actions", "returns", "times"
SEGMENTS = "segments"  # that which says to which of two texts each token belongs, 0 or 1
# That which says which tokens are asked for, `[batch, answers]`, where not all are: answers then
# stand in its order, and a model is spared the others.
PLACES = "places"
DISTILLATION = "distillation"  # the auxiliary output that learns from a teacher
PENALTY = "penalty"  # that which is added to the loss of each example, `[batch]`
# Those of a model that compares images and texts, for a loss over all of a batch: the vector of
# each image, `[batch, size]`, those of its texts, `[batch, candidates, size]`, and what their
# products are multiplied by, `[batch]`.
IMAGE_VECTOR, TEXT_VECTOR, SCALE = "image_vector", "text_vector", "scale"
IMAGE_TOKENS = "image_tokens"  # those of a picture in a code of the model's own, `[batch, places]`
# With one row of outputs a token; the others have one a sequence.
PER_TOKEN: frozenset[Answer] = frozenset(
    {"symbols", "next_symbols", "continuation", "sequence", "action"}
)
# Where no output may depend on a later token of the inputs.
CAUSAL: frozenset[Answer] = frozenset({"next_symbols", "sequence"})


Count = TypeVar("Count", int, "Tensor")


def prefix_length(length: Count) -> Count:
    """Of so many tokens, those of the prefix, where a ``continuation`` is asked for."""
    return length // 2


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input of a model.

    Attributes:
        kind: ``tokens`` are integers `[batch, time]`; ``vectors`` are floats `[batch, time, size]`;
            an ``image`` is floats `[batch, rows, columns, size]`.
        size: Symbols of the vocabulary, features of a vector, or channels of an image.
        length: The most tokens, vectors or pixels.
        grid: Rows and columns of an image.
    """

    kind: InputKind
    size: int
    length: int
    grid: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Interface:
    """What a task gives to a model and what it asks for.

    Attributes:
        inputs: By the parameters of the model's `forward`: ``inputs``, and for a second stream
            ``context``. The masks of padded ones are ``mask`` and ``context_mask``.
        asks_for: A ``class`` or a ``number`` for each sequence; a ``class`` of a ``pair`` of
            sequences, whose inputs have an axis of two after the batch; the ``choice`` of one of
            several sequences, whose inputs have an axis of candidates there, with one logit each;
            one of the ``symbols`` for each token; the ``next_symbols``, where each token is
            answered from itself and earlier ones; the ``continuation`` of a text, likewise, but
            the first `prefix_length` tokens see each other; a ``sequence`` that the model writes,
            which in training is read like those; an ``image`` of `[rows, columns, output_size]`; or
            a ``drawing`` of one, by tokens whose logits are `[places, codes]`: such a model has
            ``num_image_tokens`` and ``draw(**inputs, chances)``, and returns the tokens of the
            image that it is given besides; or an ``action`` for each state of an episode, answered
            from it, from earlier states and actions, and from the returns asked for.
        output_size: Logits or numbers of one answer.
        is_padded: Whether sequences differ in length, so that batches have masks.
    """

    inputs: Mapping[str, Input]
    asks_for: Answer
    output_size: int
    is_padded: bool = False


class Outputs(NamedTuple):
    """Logits, and what a loss may read besides; a model without such returns its logits alone.

    A tuple and not a dataclass, since DeepSpeed, `torch.compile` and CUDA graphs look for tensors
    inside tuples and dictionaries only.

    Attributes:
        logits: `[..., outputs]`, what predictions and scores are made of.
        auxiliary: Tensors by name, as the logits of a second head or a penalty.
    """

    logits: Tensor
    auxiliary: Mapping[str, Tensor] = {}

    def map(self, change: Callable[[Tensor], Tensor]) -> Outputs:
        """The outputs with each of their tensors changed."""
        auxiliary = {name: change(tensor) for name, tensor in self.auxiliary.items()}
        return Outputs(change(self.logits), auxiliary)
