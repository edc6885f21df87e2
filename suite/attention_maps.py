"""Where does each head look? The attention weights of a trained model, on one held-out example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from models import Mixer, Skeleton
from suite.matrices import evenly_chosen, matrix_specimen
from suite.schema import Specimen
from suite.tasks.task import Batch, Task

MAX_TOKENS = 32  # that are shown
MAX_LAYERS = 4
MAX_HEADS = 4  # of a layer
_MAX_COMPUTED = 1024  # tokens; beyond, the weights of all pairs would need too much memory

Call = tuple[tuple[Any, ...], dict[str, Any]]


def attention_maps(model: Skeleton, task: Task) -> list[Specimen]:
    """A map a head, of the first tokens of the first held-out example.

    Row i holds the weights that token i gives to the tokens shown. They are what it gives in the
    whole example: a causal model is shown no more than the map holds, which changes nothing.
    """
    mixers = mixers_of(model)
    having = [layer for layer, mixer in enumerate(mixers) if _has_weights(mixer)]
    if not having:
        return []
    layers = evenly_chosen(having, MAX_LAYERS)
    example = first_example(model, task, MAX_TOKENS if model.is_causal else None)
    with _calls_noted([mixers[layer] for layer in layers]) as calls:
        example.through(model)
    return [
        specimen
        for layer in layers
        for specimen in _of_layer(mixers[layer], calls[mixers[layer]], layer, shown(example, task))
    ]


def mixers_of(model: nn.Module) -> list[Mixer]:
    """Of all layers, from the bottom upwards."""
    return [module for module in model.modules() if isinstance(module, Mixer)]


def first_example(model: nn.Module, task: Task, max_tokens: int | None) -> Batch:
    """The first one of the validation split, or its first tokens, on the model's device."""
    held_out = next(iter(task.held_out("validation", 1)))
    mask = None if held_out.mask is None else held_out.mask[:1, :max_tokens]
    example = Batch(inputs=held_out.inputs[:1, :max_tokens], targets=held_out.targets, mask=mask)
    return example.to(str(next(model.parameters()).device))


def shown(example: Batch, task: Task) -> str:
    """The example's tokens as text; empty where they are none."""
    if task.input_kind != "tokens" or example.inputs.ndim != 2:
        return ""
    return task.text(example.inputs[0].tolist())


def _has_weights(mixer: Mixer) -> bool:
    return type(mixer).attention_weights is not Mixer.attention_weights


@contextmanager
def _calls_noted(mixers: Sequence[Mixer]) -> Iterator[dict[Mixer, Call]]:
    """What each is called with first, inside the block."""
    calls: dict[Mixer, Call] = {}

    def note(mixer: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        calls.setdefault(mixer, (arguments, named))

    hooks = [mixer.register_forward_pre_hook(note, with_kwargs=True) for mixer in mixers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _of_layer(mixer: Mixer, call: Call, layer: int, text: str) -> Iterator[Specimen]:
    arguments, named = call
    if arguments[0].shape[1] > _MAX_COMPUTED:
        return
    weights: Tensor = mixer.attention_weights(*arguments, **named)[0]  # [heads, time, time2]
    text = text if len(text) == weights.shape[-1] else ""  # as where a class token stands first
    for head in evenly_chosen(range(len(weights)), MAX_HEADS):
        yield matrix_specimen(
            "attention", f"layer {layer + 1}, head {head + 1}",
            weights[head, :MAX_TOKENS, :MAX_TOKENS], text=text[:MAX_TOKENS], low=0.0,
        )  # fmt: skip
