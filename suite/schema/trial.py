"""The trial: the unit that is hashed, scheduled, retried and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property

from bakeoff.models.model_spec import ModelSpec, content_hash
from bakeoff.suite.schema.metrics import LEARNING_RATE, PACE_OF_STEPS
from bakeoff.suite.schema.task_names import is_own_data, task_identity, task_label
from bakeoff.suite.schema.training import Parallel, Precision, Training, without_idle

# Probes whose results depend on the machine.
TIMING_PROBES = frozenset({"step_time", "decode", "data_parallel", "mixer_time"})
MEMORY_PROBES = frozenset({"peak_memory", "mixer_memory"})  # depend on the free memory
GREEDY, USUAL_PENALTY = 1, 0.6  # the default beam and length penalty, which a trial does not store
# The roles of a trial's parents.
PRETRAINING, TEACHER, TRAINED = "pre-training", "teacher", "training"
SEARCH = "search for the learning rate"
PACE = "timing of a training step"
# The probe of each parent that finds a setting.
FINDERS = {SEARCH: LEARNING_RATE, PACE: PACE_OF_STEPS}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The unit that is hashed, scheduled, retried and recorded.

    Fields that have their default are left out of the id, so that ids survive new fields.
    `Probe.depends_on` declares which of the fields the trials of a probe have.

    Attributes:
        task: The name of the task, or the text that makes own data; `MIXER_ALONE` without a task.
        task_digest: The SHA-256 of the task's data.
        length: Tokens per sequence.
        batch: Sequences per step.
        subjects: One model for a quality trial; all models of a comparison for a timing trial, the
            baseline first; empty for a trial of the task alone.
        training: The training settings, or None if the probe trains nothing.
        seed: The seed of a quality trial; the index of the process of a timing trial.
        versions: The version of each definition that the number depends on.
        parallel: The distribution by DeepSpeed, or None for one process without DeepSpeed.
        test_lengths: Further lengths at which the trained model is tested; usually empty.
        start: The trial whose final weights initialize the model, or None for random weights.
        teacher: The trial whose final model is the teacher in distillation, if there is one.
        decoding: Pairs (sequences at once, beam) at which decoding is measured, in addition to (1,
            1).
        beam: The beam width with which the trained model generates text.
        length_penalty: The length penalty of that search, as in `bakeoff.models.decoding`.
        threads: The number of torch's threads, if it differs from the worker's.
        trained: The trial whose final model the probe examines, if the probe does not train one
            itself; for a quality trial, a trial of the same model that is evaluated differently.
        search: The trial that finds the learning rate; `training` then holds the first rate that it
            tries.
        pace: The trial that finds how many steps take as long as the baseline's training;
            `training` then holds the baseline's number of steps.
        reference: The baseline's training, with whose steps a trial of `pace` compares its own.
        num_training_examples: The number of training examples, if not all of the task's are used.
        precision: The precision of a timing or memory probe that trains nothing; a training has its
            own in `training`.
        found_rate: The learning rate that `search` found, filled in just before the trial runs; not
            part of the id.
        found_steps: The same for the number of steps that `pace` found.
    """

    probe: str
    task: str
    task_digest: str
    length: int
    batch: int
    subjects: tuple[ModelSpec, ...]
    training: Training | None
    seed: int
    versions: Mapping[str, int | str]
    parallel: Parallel | None = None
    test_lengths: tuple[int, ...] = ()
    start: Trial | None = None
    teacher: Trial | None = None
    decoding: tuple[tuple[int, int], ...] = ()
    beam: int = GREEDY
    length_penalty: float = USUAL_PENALTY
    threads: int | None = None
    trained: Trial | None = None
    search: Trial | None = None
    pace: Trial | None = None
    reference: Trial | None = None
    num_training_examples: int | None = None
    precision: Precision = "float32"
    found_rate: float | None = None
    found_steps: int | None = None

    @cached_property
    def trial_id(self) -> str:
        """The hash of the content; it does not depend on time, host, commit or order."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        del content["found_rate"], content["found_steps"]
        content["task"] = task_identity(self.task)
        content["subjects"] = [without_idle(s.fields, runtime="eager") for s in self.subjects]
        if self.training is not None:
            content["training"] = self.training.hashed
        if self.parallel is not None:
            content["parallel"] = asdict(self.parallel)
        before = ("start", "teacher", "trained", "search", "pace", "reference")
        content |= {k: getattr(self, k).trial_id for k in before if getattr(self, k) is not None}
        idle = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        return content_hash(without_idle(content, **idle))

    @property
    def task_label(self) -> str:
        """The name of the task in tables and records."""
        return task_label(self.task)

    @property
    def has_own_data(self) -> bool:
        """True if its task, or that of a trial that it needs, is on the user's own data."""
        return is_own_data(self.task) or any(t.has_own_data for t in self.parents.values())

    @property
    def parents(self) -> Mapping[str, Trial]:
        """The trials that must run first because this one uses their results, by role."""
        found = {**self.givers_of_weights, SEARCH: self.search, PACE: self.pace}
        return {part: trial for part, trial in found.items() if trial is not None}

    @property
    def givers_of_weights(self) -> dict[str, Trial]:
        """The parents whose final weights it uses, by role."""
        found = {PRETRAINING: self.start, TEACHER: self.teacher, TRAINED: self.trained}
        return {part: trial for part, trial in found.items() if trial is not None}

    @property
    def settled_training(self) -> Training:
        """The training with the rate and the number of steps that were found for it."""
        assert self.training is not None, "a trial that trains is planned with training settings"
        found = self.training
        if self.search is not None:
            assert self.found_rate is not None, "a trial runs when its learning rate has been found"
            found = replace(found, learning_rate=self.found_rate)
        if self.pace is not None:
            assert self.found_steps is not None, "a trial runs when its steps have been found"
            found = found.with_steps(self.found_steps)
        return found

    @property
    def settled_precision(self) -> Precision:
        """The precision of the computation: that of the training, if there is one."""
        return self.training.precision if self.training else self.precision

    @property
    def num_workers(self) -> int:
        """The number of worker processes."""
        return self.parallel.workers if self.parallel else 1

    @property
    def is_timing(self) -> bool:
        """True if it runs alone, and needs a result from this environment."""
        return self.probe in TIMING_PROBES
