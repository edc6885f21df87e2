"""Measure two columns of Table 1: sequential operations and maximum path length.

`sequential_operations` is the longest chain of dependent operations of one forward pass of the
mixer alone; see `suite.probes.dependency_chain` for what counts as one. It holds a constant: 3 for
fused attention, 7 a token for an LSTM; how it grows with the length is the finding.

`maximum_path_length` is Table 1's, between the two farthest tokens: layers until every output
depends on every input that it ever may (`layers_until_all_is_seen`), times the steps that a layer
walks inside itself. A layer walks if its chain of operations grows with the length. One step is
then the least that the chain grows by when tokens are added, and the walk is as many steps as the
chain has grown by since the first token, and that one: n for a recurrence, 1 for attention.

Both are properties of the computation, not of the machine: they are counted on the CPU, in
float64, whatever the device, at up to `LONGEST` tokens. Dependence is measured by gradients, not
read from what a mixer declares: the derivative of each output token by each input token, at random
weights and a random input. What no derivative sees (a sort, a hash, a maximum that goes to another
token) counts as no dependence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count, islice, pairwise
from typing import cast

import torch
from torch import Tensor

from models import Mixer, ModelError, ModelSpec
from models.architectures.mixer_alone import MixerAlone
from models.stack import build_mixer_of
from suite.probes.cost_formula import evaluate
from suite.probes.dependency_chain import longest_chain
from suite.probes.probe import Probe, initial_model, measurement
from suite.schema import Measurement, Point, Status, Trial, metric_spec

LONGEST = 512  # tokens: growth shows long before
_WIDTHS = (8, 16, 32, 64)
_MOVED_BY = 0.1  # every parameter, at random: what starts as zero would hide what it multiplies
_SAMPLED_ROWS, _FEW, _MANY = 32, 16, 64


class PathLength(Probe):
    """Sequential operations and maximum path length of a mixer, beside what theory says."""

    name = "path_length"
    version = 1
    grain = "variant"
    is_swept = True
    specs = (
        metric_spec("sequential_operations"),
        metric_spec("maximum_path_length"),
        metric_spec("theory_sequential_operations"),
        metric_spec("theory_maximum_path_length"),
    )

    def measures_at(self, length: int, *, is_along_lengths: bool) -> bool:
        """Widths change neither, and long sequences show nothing new."""
        return is_along_lengths and length <= LONGEST

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Count, then ask the theory."""
        for spec, (value, reason) in zip(self.specs, _numbers(trial), strict=True):
            status = Status.SKIPPED if value is None else Status.OK
            yield measurement(spec, value, reason=reason, status=status)


def _numbers(trial: Trial) -> Iterator[tuple[float | None, str]]:
    """Each number, or None and the reason."""
    mixer, length = cast("MixerAlone", initial_model(trial)).mixers[0], trial.length
    chain = chain_of(mixer)
    yield float(chain(length)), ""
    layers = layers_until_all_is_seen(trial.subjects[0], length)
    if layers is None:
        most = most_layers(length)
        yield None, f"after {most} layers an output lacks inputs that it could see"
    else:
        yield float(layers * walk(chain, length)), ""
    yield _by_theory(mixer, mixer.cost.sequential_operations, length)
    yield _by_theory(mixer, mixer.cost.maximum_path_length, length)


def chain_of(mixer: Mixer) -> Callable[[int], int]:
    """Number of tokens -> the longest chain of operations of a forward pass over them."""
    mixer = mixer.double().eval()

    @cache
    def chain(length: int) -> int:
        x = torch.randn(1, length, mixer.dim, dtype=torch.float64)
        return longest_chain(lambda: mixer(x))

    return chain


def walk(chain: Callable[[int], int], length: int) -> int:
    """Steps from one end to the other inside one layer; 1 where its chain does not grow."""
    if length == 1 or chain(length) <= chain(length // 2):
        return 1
    half = max(2, length // 2)
    if length == 2:
        return 2
    added = (2**power for power in range(half.bit_length()))
    grown = (chain(min(half + tokens, length)) - chain(half) for tokens in added)
    step = next(growth for growth in (*grown, chain(length) - chain(half)) if growth > 0)
    # One token alone may need less preparing than several, which is no step.
    return 2 + (chain(length) - chain(2)) // step


def _by_theory(mixer: Mixer, formula: str, length: int) -> tuple[float | None, str]:
    try:
        value = evaluate(mixer, formula, length)
    except ModelError as error:
        return None, str(error)
    return value, "" if value is not None else f"{mixer.name} declares no formula for it"


def layers_until_all_is_seen(spec: ModelSpec, length: int) -> int | None:
    """Layers of a stack until every output depends on every input that it ever may.

    What it ever may depend on are those that some number of such layers leads to. The stack is
    made as a model makes it, each layer given its place. Draws from torch's global generator.

    Returns:
        None if `most_layers` are not enough.
    """
    reached, maps = torch.eye(length, dtype=torch.bool), _Maps()
    layers = islice(_stack(narrowed(spec)), most_layers(length) + 1)
    for num_layers, (mixer, above) in enumerate(pairwise(layers), start=1):
        reached = maps.through(mixer, reached)
        maps.meet(above, length)  # windows may end elsewhere there
        if torch.equal(reached, maps.ever):
            return num_layers
    return None


def most_layers(length: int) -> int:
    """Of a stack: enough for one more token a layer, even if only every other layer mixes."""
    return 2 * length


def dependence(mixer: Mixer, length: int) -> Tensor:
    """`[time, time2]`, True where an output depends on an input.

    A few outputs first, the ends and others at random: if these depend on everything, the rest
    are taken to, since at 512 tokens it would take seconds to ask each.
    """
    drawn = torch.randperm(length)[: _SAMPLED_ROWS - 2].tolist()
    sample = sorted({0, *drawn, length - 1})
    if bool(_rows(mixer, length, sample, _FEW).all()):
        return torch.ones(length, length, dtype=torch.bool)
    return _rows(mixer, length, range(length), _MANY)


def narrowed(spec: ModelSpec) -> ModelSpec:
    """The model as narrow as its mixer can be: the width has no part in who sees whom.

    A user's own mixer keeps its width, since it may do anything.
    """
    if ":" in spec.mixer:
        return spec
    for dim in (width for width in _WIDTHS if width < spec.dim):
        narrow = replace(spec, dim=dim, input_size=dim, output_size=dim)
        try:
            build_mixer_of(narrow, narrow.mixer, is_causal=False)
        except ModelError:
            continue
        return narrow
    return spec


def _stack(spec: ModelSpec) -> Iterator[Mixer]:
    """Layers from the bottom upwards, without end."""
    first: Mixer | None = None
    for layer in count():
        mixer = build_mixer_of(spec, spec.mixer, is_causal=False)
        first = first or mixer
        mixer.take_place(layer, first)
        mixer.double().eval()
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=_MOVED_BY)
        yield mixer


def _rows(mixer: Mixer, length: int, outputs: list[int] | range, at_once: int) -> Tensor:
    """The rows of these outputs. Each has a sequence of the batch to itself."""
    x = torch.randn(length, mixer.dim, dtype=torch.float64)
    direction = torch.randn(mixer.dim, dtype=torch.float64)
    found = []
    for start in range(0, len(outputs), at_once):
        asked = torch.tensor(outputs[start : start + at_once])
        batch = x.repeat(len(asked), 1, 1).requires_grad_()
        projected = mixer(batch) @ direction  # (batch, time)
        (gradient,) = torch.autograd.grad(projected.gather(1, asked[:, None]).sum(), batch)
        found.append((gradient != 0).any(dim=-1))
    return torch.cat(found)


class _Maps:
    """Who sees whom in each layer, `[time, time2]`.

    Most layers of a stack are alike, and are computed for a few rows only.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Tensor, Tensor]] = []  # the second one sparse
        self.ever = torch.zeros(0)

    def through(self, mixer: Mixer, reached: Tensor) -> Tensor:
        """What the mixer's outputs depend on whose inputs depend on `reached`."""
        num_ways: Tensor = torch.sparse.mm(self.meet(mixer, len(reached)), reached.float())
        return num_ways > 0

    def meet(self, mixer: Mixer, length: int) -> Tensor:
        """The mixer's map, sparse; a known one if it has the same rows at the ends and inside."""
        places = [0, length // 3, length // 2, length - 1]
        rows = _rows(mixer, length, places, _FEW) if self._known else None
        for sees, sparse in self._known:
            if rows is not None and torch.equal(sees[places], rows):
                return sparse
        sees = dependence(mixer, length)
        self._known.append((sees, sees.float().to_sparse()))
        self.ever = self._closure(length)
        return self._known[-1][1]

    def _closure(self, length: int) -> Tensor:
        """What any number of layers, of the kinds known, leads to."""
        reached = torch.stack([sees for sees, _ in self._known]).any(dim=0)
        for _ in range(length.bit_length()):
            reached = reached | ((reached.float() @ reached.float()) > 0)
        return reached
