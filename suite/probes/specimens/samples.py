"""Collect what a trained model leaves to look at: attention maps, position matrices, a text.

A vision model leaves pictures besides, see `suite.probes.specimens.images`.

For people, of one seed, once the last number is known. None of it moves a number: the model is in
evaluation mode, and torch's random state is restored. What fails is left out, since a picture must
not cost a result.

A language model continues a held-out prompt, token by token: by the step form where the mixers
have it, as models decode in use; else all that it sees is read again for every token.

A specimen holds one byte a value, so that a page of them stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models import Architecture, Mixer
from models.interface import INPUTS
from models.positions.absolute import Position
from models.positions.relative import RelativePosition
from suite.probes.specimens.calls import Call, calls_noted, has_weights
from suite.probes.specimens.calls import mixers_of as mixers_of
from suite.probes.specimens.matrix import evenly_chosen, matrix_specimen
from suite.schema import Specimen
from suite.tasks.task import Batch, Task
from suite.training.engines.engine import in_evaluation_mode

MAX_TOKENS = 32  # that are shown
MAX_LAYERS = 4
MAX_HEADS = 4  # of a layer
MAX_PLACES = 64
COSINE = "cosine similarity"
_CONTEXT_MIXER = "context_mixer"  # the name of a block's part, see `models.stack.Block`
_MAX_COMPUTED = 1024  # tokens; beyond, the weights of all pairs would need too much memory


def attention_maps(model: Architecture, task: Task) -> list[Specimen]:
    """A map a head, of the first tokens of the first held-out example; padding is left out.

    Row i holds the weights that token i gives to the tokens shown. They are what it gives in the
    whole example: a causal model is shown no more than the map holds, which changes nothing.

    Of a model with a source the titles name encoder and decoder. What mixes the source into the
    decoder has no map here: its rows and columns are different texts, see
    `suite.probes.specimens.translations.alignments`.
    """
    example = first_example(model, task, MAX_TOKENS if model.is_causal else None)
    sides = [side for side in _sides(model, task, example) if side.layers]
    calls: dict[Mixer, Call] = {}
    if sides:
        with calls_noted([side.layers[layer] for side in sides for layer in side.layers]) as calls:
            example.through(model)
    return [
        specimen
        for side in sides
        for layer, mixer in side.layers.items()
        for specimen in _of_layer(mixer, calls[mixer], f"{side.name}layer {layer + 1}", side)
    ]


@dataclass(frozen=True)
class Side:
    """One stack of a model.

    Attributes:
        name: As ``encoder `` before a layer's name; empty where there is one stack.
        layers: Some of its mixers that have weights, by their place in the stack.
        text: Of the tokens that it reads, a character each; empty where they are none.
        num_tokens: How many are no padding; None where all are.
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


def first_example(model: nn.Module, task: Task, max_tokens: int | None) -> Batch:
    """The first one of the validation split, or its first tokens, on the model's device."""
    held_out = next(iter(task.held_out("validation", 1)))
    example = held_out.rows(slice(1))
    if max_tokens is not None:
        own = {name: example.inputs[name] for name in ("inputs", "mask") if name in example.inputs}
        cut = {name: tensor[:, :max_tokens] for name, tensor in own.items()}
        example = replace(example, inputs={**example.inputs, **cut})
    return example.to(str(next(model.parameters()).device))


def shown(example: Batch, task: Task, stream: str = INPUTS) -> str:
    """The example's tokens as text; empty where they are none."""
    inputs = example.inputs[stream]
    return task.text(inputs[0].tolist()) if task.input_kind == "tokens" and inputs.ndim == 2 else ""


def _of_layer(mixer: Mixer, call: Call, title: str, side: Side) -> Iterator[Specimen]:
    arguments, named = call
    if arguments[0].shape[1] > _MAX_COMPUTED:
        return
    weights: Tensor = mixer.attention_weights(*arguments, **named)[0]  # [heads, time, time2]
    # Other lengths: a class token stands first, or tokens are pieces of words.
    text = side.text if len(side.text) == weights.shape[-1] else ""
    most = min(MAX_TOKENS, side.num_tokens or MAX_TOKENS)
    for head in evenly_chosen(range(len(weights)), MAX_HEADS):
        yield matrix_specimen(
            "attention",
            f"{title}, head {head + 1}",
            weights[head, :most, :most],
            text=text[:most],
            low=0.0,
        )


def position_matrices(model: Architecture, task: Task) -> list[Specimen]:
    """Of an absolute position the cosines between its vectors, of a bias the matrix of each head.

    Positions that act in another way (none, rope, shaw) have no such matrix. Cosines between the
    places of a grid are shown on it, see `suite.probes.specimens.images`.
    """
    cosines = () if model.patch_grid() else _cosines(model)
    return [*cosines, *_biases(model)]


def _cosines(model: Architecture) -> Iterator[Specimen]:
    for position in model.modules():
        if isinstance(position, Position):
            vectors = position.vectors(min(MAX_PLACES, position.max_length))
            if vectors is not None:
                unit = functional.normalize(vectors.double(), dim=-1)
                yield matrix_specimen("positions", COSINE, unit @ unit.T)


def _biases(model: Architecture) -> Iterator[Specimen]:
    """Layers that add what the first of them adds are left out: ALiBi's are all alike."""
    mixers = mixers_of(model)
    places = torch.arange(
        min(MAX_TOKENS, model.spec.length), device=next(model.parameters()).device
    )
    first: Tensor | None = None
    for layer in evenly_chosen(range(len(mixers)), MAX_LAYERS):
        bias = _bias(mixers[layer], places[None, :] - places[:, None])
        if bias is None or (first is not None and torch.equal(bias, first)):
            continue
        first = bias if first is None else first
        for head in evenly_chosen(range(len(bias)), MAX_HEADS):
            yield matrix_specimen("positions", f"layer {layer + 1}, head {head + 1}", bias[head])


def _bias(mixer: Mixer, distance: Tensor) -> Tensor | None:
    """What is added to the scaled scores, `[heads, time, time]`."""
    for module in mixer.modules():
        if isinstance(module, RelativePosition):
            return module.bias(distance, torch.float32)
    return None


FIRST_SEED = 0
NUM_TOKENS = 200
MAX_PROMPT = 64
TEMPERATURE = 0.8
_SEED = 0  # of the drawn tokens; the same for all variants, so that only what they learned differs


def continuation(model: Architecture, task: Task) -> list[Specimen]:
    """The prompt and what follows it; nothing where the model or the task writes no text.

    Nothing either of a model that writes about a source: what it writes has no prompt.
    """
    if not model.can_write() or model.spec.others:
        return []
    example = first_example(model, task, min(MAX_PROMPT, max(1, model.spec.length // 2)))
    prompt = shown(example, task)
    if not prompt:
        return []
    written = written_on(model, example.inputs["inputs"][0].tolist(), NUM_TOKENS)
    return [
        Specimen(kind="text", title="prompt", text=prompt),
        Specimen(kind="text", title="continuation", text=task.text(written)),
    ]


def written_on(model: Any, tokens: Sequence[int], num_tokens: int) -> list[int]:
    """What follows the tokens, drawn one by one from the model's sharpened probabilities."""
    generator = torch.Generator().manual_seed(_SEED)
    seen = list(tokens)
    can_step = all(mixer.supports_step for mixer in mixers_of(model))
    following = _by_steps(model, seen) if can_step else _by_windows(model, seen)
    for _ in range(num_tokens):
        chances = (next(following).float().cpu() / TEMPERATURE).softmax(dim=-1)
        seen.append(int(torch.multinomial(chances, 1, generator=generator)))
    return seen[len(tokens) :]


def _by_steps(model: Any, seen: list[int]) -> Iterator[Tensor]:
    """Logits of the token after those seen, which grow between two of them.

    Positions end with the length that the model was trained at. There it begins anew, and reads
    the last quarter again.
    """
    length = model.spec.length
    device = next(model.parameters()).device
    state, unread = model.initial_state(1), seen[-length:]
    while True:
        for token in unread:
            logits, state = model.step(torch.tensor([token], device=device), state)
        yield logits[0]
        is_full = state.num_tokens == length
        unread = seen[-max(1, length // 4) :] if is_full else seen[-1:]
        state = model.initial_state(1) if is_full else state


def _by_windows(model: Any, seen: list[int]) -> Iterator[Tensor]:
    """As `_by_steps`, of a model that has no such form: from as many tokens as it may see."""
    device = next(model.parameters()).device
    while True:
        window = torch.tensor([seen[-model.spec.length :]], device=device)
        yield model(window)[0, -1]


def pictures(model: Architecture, task: Task) -> list[Specimen]:
    """Of images, see `suite.probes.specimens.images`; captions and drawings have files there."""
    if task.asks_for in ("image", "drawing"):
        from suite.probes.specimens.drawings import drawings

        return drawings(model, task)
    if any(each.kind == "image" for each in task.other_inputs(task.length).values()):
        from suite.probes.specimens.captions import captions

        return captions(model, task)
    if task.input_kind != "image":
        return []
    from suite.probes.specimens import images

    found: list[Specimen] = []
    for look in images.LOOKS:
        with suppress(Exception, SystemExit):
            found.extend(look(model, task))
    return found


_Look = Callable[[Architecture, Task], list[Specimen]]
LOOKS: tuple[_Look, ...] = (attention_maps, position_matrices, continuation, pictures)


def specimens_of(
    model: Architecture, task: Task, seed: int, looks: Sequence[_Look] | None = None
) -> tuple[Specimen, ...]:
    """What the model does with the first held-out example; nothing for other seeds than the first.

    Args:
        model: Trained; it stays where it is and as it was.
        task: What it was trained on. Validation data are shown, never test data.
        seed: Of the trial.
        looks: What to collect; None for `LOOKS`, which are those of `quality`.
    """
    found: list[Specimen] = []
    if seed == FIRST_SEED:
        with _undisturbed(model):
            for look in LOOKS if looks is None else looks:
                with suppress(Exception, SystemExit):  # a mixer may do anything
                    found.extend(look(model, task))
    return tuple(found)


@contextmanager
def _undisturbed(model: Architecture) -> Iterator[None]:
    """In evaluation mode, without gradients; torch's random state is as before in the end."""
    devices = {parameter.device for parameter in model.parameters()}
    cards = [device for device in devices if device.type == "cuda"]
    with torch.random.fork_rng(devices=cards), in_evaluation_mode(model), torch.no_grad():
        yield
