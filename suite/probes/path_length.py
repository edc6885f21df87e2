"""Measure two columns of Table 1: sequential operations and maximum path length.

`sequential_operations` is the longest chain of dependent operations of one forward pass of the
mixer alone; see `suite.probes.dependency_chain` for what counts as one. It holds a constant: 3 for
fused attention, 7 a token for an LSTM; how it grows with the length is the finding.

`maximum_path_length` is Table 1's, between the two farthest tokens: layers until every output
depends on every input that it ever may (`suite.probes.dependence`), times the steps that a layer
walks inside itself. A layer walks if its chain of operations grows with the length. One step is
then the least that the chain grows by when tokens are added, and the walk is as many steps as the
chain has grown by since the first token, and that one: n for a recurrence, 1 for attention.

Both are properties of the computation, not of the machine: they are counted on the CPU, in
float64, whatever the device, at up to `LONGEST` tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import cast

import torch

from models import Mixer, ModelError, build_model
from models.architectures.mixer_alone import MixerAlone
from suite.probes.cost_formula import evaluate
from suite.probes.dependence import layers_until_all_is_seen, most_layers
from suite.probes.dependency_chain import longest_chain
from suite.probes.probe import Probe
from suite.schema import Measurement, MetricSpec, Point, Status, Trial
from suite.tasks.task import Task

LONGEST = 512  # tokens: growth shows long before
_METRICS = (
    MetricSpec(name="sequential_operations", unit="1", better="lower"),
    MetricSpec(name="maximum_path_length", unit="1", better="lower"),
    MetricSpec(name="theory_sequential_operations", unit="1", better="none"),
    MetricSpec(name="theory_maximum_path_length", unit="1", better="none"),
)


class PathLength(Probe):
    """Sequential operations and maximum path length of a mixer, beside what theory says."""

    name = "path_length"
    version = 1
    grain = "variant"
    is_swept = True

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Two numbers, and theory's."""
        return _METRICS

    def measures_at(self, length: int, *, is_along_lengths: bool) -> bool:
        """Widths change neither, and long sequences show nothing new."""
        return is_along_lengths and length <= LONGEST

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Count, then ask the theory."""
        torch.manual_seed(trial.seed)
        spec, length = trial.subjects[0], trial.length
        mixer = cast("MixerAlone", build_model(spec)).mixers[0]
        chain = chain_of(mixer)
        yield _measurement(0, float(chain(length)))
        layers = layers_until_all_is_seen(spec, length)
        if layers is None:
            reason = f"after {most_layers(length)} layers an output lacks inputs that it could see"
            yield _measurement(1, None, reason)
        else:
            yield _measurement(1, float(layers * walk(chain, length)))
        for index, formula in enumerate(
            (mixer.cost.sequential_operations, mixer.cost.maximum_path_length), start=2
        ):
            yield _measurement(index, *_by_theory(mixer, formula, length))


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
    half = length // 2
    if half == 0 or chain(length) <= chain(half):
        return 1
    added = (2**power for power in range(half.bit_length()))
    grown = (chain(min(half + tokens, length)) - chain(half) for tokens in added)
    step = next(growth for growth in (*grown, chain(length) - chain(half)) if growth > 0)
    return 1 + round((chain(length) - chain(1)) / step)


def _by_theory(mixer: Mixer, formula: str, length: int) -> tuple[float | None, str]:
    try:
        value = evaluate(mixer, formula, length)
    except ModelError as error:
        return None, str(error)
    return value, "" if value is not None else f"{mixer.name} declares no formula for it"


def _measurement(index: int, value: float | None, reason: str = "") -> Measurement:
    metric = _METRICS[index]
    return Measurement(
        metric=metric.name, value=value, unit=metric.unit, better=metric.better, reason=reason,
        status=Status.OK if value is not None else Status.SKIPPED,
    )  # fmt: skip
