"""Time all subjects of a trial together, with the controls next to the first subject.

On a GPU every operation is timed as a CUDA graph, and then, in rounds of their own, as eager code
launches it. The graphs are gone by then, so that they take no memory from what is launched. Graphs
that did not fit beside the others are timed again with those of their subject alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from bakeoff.models import Mixer, ModelSpec
from bakeoff.suite.events import Condition, TrialRemark
from bakeoff.suite.schema import (
    BASELINE_AGAIN,
    BASELINE_SLOWED,
    INJECTED,
    Measurement,
    Status,
    Trial,
    launched,
)
from bakeoff.suite.timing.clock import Clock
from bakeoff.suite.timing.fixed_conditions import few_cpus, memory_kept, no_garbage_collection
from bakeoff.suite.timing.graphs import Graphs
from bakeoff.suite.timing.machine_load import ReadTimes, cpu_times
from bakeoff.suite.timing.measurements import beside, measurements
from bakeoff.suite.timing.passes import Call, Key, Missing, Pass, Passes, built
from bakeoff.suite.timing.rounds import TimingRun, Timings, why_missing
from bakeoff.suite.timing.state_guard import StateGuard
from bakeoff.suite.timing.stopping import Limits
from bakeoff.suite.training.engines.capturable import why_not_captured
from bakeoff.suite.training.engines.kernels_used import kernels_used
from bakeoff.suite.training.engines.runtimes import NoRuntime

_TOKENS_OF_A_CHECK = 16
_SIDE_OF_A_CHECK = 4  # the rows and columns of a grid
_TOLERANCE = 1e-6  # relative to the largest element; both are computed in float64
Operations = Mapping[str, Pass | Missing]  # by metric
_Built = TypeVar("_Built")


@dataclass(frozen=True, kw_only=True)
class TimingComparison:
    """A timing comparison of the subjects of a trial.

    Attributes:
        trial: The trial, whose first subject is the baseline; its seed determines parameters,
            inputs and the order of the rounds.
        device: The device, named as in torch.
        clock: The clock of the device.
        compared: The metrics by which subjects are compared, the main one first. Its first call is
            reported as the subject's first call, and the controls time the same operation.
        operations: Function that builds a subject and returns what is timed under each of these
            metrics.
        main_operation: Function that builds the main operation again, for the controls.
        beside_first: Further operations that take part as subject 0, on a GPU as they are launched.
        at: The coordinate of the measurements, or "".
        limits: The limits of each timing run, or None to use those of the clock.
        read_times: Function that reads the CPU time so far of the machine and of this process.
    """

    trial: Trial
    device: str
    clock: Clock
    compared: tuple[str, ...]
    operations: Callable[[ModelSpec], Operations]
    main_operation: Callable[[ModelSpec], Pass]
    beside_first: Operations = field(default_factory=dict)
    at: str = ""
    limits: Limits | None = None
    read_times: ReadTimes = cpu_times
    _guard: StateGuard = field(default_factory=StateGuard, init=False)

    def measured(self) -> Iterator[Measurement]:
        """Yield the measurements of all subjects and controls.

        Raises:
            Disproved: if a mixer disagrees with its reference.
        """
        with fixed_cpus(self.device), memory_kept():  # first, because threads inherit both
            self._guard.begin()
            for spec in self.trial.subjects:
                with self._guard.around(spec):
                    refuse_wrong_mixers(spec, self.device, self.trial.seed)
            timings = self._run(self._launched) if self.device == "cpu" else self._on_gpu()
        compared = frozenset((*self.compared, *map(launched, self.compared)))
        yield from measurements(timings, main=self.compared[0], compared=compared, at=self.at)

    def state_changes(self) -> Iterator[TrialRemark | Condition]:
        """Yield which subjects changed the state of the process while they were measured."""
        return self._guard.said()

    def kernels_used(self) -> Iterator[Condition]:
        """Yield which kernels compute attention and matrix states on a GPU.

        Each subject runs once more, untimed.

        A subject that failed while it was timed fails again and is left out, as is a compiled
        model.
        """
        with kernels_used() as found:
            for spec in self.trial.subjects if self.device != "cpu" else ():
                with suppress(Exception):
                    if spec.runtime == "eager":
                        with self._guard.around(spec):
                            self.main_operation(spec).run()
        yield from found

    def _run(self, passes: Callable[[], Passes]) -> Timings:
        """Time passes; only the timing run holds them, so that it can free the memory of one."""
        limits = self.limits or self.clock.limits
        timing_run = TimingRun(passes(), self.clock, limits, self.read_times, self.trial.seed)
        with no_garbage_collection():
            return timing_run.run()

    def _launched(self) -> Passes:
        """Return all operations and the controls, as they are launched."""
        found, again = self._operations(), self._again()
        controls = {**beside(again, self.clock), **self.beside_first}
        return {**found, **{Key(metric, 0): control for metric, control in controls.items()}}

    def _on_gpu(self) -> Timings:
        """Time graphs, those that need the memory of others once more, and then launches."""
        found, again = self._operations(), self._again()
        every = {**found, Key(BASELINE_AGAIN, 0): again, Key(BASELINE_SLOWED, 0): again}
        timings = self._run(lambda: self._graphs(every))
        large = {
            key.subject
            for key, why in timings.missing.items()
            if why.status is Status.OUT_OF_MEMORY and isinstance(every[key], Pass)
        }
        for subject in sorted(large):
            torch.cuda.empty_cache()
            alone = {key: each for key, each in every.items() if key.subject == subject}
            timings = timings.joined(self._run(partial(self._graphs, alone)))
        torch.cuda.empty_cache()
        return timings.joined(self._run(lambda: self._renamed(found, again)))

    def _renamed(self, operations: Passes, again: Pass | Missing) -> Passes:
        """Return the operations and the controls under the metrics of launched passes."""
        ratios = {launched(metric): one for metric, one in beside(again, self.clock).items()}
        controls = {**ratios, **self.beside_first}
        return {
            **{Key(launched(key.metric), key.subject): each for key, each in operations.items()},
            **{Key(metric, 0): control for metric, control in controls.items()},
        }

    def _graphs(self, operations: Passes) -> Passes:
        """Return the operations as graphs; the slowed control is made from the operation."""
        graphs = Graphs(self.clock)

        def graph(key: Key, operation: Pass) -> Pass:
            spec = self.trial.subjects[key.subject]
            why_not = partial(self._why_not_captured, spec)
            if key.metric == BASELINE_SLOWED:
                made = graphs.slowed(operation, why_not, INJECTED)
            else:
                made = graphs.of(operation, why_not)
            return self._guard.guarded(made, spec)

        return {
            key: each if isinstance(each, Missing) else graph(key, each)
            for key, each in operations.items()
        }

    def _why_not_captured(self, spec: ModelSpec, run: Call) -> str:
        """Run a pass eagerly; return why no graph can hold it, or ""."""
        if spec.settings.get("residual") == "reversible":
            return "a reversible stack restores random numbers for its backward pass"
        # The modes that observe the pass cannot be used while torch compiles.
        is_compiled = spec.runtime == "compiled"
        eagerly = torch.compiler.set_stance("force_eager") if is_compiled else nullcontext()
        with eagerly:
            return why_not_captured(run, torch.device(self.device).type)

    def _operations(self) -> dict[Key, Pass | Missing]:
        found: dict[Key, Pass | Missing] = {}
        for subject, spec in enumerate(self.trial.subjects):
            operations = self.or_missing(self.operations, spec)
            if isinstance(operations, Missing):
                operations = dict.fromkeys(self.compared, operations)
            found |= {
                Key(metric, subject): self._declared(operations[metric], spec)
                for metric in self.compared
            }
        return found

    def _again(self) -> Pass | Missing:
        """Return the main operation of the first subject, built again for the controls."""
        first = self.trial.subjects[0]
        return self._declared(self.or_missing(self.main_operation, first), first)

    def _declared(self, operation: Pass | Missing, spec: ModelSpec) -> Pass | Missing:
        if isinstance(operation, Missing):
            return operation
        return self._guard.guarded(replace(operation, declared=self._how(spec)), spec)

    def _how(self, spec: ModelSpec) -> str:
        """Return the value of `Pass.declared` for a subject."""
        asked = {"runtime": spec.runtime, "precision": self.trial.precision}
        usual = {"runtime": ("eager",), "precision": ("float32", "tf32")}
        return ", ".join(f"{k}={each!r}" for k, each in asked.items() if each not in usual[k])

    def or_missing(self, build: Callable[[ModelSpec], _Built], spec: ModelSpec) -> _Built | Missing:
        """Call `build`; return `Missing` if memory is short or it cannot run as declared."""
        try:
            with self._guard.around(spec):
                return build(spec)
        except NoRuntime as error:
            return Missing(Status.SKIPPED, str(error))
        except Exception as error:
            found = why_missing(error, self._how(spec))
        torch.cuda.empty_cache()  # the error, which kept the tensors alive, is gone
        return found


def fixed_cpus(device: str) -> AbstractContextManager[None]:
    """Return a context with as many CPUs as torch has threads; for a GPU with all CPUs."""
    return few_cpus(torch.get_num_threads()) if device == "cpu" else nullcontext()


class Disproved(Exception):
    """Raised if a mixer disagrees with its reference, so that its time is meaningless."""


def refuse_wrong_mixers(spec: ModelSpec, device: str, seed: int) -> None:
    """Build the model in float64 and compare its mixers with their references on a short input.

    Mixers without a reference are skipped.

    Raises:
        Disproved: if a mixer disagrees with its reference; the message names the mixer.
    """
    model = built(spec, device, seed).double().eval()
    for mixer in _outermost_mixers(model):
        if mixer.is_proven():
            _refuse_wrong(mixer, spec, device, seed)


def _outermost_mixers(module: nn.Module) -> Iterator[Mixer]:
    """Yield the mixers that are not part of another mixer."""
    for child in module.children():
        if isinstance(child, Mixer):
            yield child
        else:
            yield from _outermost_mixers(child)


def _refuse_wrong(mixer: Mixer, spec: ModelSpec, device: str, seed: int) -> None:
    num_tokens = min(_TOKENS_OF_A_CHECK, spec.length)
    if mixer.grid:
        rows, columns = (min(_SIDE_OF_A_CHECK, side) for side in mixer.grid)
        mixer.take_grid((rows, columns), 0)
        num_tokens = rows * columns
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(1, num_tokens, mixer.dim, generator=drawn, dtype=torch.float64).to(device)
    fast, slow = (_seeded(form, x, seed) for form in (mixer, mixer.reference))
    difference, largest = float((fast - slow).abs().max()), float(slow.abs().max())
    if not difference <= _TOLERANCE * largest:  # also true for NaN
        raise Disproved(
            f"mixer {spec.mixer!r} differs from its reference by up to {difference:.2g} on "
            f"{num_tokens} tokens, so it is not timed"
        )


def _seeded(form: object, x: Tensor, seed: int) -> Tensor:
    """Call `form` with a fixed seed, so that both forms draw the same random numbers."""
    torch.manual_seed(seed)
    assert callable(form)
    with torch.no_grad():
        mixed: Tensor = form(x)
    return mixed
