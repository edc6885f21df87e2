"""The trial, which is the unit that is hashed, scheduled, retried and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property

from models.model_spec import ModelSpec, content_hash
from suite.schema.training import Parallel, Precision, Training, without_idle

TIMING_PROBES = frozenset({"step_time", "decode", "data_parallel", "mixer_time"})  # by machine
MEMORY_PROBES = frozenset({"peak_memory", "mixer_memory"})  # which look at what is free
GREEDY, USUAL_PENALTY = 1, 0.6  # the beam and the length penalty that a trial does not name
# What a trial is to one that it runs before.
PRETRAINING, TEACHER, TRAINED = "pre-training", "teacher", "training"
SEARCH = "search for the learning rate"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The unit that is hashed, scheduled, retried, recorded.

    Fields with a default are left out of the id where they have it, so that ids survive new fields.
    Which of them a probe's trials have is declared by `Probe.depends_on`.

    Attributes:
        task: `MIXER_ALONE` where there is none; `task_digest` is the SHA-256 of its data.
        length: Tokens per sequence; `batch`: sequences per step.
        subjects: One model for a quality trial; all models of a comparison for a timing trial,
            the baseline's first; none for a trial of the task alone.
        training: None where the probe trains nothing.
        seed: Seed of a quality trial; index of the process of a timing trial.
        versions: Version of each definition that the number depends on.
        parallel: None in one process, without DeepSpeed.
        test_lengths: At which the trained model is tested too; mostly none.
        start: The trial from whose final weights the training starts; None starts as drawn.
        teacher: The trial whose final model the training learns from, if there is one.
        decoding: (sequences at once, beam) at which decoding is measured besides (1, 1).
        beam: Open hypotheses of the search by which the trained model writes; `length_penalty` is
            that of `models.decoding`.
        threads: That torch computes with, if others than the worker has.
        trained: The trial whose final model the probe looks at, if it does not train one itself;
            of a quality trial that of the same model, read otherwise.
        search: The trial that finds the learning rate of the training; `training` then holds the
            first rate that it tries.
        num_training_examples: That are trained on, if not all that the task has.
        precision: Of what is timed, or whose memory is measured, where nothing is trained; of a
            training see `Training`.
        found_rate: What it found, filled in just before the trial runs; no part of its id.
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
    num_training_examples: int | None = None
    precision: Precision = "float32"
    found_rate: float | None = None

    @cached_property
    def trial_id(self) -> str:
        """Return the hash of its content: never of time, host, commit or order."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        del content["found_rate"]
        content["subjects"] = [without_idle(s.fields, runtime="eager") for s in self.subjects]
        if self.training is not None:
            content["training"] = self.training.hashed
        if self.parallel is not None:
            content["parallel"] = asdict(self.parallel)
        before = ("start", "teacher", "trained", "search")
        content |= {k: getattr(self, k).trial_id for k in before if getattr(self, k) is not None}
        idle = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        return content_hash(without_idle(content, **idle))

    @property
    def parents(self) -> Mapping[str, Trial]:
        """Return the trials that must have run before it, since it uses their results, by part."""
        return self.givers_of_weights | ({SEARCH: self.search} if self.search else {})

    @property
    def givers_of_weights(self) -> dict[str, Trial]:
        """Return those of its parents whose final weights it uses."""
        found = {PRETRAINING: self.start, TEACHER: self.teacher, TRAINED: self.trained}
        return {part: trial for part, trial in found.items() if trial is not None}

    @property
    def settled_training(self) -> Training:
        """Return its training at the rate that was found; the trial must have both."""
        assert self.training is not None, "a trial that trains is planned with training settings"
        if self.search is None:
            return self.training
        assert self.found_rate is not None, "a trial runs when its learning rate has been found"
        return replace(self.training, learning_rate=self.found_rate)

    @property
    def settled_precision(self) -> Precision:
        """Return the precision of this process: that of its training, if it has one."""
        return self.training.precision if self.training else self.precision

    @property
    def num_workers(self) -> int:
        """Return the number of processes that it takes."""
        return self.parallel.workers if self.parallel else 1

    @property
    def is_timing(self) -> bool:
        """Return True if it runs alone, and is done only with a result from this environment."""
        return self.probe in TIMING_PROBES
