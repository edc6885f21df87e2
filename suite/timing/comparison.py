"""Time all subjects of a trial together, with the controls beside the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from models import ModelSpec
from suite.schema import Measurement, Status, Trial
from suite.timing.clock import Clock
from suite.timing.held_still import few_cpus, memory_kept, no_garbage_collection
from suite.timing.machine_load import ReadTimes, cpu_times
from suite.timing.measurements import beside, measurements
from suite.timing.parity import refuse_wrong_mixers
from suite.timing.passes import Key, Missing, Pass
from suite.timing.rounds import Contest, out_of_memory
from suite.timing.stopping import DEFAULT, Limits
from suite.training.engines.runtime import NoRuntime

Operations = Mapping[str, Pass | Missing]  # by metric


@dataclass(frozen=True, kw_only=True)
class TimingComparison:
    """What a timing probe puts together.

    Attributes:
        trial: Whose subjects, the baseline first; its seed draws parameters, inputs and turns.
        device: As torch names it.
        clock: Of the device.
        compared: The metrics that subjects are compared by, the main one first: its first call is
            the subject's, and the controls are of it.
        operations: Builds a subject, and says what of it is timed under each of these metrics.
        main_operation: Builds it again, for the controls.
        beside_first: What else takes part, as subject 0.
        at: The coordinate, where measurements carry it.
        limits: How long it goes on.
        read_times: CPU time so far, of the machine and of this process.
    """

    trial: Trial
    device: str
    clock: Clock
    compared: tuple[str, ...]
    operations: Callable[[ModelSpec], Operations]
    main_operation: Callable[[ModelSpec], Pass]
    beside_first: Operations = field(default_factory=dict)
    at: str = ""
    limits: Limits = DEFAULT
    read_times: ReadTimes = cpu_times

    def measured(self) -> Iterator[Measurement]:
        """Of all subjects and controls.

        Raises:
            suite.timing.parity.Disproved: a mixer is not what its reference says.
        """
        with fixed_cpus(self.device), memory_kept():  # first of all: threads inherit both
            for spec in self.trial.subjects:
                refuse_wrong_mixers(spec, self.device, self.trial.seed)
            passes = self._passes()
            with no_garbage_collection():
                contest = Contest(passes, self.clock, self.limits, self.read_times, self.trial.seed)
                timings = contest.run()
        yield from measurements(
            timings, main=self.compared[0], compared=frozenset(self.compared), at=self.at
        )

    def _passes(self) -> dict[Key, Pass | Missing]:
        found: dict[Key, Pass | Missing] = {}
        for subject, spec in enumerate(self.trial.subjects):
            operations = self._operations(spec)
            found |= {Key(metric, subject): operations[metric] for metric in self.compared}
        controls = {**beside(self._again(), self.clock), **self.beside_first}
        return found | {Key(metric, 0): control for metric, control in controls.items()}

    def _operations(self, spec: ModelSpec) -> Operations:
        """A subject that this machine has no memory for, or cannot run as declared, is missing."""
        try:
            return self.operations(spec)
        except NoRuntime as error:
            return dict.fromkeys(self.compared, Missing(Status.SKIPPED, str(error)))
        except (RuntimeError, MemoryError) as error:
            return dict.fromkeys(self.compared, out_of_memory(error))

    def _again(self) -> Pass | Missing:
        try:
            return self.main_operation(self.trial.subjects[0])
        except NoRuntime as error:
            return Missing(Status.SKIPPED, str(error))
        except (RuntimeError, MemoryError) as error:
            return out_of_memory(error)


def fixed_cpus(device: str) -> AbstractContextManager[None]:
    """As many CPUs as torch has threads; a GPU's launches and compilers keep all of them."""
    return few_cpus(torch.get_num_threads()) if device == "cpu" else nullcontext()
