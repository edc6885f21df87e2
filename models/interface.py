"""Describe what a model reads and returns, so that tasks and architectures can be matched.

This module imports no torch, like `bakeoff.models.model_spec`.
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
CONTEXT = "context"  # the name of a second stream, which some have
# Inputs of a model that acts, besides its states, one of each per step: the action, the return
# asked for from that step on, and the steps since the episode began.
ACTIONS, RETURNS, TIMES = "actions", "returns", "times"
SEGMENTS = "segments"  # the input that assigns each token to one of two texts, 0 or 1
# The input with the positions of the tokens to answer, `[batch, answers]`, if not all are needed:
# outputs are in its order, and a model need not compute the others.
PLACES = "places"
DISTILLATION = "distillation"  # the auxiliary output trained on a teacher's outputs
PENALTY = "penalty"  # the auxiliary output that is added to the loss of each example, `[batch]`
# Auxiliary outputs of a model that compares images and texts, for a loss over the whole batch: the
# vector of each image, `[batch, size]`, the vectors of its texts, `[batch, candidates, size]`, and
# the factor of their products, `[batch]`.
IMAGE_VECTOR, TEXT_VECTOR, SCALE = "image_vector", "text_vector", "scale"
IMAGE_TOKENS = "image_tokens"  # tokens of an image in the model's own code, `[batch, places]`
# Answers with one row of outputs per token; the others have one per sequence.
PER_TOKEN: frozenset[Answer] = frozenset(
    {"symbols", "next_symbols", "continuation", "sequence", "action"}
)
# Answers for which no output may depend on a later token of the inputs.
CAUSAL: frozenset[Answer] = frozenset({"next_symbols", "sequence"})


Count = TypeVar("Count", int, "Tensor")


def prefix_length(length: Count) -> Count:
    """Return the length of the prefix of `length` tokens, for the answer ``continuation``."""
    return length // 2


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input of a model.

    Attributes:
        kind: ``tokens`` are integers `[batch, time]`; ``vectors`` are floats `[batch, time, size]`;
            an ``image`` is floats `[batch, rows, columns, size]`.
        size: Size of the vocabulary, number of features of a vector, or channels of an image.
        length: The maximum number of tokens, vectors or pixels.
        grid: Rows and columns of an image.
    """

    kind: InputKind
    size: int
    length: int
    grid: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Interface:
    """The inputs that a task gives to a model, and the answer that it asks for.

    Attributes:
        inputs: Inputs by the parameters of the model's `forward`: ``inputs``, and ``context`` for a
            second stream. Padded ones have the masks ``mask`` and ``context_mask``.
        asks_for: The kind of answer:

            - ``class`` or ``number``: one for each sequence.
            - ``pair``: a class for each pair of sequences; the inputs have an axis of two after the
              batch.
            - ``choice``: one of several sequences; the inputs have an axis of candidates after the
              batch, and each candidate gets one logit.
            - ``symbols``: a symbol for each token.
            - ``next_symbols``: a symbol for each token, from itself and earlier ones only.
            - ``continuation``: the same, but the first `prefix_length` tokens attend to each other.
            - ``sequence``: a sequence that the model writes; in training it is read as for
              ``next_symbols``.
            - ``image``: `[rows, columns, output_size]`.
            - ``drawing``: an image in tokens, whose logits are `[places, codes]`. Such a model has
              ``num_image_tokens`` and ``draw(**inputs, chances)``, and also returns the tokens of
              the image that it is given.
            - ``action``: an action for each state of an episode, from that state, earlier states
              and actions, and the desired returns.
        output_size: Number of logits or numbers per answer.
        is_padded: Whether sequences differ in length, so that batches have masks.
    """

    inputs: Mapping[str, Input]
    asks_for: Answer
    output_size: int
    is_padded: bool = False


class Outputs(NamedTuple):
    """Logits and further tensors for a loss; a model without these returns its logits alone.

    This is a tuple and not a dataclass, since DeepSpeed, `torch.compile` and CUDA graphs look for
    tensors in tuples and dictionaries only.

    Attributes:
        logits: `[..., outputs]`, from which predictions and scores are computed.
        auxiliary: Tensors by name, such as the logits of a second head or a penalty.
    """

    logits: Tensor
    auxiliary: Mapping[str, Tensor] = {}

    def map(self, change: Callable[[Tensor], Tensor]) -> Outputs:
        """Return the outputs with a function applied to each tensor."""
        auxiliary = {name: change(tensor) for name, tensor in self.auxiliary.items()}
        return Outputs(change(self.logits), auxiliary)
