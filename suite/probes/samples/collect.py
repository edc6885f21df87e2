"""Collect samples of a trained model for readers: attention, positions, texts, images.

Samples are taken for the first seed, once the last number is known, and change no number: the model
is in evaluation mode, and torch's random state is restored. A sample that fails is left out, since
a picture must not cost a result. A sample holds one byte per value, so that pages stay small.

A language model continues a held-out prompt, token by token: by the step form if its mixers have
one, as models decode in use; otherwise the whole context is read again for every token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models import Architecture, Mixer
from bakeoff.models.interface import INPUTS
from bakeoff.models.positions.absolute import Position
from bakeoff.models.positions.relative import RelativePosition
from bakeoff.suite.probes.samples import vision
from bakeoff.suite.probes.samples.building import (
    Call,
    Look,
    calls_noted,
    device_of,
    evenly_chosen,
    has_weights,
    matrix_sample,
    mixers_of,
)
from bakeoff.suite.schema import Sample
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training.engines.engine import in_evaluation_mode

MAX_TOKENS = 32  # the tokens of an attention map
MAX_LAYERS = 4
MAX_HEADS = 4  # per layer
MAX_POSITIONS = 64
COSINE = "cosine similarity"
FIRST_SEED = 0
NUM_TOKENS = 200  # the tokens of a continuation
MAX_PROMPT = 64
TEMPERATURE = 0.8
_SEED = 0  # the seed of the drawn tokens, the same for all variants
_CONTEXT_MIXER = "context_mixer"  # the name of a block's part, see `bakeoff.models.stack.Block`
_MAX_COMPUTED = 1024  # tokens; beyond, the weights of all pairs would need too much memory


def samples_of(
    model: Architecture, task: Task, seed: int, looks: Sequence[Look] | None = None
) -> tuple[Sample, ...]:
    """Return the samples of a trained model; empty for other seeds than the first.

    Args:
        model: The trained model; its device and mode are left unchanged.
        task: The task that it was trained on. Samples use validation data, never test data.
        seed: The seed of the trial.
        looks: The functions that collect samples. The default is `looks_for(task)`.
    """
    found: list[Sample] = []
    if seed == FIRST_SEED:
        with _undisturbed(model):
            for look in looks_for(task) if looks is None else looks:
                with suppress(Exception, SystemExit):  # a mixer may do anything
                    found.extend(look(model, task))
    return tuple(found)


def looks_for(task: Task) -> tuple[Look, ...]:
    """Return the functions that collect samples on that task."""
    return (attention_maps, position_matrices, continuation, *vision.looks_for(task))


@contextmanager
def _undisturbed(model: Architecture) -> Iterator[None]:
    """Evaluate without gradients inside the block, and restore torch's random state after it."""
    devices = {parameter.device for parameter in model.parameters()}
    cards = [device for device in devices if device.type == "cuda"]
    with torch.random.fork_rng(devices=cards), in_evaluation_mode(model), torch.no_grad():
        yield


def attention_maps(model: Architecture, task: Task) -> list[Sample]:
    """Return one map per head for the first tokens of the first held-out example, without padding.

    Row i holds the weights that token i gives to the tokens shown. They are the weights over the
    whole example; a causal model is only given the tokens of the map, which does not change them.

    The titles name encoder and decoder for a model with a source. The cross-attention mixers have
    no map here, since its rows and columns are different texts; see
    `bakeoff.suite.probes.samples.translations.alignments`.
    """
    example = first_example(model, task, MAX_TOKENS if model.is_causal else None)
    sides = [side for side in _sides(model, task, example) if side.layers]
    calls: dict[Mixer, Call] = {}
    if sides:
        with calls_noted([side.layers[layer] for side in sides for layer in side.layers]) as calls:
            example.through(model)
    return [
        sample
        for side in sides
        for layer, mixer in side.layers.items()
        for sample in _of_layer(mixer, calls[mixer], f"{side.name}layer {layer + 1}", side)
    ]


@dataclass(frozen=True)
class Side:
    """One stack of a model.

    Attributes:
        name: The words before a layer's name, such as ``encoder ``; empty if there is only one
            stack.
        layers: Some of its mixers that have weights, by their index in the stack.
        text: The tokens that it reads, one character each; empty if they are not characters.
        num_tokens: The number of tokens without padding, or None if there is no padding.
    """

    name: str
    layers: Mapping[int, Mixer]
    text: str
    num_tokens: int | None


def _sides(model: Architecture, task: Task, example: Batch) -> Iterator[Side]:
    stacks = (("encoder", "context"), ("decoder", INPUTS)) if model.spec.others else (("", INPUTS),)
    for name, stream in stacks:
        mixers = [
            module
            for path, module in model.named_modules()
            if isinstance(module, Mixer)
            and path.startswith(name)
            and not path.endswith(_CONTEXT_MIXER)
        ]
        having = [layer for layer, mixer in enumerate(mixers) if has_weights(mixer)]
        chosen = evenly_chosen(having, MAX_LAYERS // len(stacks))
        mask = example.inputs.get("mask" if stream == INPUTS else f"{stream}_mask")
        yield Side(
            name=f"{name} " if name else "",
            layers={layer: mixers[layer] for layer in chosen},
            text=shown(example, task, stream),
            num_tokens=None if mask is None or not name else int(mask[0].sum()),
        )


def first_example(model: Architecture, task: Task, max_tokens: int | None) -> Batch:
    """Return the first validation example, or its first tokens, on the model's device."""
    held_out = next(iter(task.held_out("validation", 1)))
    example = held_out.rows(slice(1))
    if max_tokens is not None:
        own = {name: example.inputs[name] for name in ("inputs", "mask") if name in example.inputs}
        cut = {name: tensor[:, :max_tokens] for name, tensor in own.items()}
        example = replace(example, inputs={**example.inputs, **cut})
    return example.to(device_of(model))


def shown(example: Batch, task: Task, stream: str = INPUTS) -> str:
    """Return the tokens of the example as text; empty if they are not text."""
    inputs = example.inputs[stream]
    return task.text(inputs[0].tolist()) if task.input_kind == "tokens" and inputs.ndim == 2 else ""


def _of_layer(mixer: Mixer, call: Call, title: str, side: Side) -> Iterator[Sample]:
    arguments, named = call
    if arguments[0].shape[1] > _MAX_COMPUTED:
        return
    weights: Tensor = mixer.attention_weights(*arguments, **named)[0]  # [heads, time, time2]
    # The lengths differ if there is a class token, or if tokens are pieces of words.
    text = side.text if len(side.text) == weights.shape[-1] else ""
    most = min(MAX_TOKENS, side.num_tokens or MAX_TOKENS)
    for head in evenly_chosen(range(len(weights)), MAX_HEADS):
        yield matrix_sample(
            "attention",
            f"{title}, head {head + 1}",
            weights[head, :most, :most],
            text=text[:most],
            low=0.0,
        )


def position_matrices(model: Architecture, task: Task) -> list[Sample]:
    """Return the cosines between the vectors of an absolute position, and the bias of each head.

    Other positions (none, rope, shaw) have no such matrix. The cosines between the positions of a
    grid are shown on the grid, see `bakeoff.suite.probes.samples.vision`.
    """
    cosines = () if model.patch_grid() else _cosines(model)
    return [*cosines, *_biases(model)]


def _cosines(model: Architecture) -> Iterator[Sample]:
    for position in model.modules():
        if isinstance(position, Position):
            vectors = position.vectors(min(MAX_POSITIONS, position.max_length))
            if vectors is not None:
                unit = functional.normalize(vectors.double(), dim=-1)
                yield matrix_sample("positions", COSINE, unit @ unit.T)


def _biases(model: Architecture) -> Iterator[Sample]:
    """Yield the bias of each head, without layers that repeat that of the first, as for ALiBi."""
    mixers = mixers_of(model)
    places = torch.arange(min(MAX_TOKENS, model.spec.length), device=device_of(model))
    first: Tensor | None = None
    for layer in evenly_chosen(range(len(mixers)), MAX_LAYERS):
        bias = _bias(mixers[layer], places[None, :] - places[:, None])
        if bias is None or (first is not None and torch.equal(bias, first)):
            continue
        first = bias if first is None else first
        for head in evenly_chosen(range(len(bias)), MAX_HEADS):
            yield matrix_sample("positions", f"layer {layer + 1}, head {head + 1}", bias[head])


def _bias(mixer: Mixer, distance: Tensor) -> Tensor | None:
    """Return the bias that is added to the scaled scores, `[heads, time, time]`."""
    for module in mixer.modules():
        if isinstance(module, RelativePosition):
            return module.bias(distance, torch.float32)
    return None


def continuation(model: Architecture, task: Task) -> list[Sample]:
    """Return the prompt and its continuation; empty if the model or the task has no text.

    The list is empty for a model with a source too, since it has no prompt.
    """
    if not model.can_write() or model.spec.others:
        return []
    example = first_example(model, task, min(MAX_PROMPT, max(1, model.spec.length // 2)))
    prompt = shown(example, task)
    if not prompt:
        return []
    written = written_on(model, example.inputs["inputs"][0].tolist(), NUM_TOKENS)
    return [
        Sample(kind="text", title="prompt", text=prompt),
        Sample(kind="text", title="continuation", text=task.text(written)),
    ]


def written_on(model: Any, tokens: Sequence[int], num_tokens: int) -> list[int]:
    """Return the next tokens, drawn one by one from the model's sharpened probabilities."""
    generator = torch.Generator().manual_seed(_SEED)
    seen = list(tokens)
    can_step = all(mixer.supports_step for mixer in mixers_of(model))
    following = _by_steps(model, seen) if can_step else _by_windows(model, seen)
    for _ in range(num_tokens):
        probabilities = (next(following).float().cpu() / TEMPERATURE).softmax(dim=-1)
        seen.append(int(torch.multinomial(probabilities, 1, generator=generator)))
    return seen[len(tokens) :]


def _by_steps(model: Any, seen: list[int]) -> Iterator[Tensor]:
    """Yield the logits of the next token; the caller appends a token to `seen` in between.

    Positions end at the length at which the model was trained. There the state is initialised
    again, and the last quarter is read again.
    """
    length = model.spec.length
    device = device_of(model)
    state, unread = model.initial_state(1), seen[-length:]
    while True:
        for token in unread:
            logits, state = model.step(torch.tensor([token], device=device), state)
        yield logits[0]
        is_full = state.num_tokens == length
        unread = seen[-max(1, length // 4) :] if is_full else seen[-1:]
        state = model.initial_state(1) if is_full else state


def _by_windows(model: Any, seen: list[int]) -> Iterator[Tensor]:
    """Yield the same as `_by_steps` without a step form, from the largest window."""
    device = device_of(model)
    while True:
        window = torch.tensor([seen[-model.spec.length :]], device=device)
        yield model(window)[0, -1]
