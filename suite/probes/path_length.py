"""Measure two columns of Table 1: sequential operations and maximum path length.

`sequential_operations` is the longest chain of dependent operations of one forward pass of the
mixer alone; see `bakeoff.suite.probes.dependency_chain` for what counts as one. It contains a
constant: 3 for fused attention, 7 per token for an LSTM; the result is how it grows with the
length.

`maximum_path_length` is that of Table 1, between the two most distant tokens: the number of layers
until every output depends on every input that it ever can (`layers_until_all_is_seen`), times the
steps inside a layer. A layer has several steps if its chain of operations grows with the length.
One step is then the smallest growth of the chain when tokens are added, and the number of steps is
the growth of the chain since the first token, in steps, plus one: n for a recurrence, 1 for
attention.

Both are properties of the computation, not of the machine: they are counted on the CPU, in
float64, whatever the device, at up to `LONGEST` tokens. Dependence is measured by gradients, not
read from a mixer's declarations: the derivative of each output token by each input token, at random
weights and a random input. A dependence without a derivative (a sort, a hash, a maximum at another
token) does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count, islice, pairwise
from typing import cast

import torch
from torch import Tensor

from bakeoff.models import Mixer, ModelError, ModelSpec
from bakeoff.models.architectures.mixer_alone import MixerAlone
from bakeoff.models.stack import build_mixer_of
from bakeoff.suite.probes.cost_formula import evaluate
from bakeoff.suite.probes.dependency_chain import longest_chain
from bakeoff.suite.probes.probe import Probe, initial_model, measurement
from bakeoff.suite.schema import Measurement, Point, Status, Trial, metric_spec

LONGEST = 512  # tokens; growth shows at much shorter lengths
_WIDTHS = (8, 16, 32, 64)
_MOVED_BY = 0.1  # applied to every parameter at random, since a zero would hide what it multiplies
_SAMPLED_ROWS, _FEW, _MANY = 32, 16, 64


class PathLength(Probe):
    """Sequential operations and maximum path length of a mixer, next to the theoretical values."""

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
        """Return True along lengths up to `LONGEST`; widths change neither metric."""
        return is_along_lengths and length <= LONGEST

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Count both metrics, then evaluate the theoretical formulas."""
        for spec, (value, reason) in zip(self.specs, _numbers(trial), strict=True):
            status = Status.SKIPPED if value is None else Status.OK
            yield measurement(spec, value, reason=reason, status=status)


def _numbers(trial: Trial) -> Iterator[tuple[float | None, str]]:
    """Yield each number and "", or None and the reason."""
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
    """Return a function from a number of tokens to the longest chain of a forward pass."""
    mixer = mixer.double().eval()

    @cache
    def chain(length: int) -> int:
        x = torch.randn(1, length, mixer.dim, dtype=torch.float64)
        return longest_chain(lambda: mixer(x))

    return chain


def walk(chain: Callable[[int], int], length: int) -> int:
    """Return the steps from one end to the other inside one layer; 1 if its chain does not grow."""
    if length == 1 or chain(length) <= chain(length // 2):
        return 1
    half = max(2, length // 2)
    if length == 2:
        return 2
    added = (2**power for power in range(half.bit_length()))
    grown = (chain(min(half + tokens, length)) - chain(half) for tokens in added)
    step = next(growth for growth in (*grown, chain(length) - chain(half)) if growth > 0)
    # A single token may need fewer preparing operations than several, which is not a step.
    return 2 + (chain(length) - chain(2)) // step


def _by_theory(mixer: Mixer, formula: str, length: int) -> tuple[float | None, str]:
    try:
        value = evaluate(mixer, formula, length)
    except ModelError as error:
        return None, str(error)
    return value, "" if value is not None else f"{mixer.name} declares no formula for it"


def layers_until_all_is_seen(spec: ModelSpec, length: int) -> int | None:
    """Return the number of stacked layers until every output depends on every input that it can.

    An output can depend on the inputs that some number of such layers connects it to. The stack is
    built as in a model, with each layer given its index. The parameters come from torch's global
    generator.

    Returns:
        The number of layers, or None if `most_layers` are not enough.
    """
    reached, maps = torch.eye(length, dtype=torch.bool), _Maps()
    layers = islice(_stack(narrowed(spec)), most_layers(length) + 1)
    for num_layers, (mixer, above) in enumerate(pairwise(layers), start=1):
        reached = maps.through(mixer, reached)
        maps.meet(above, length)  # windows may end elsewhere in that layer
        if torch.equal(reached, maps.ever):
            return num_layers
    return None


def most_layers(length: int) -> int:
    """Return the maximum depth: enough for one token per layer if every other layer mixes."""
    return 2 * length


def dependence(mixer: Mixer, length: int) -> Tensor:
    """Return a mask `[time, time2]`, True where an output depends on an input.

    A few outputs are tested first, the ends and a random sample: if these depend on all inputs, the
    rest are assumed to do so too, since testing all outputs would take seconds at 512 tokens.
    """
    drawn = torch.randperm(length)[: _SAMPLED_ROWS - 2].tolist()
    sample = sorted({0, *drawn, length - 1})
    if bool(_rows(mixer, length, sample, _FEW).all()):
        return torch.ones(length, length, dtype=torch.bool)
    return _rows(mixer, length, range(length), _MANY)


def narrowed(spec: ModelSpec) -> ModelSpec:
    """Return the model at the smallest width of its mixer, since dependence does not depend on it.

    A user's own mixer keeps its width, since nothing is known about it.
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
    """Yield the layers from the bottom upwards, without end."""
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
    """Return the dependence of these outputs, `[outputs, time]`, with one sequence for each."""
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
    """The dependence of outputs on inputs in each layer, `[time, time2]`.

    Most layers of a stack are alike; a few rows are computed to recognise them.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Tensor, Tensor]] = []  # pairs of a dense and a sparse matrix
        self.ever = torch.zeros(0)

    def through(self, mixer: Mixer, reached: Tensor) -> Tensor:
        """Return the dependence of the mixer's outputs, given that of its inputs, `reached`."""
        num_ways: Tensor = torch.sparse.mm(self.meet(mixer, len(reached)), reached.float())
        return num_ways > 0

    def meet(self, mixer: Mixer, length: int) -> Tensor:
        """Return the mixer's map, sparse; reuse a known one with the same rows at some places."""
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
        """Return the dependence after any number of layers of the known kinds."""
        reached = torch.stack([sees for sees, _ in self._known]).any(dim=0)
        for _ in range(length.bit_length()):
            reached = reached | ((reached.float() @ reached.float()) > 0)
        return reached
