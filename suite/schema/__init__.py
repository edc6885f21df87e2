"""The records of a sweep: trials, measurements, results and plans.

The classes are frozen dataclasses that both the workers and the reports read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from bakeoff.models.model_spec import Knob, content_hash
from bakeoff.models.model_spec import in_present_words as in_present_words
from bakeoff.suite.schema.cost import Expense as Expense
from bakeoff.suite.schema.cost import Price as Price
from bakeoff.suite.schema.metrics import BASELINE_AGAIN as BASELINE_AGAIN
from bakeoff.suite.schema.metrics import BASELINE_SLOWED as BASELINE_SLOWED
from bakeoff.suite.schema.metrics import CONTROLS as CONTROLS
from bakeoff.suite.schema.metrics import INJECTED as INJECTED
from bakeoff.suite.schema.metrics import LEARNING_RATE as LEARNING_RATE
from bakeoff.suite.schema.metrics import NUM_SENTENCES as NUM_SENTENCES
from bakeoff.suite.schema.metrics import PACE_OF_STEPS as PACE_OF_STEPS
from bakeoff.suite.schema.metrics import TRAINING_STEPS as TRAINING_STEPS
from bakeoff.suite.schema.metrics import Better as Better
from bakeoff.suite.schema.metrics import MetricSpec as MetricSpec
from bakeoff.suite.schema.metrics import is_launched as is_launched
from bakeoff.suite.schema.metrics import launched as launched
from bakeoff.suite.schema.metrics import metric_bounds as metric_bounds
from bakeoff.suite.schema.metrics import metric_sentence as metric_sentence
from bakeoff.suite.schema.metrics import metric_spec as metric_spec
from bakeoff.suite.schema.metrics import metric_title as metric_title
from bakeoff.suite.schema.old_labels import axes_in
from bakeoff.suite.schema.sample import LATE_IN_SAMPLES as LATE_IN_SAMPLES
from bakeoff.suite.schema.sample import Sample as Sample
from bakeoff.suite.schema.sample import SampleKind as SampleKind
from bakeoff.suite.schema.training import Parallel as Parallel
from bakeoff.suite.schema.training import Precision as Precision
from bakeoff.suite.schema.training import StepRuntime as StepRuntime
from bakeoff.suite.schema.training import Training as Training
from bakeoff.suite.schema.training import without_idle
from bakeoff.suite.schema.trial import FINDERS as FINDERS
from bakeoff.suite.schema.trial import GREEDY as GREEDY
from bakeoff.suite.schema.trial import MEMORY_PROBES as MEMORY_PROBES
from bakeoff.suite.schema.trial import PACE as PACE
from bakeoff.suite.schema.trial import PRETRAINING as PRETRAINING
from bakeoff.suite.schema.trial import SEARCH as SEARCH
from bakeoff.suite.schema.trial import TEACHER as TEACHER
from bakeoff.suite.schema.trial import TIMING_PROBES as TIMING_PROBES
from bakeoff.suite.schema.trial import TRAINED as TRAINED
from bakeoff.suite.schema.trial import USUAL_PENALTY as USUAL_PENALTY
from bakeoff.suite.schema.trial import Trial as Trial

# Serialized as "specimens", the name that result files and journals of older versions use.
_SAMPLES = Field(
    validation_alias=AliasChoices("samples", "specimens"), serialization_alias="specimens"
)

QUALITY = "quality"  # the probe whose metrics are a task's score
FLOORS = "floors"  # the probe whose rows belong to the floors, not to a variant
WRITTEN_SCORES = "written_scores"  # the probe that scores the text that a model generates
# Metrics that other probes derive from a task's score, for the same trained model.
_DERIVED = ("{}", "validation_{}", "training_{}", "{}_by_position")
_OF_WRITING = frozenset(  # the metrics of `WRITTEN_SCORES`, for both scores of text
    {
        "written_bleu",
        "written_chrf",
        "written_exact_match",
        "bits_per_word",
        "teacher_forced_bleu",
        "exposure_gap",
        "written_cider_d",
        "written_rouge_l",
    }
)
_SCORES_OF_TEXT = frozenset({"bleu", "chrf"})
# The metrics of a claim about an effective speedup, and the probe that counts its budgets.
SPEEDUPS = {"speedup": "flops", "time_speedup": "step_time"}
# Fields of a recipe that change a training step -> the value in the step that `step_time` times.
TIMED_RECIPE: Mapping[str, Knob] = {
    "optimizer": "adamw",
    "accumulation": 1,
    "ema": 0,
    "is_start_frozen": False,
    "distillation": "none",
    "scheduled_sampling": 0,
    "adversarial_steps": 0,
}
MIXER_ALONE = "mixer_alone"  # takes the place of a task's name if a trial has no task


def rests_on(metric: str, score: str) -> bool:
    """Return True if a metric is a task's score or is computed from the same model's answers.

    The second group holds the score on other splits or at some positions, and the other scores of
    the text that the model generates.
    """
    is_of_writing = metric in _OF_WRITING and score in _SCORES_OF_TEXT
    return is_of_writing or metric in {name.format(score) for name in _DERIVED}


class Status(StrEnum):
    """The outcome of a trial or of one of its measurements."""

    OK = "ok"
    SKIPPED = "skipped"  # the trial is impossible; `reason` says why
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    NOISY = "noisy"
    CRASHED = "crashed"  # the process died
    ERROR = "error"  # the trial raised an exception


# The trial produced no result: the next `bakeoff run` runs it again, and the exit code is 5. The
# other statuses are findings about the variant.
FAILURES = frozenset({Status.TIMEOUT, Status.CRASHED, Status.ERROR})


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number that a trial measured; `value` is None unless the status is ok or noisy.

    Attributes:
        subject: The index into the trial's `subjects` or, for a trial without subjects, the index
            of a row.
        at: The coordinate, for example ``length=1024``, or empty.
        spread_low, spread_high: The spread of the samples, if there are several.
    """

    metric: str
    value: float | None
    unit: str
    better: Better
    subject: int = 0
    at: str = ""
    spread_low: float | None = None
    spread_high: float | None = None
    status: Status = Status.OK
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a learning curve; `flops` is computed by formula, None without a formula."""

    metric: str
    step: int
    flops: float | None
    value: float
    unit: str
    better: Better


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The environment in which a result was made.

    `environment_id` identifies what timings depend on. `conditions` are other properties of the
    machine that affect timings: the clock's governor, boost, SMT, the usable cores. They are
    displayed, but are not part of `environment_id`.
    """

    commit: str
    device: str
    num_threads: int
    num_cpus: float
    num_gpus: float
    versions: Mapping[str, str]
    conditions: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def environment_id(self) -> str:
        """The hash of what timings depend on, 12 hexadecimal digits.

        It is the device model, the threads, the version of torch and, on a GPU, that of the package
        whose kernels a mixer may take.
        """
        content = [self.device, self.num_threads, self.versions.get("torch")]
        kernels = self.versions.get("fla-core") if self.num_gpus else None
        return content_hash([*content, *filter(None, [kernels])])[:12]


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a trial.

    Attributes:
        seconds: Wall time of the trial in its worker.
        reason: One sentence if the status is not ok.
        traceback: Traceback of the exception, if the trial raised one.
        state_sha256: The hash of the trained state, see `TrainedState`; empty if nothing was
            trained, or if the training did not finish.
        output: The end of what a failed trial printed.
        gpu_bytes: The peak of GPU memory that torch allocated, or None without a GPU.
        joules: The energy that the trial's GPU used during the trial, or its share of that; see
            `bakeoff.suite.execution.trial`. It is None without a GPU, or if NVML does not report
            it.
    """

    trial_id: str
    status: Status
    provenance: Provenance
    seconds: float
    measurements: tuple[Measurement, ...] = ()
    points: tuple[Point, ...] = ()
    reason: str = ""
    traceback: str = ""
    samples: Annotated[tuple[Sample, ...], _SAMPLES] = ()
    state_sha256: str = ""
    output: str = ""
    gpu_bytes: int | None = None
    joules: float | None = None

    @cached_property
    def sha256(self) -> str:
        """The hash of the whole content: equal hashes mean equal results."""
        content = without_idle(
            self._content, specimens=(), state_sha256="", output="", gpu_bytes=None, joules=None
        )
        content["provenance"] = without_idle(content["provenance"], conditions={})
        return content_hash(content)

    @cached_property
    def finding_sha256(self) -> str:
        """The hash of the findings; without timings, an environment reproduces it."""
        content = self._content
        found = ("trial_id", "status", "measurements", "points", "specimens", "state_sha256")
        return content_hash({name: content[name] for name in found})

    @property
    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        # Hashes were first made under the old name, which therefore never changes.
        del content["samples"]
        return content | {"specimens": tuple(each.hashed for each in self.samples)}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """An entry of an ablation's table, and the trial that fills it.

    A failed trial leaves a row under the name of each of its metrics.

    Attributes:
        subject, at: The same as in `Measurement`.
        reason: Why the trial cannot run; empty if it can.
    """

    variant: str
    task: str
    seed: int
    probe: str
    trial_id: str
    metrics: tuple[MetricSpec, ...]
    subject: int = 0
    reason: str = ""
    at: str = ""


@dataclass(frozen=True, kw_only=True)
class ClaimSpec:
    """A claim, as recorded: on `metric`, variant `a` is better than `b` by at least `by`.

    Attributes:
        metric: The metric that is compared; for a speedup the score that both reach.
        by: The claimed size in the metric's unit; for a speedup a ratio of budgets.
        at: The coordinate of a sweep, or empty.
        published: The source's figure in a few words, or empty.
        is_check: True if the claim holds by construction. A check has no q-value.
        counted_by: The probe that counts the budgets of a speedup; empty for any other claim.
        curve: For a speedup, the variants that differ from `b` in the number of steps only, `b`
            itself included.
    """

    statement: str
    metric: str
    a: str
    b: str
    by: float
    source: str
    task: str
    at: str = ""
    published: str = ""
    is_check: bool = False
    counted_by: str = ""
    curve: tuple[str, ...] = ()

    @property
    def stated_metric(self) -> str:
        """The metric that the ablation names, such as ``speedup``."""
        named = (name for name, probe in SPEEDUPS.items() if probe == self.counted_by)
        return next(named, self.metric)

    @property
    def compared(self) -> tuple[str, ...]:
        """The variants that the verdict depends on, `a` and `b` first."""
        return tuple(dict.fromkeys((self.a, self.b, *self.curve)))


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The time when a claim was stated, relative to the results that test it.

    Attributes:
        sha256: The hash of everything that fixes the test: claim, seeds and settings.
        num_pairs_before: The number of seeds for which at least one side already had a result.
        changes: The differences from the claim as first stated.
    """

    sha256: str
    num_pairs_before: int = 0
    changes: tuple[str, ...] = ()

    @property
    def is_confirmatory(self) -> bool:
        """True if the test was registered before any result existed."""
        return self.num_pairs_before == 0


@dataclass(frozen=True, kw_only=True)
class Edition:
    """A version of an ablation's plan at one scale.

    Attributes:
        number: The rank in the order in which the editions were first planned, from 1.
        sha256: The hash of everything that determines the plan; notes and the place of execution
            are not part of it.
        started_seconds: The time when it was first planned, in seconds since 1970; 0 if unknown.
        settings: Everything that may differ between two editions, by name.
        verdict: The verdict on the claim in one word; empty without a claim or without results.
        sentence: The verdict as a sentence; empty in the same cases.
        source_sha256: The hash of the user's files that define the ablation; empty if there are
            none.
        is_shown: True if a report shows the results of this edition.
        is_earlier_test: True if it tested the claim of the shown edition before, on other trials.
    """

    number: int
    sha256: str
    started_seconds: float
    settings: Mapping[str, Knob]
    num_trials: int
    num_done: int = 0
    verdict: str = ""
    sentence: str = ""
    source_sha256: str = ""
    is_shown: bool = False
    is_earlier_test: bool = False


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set, as a report describes it."""

    title: str
    licence: str
    origin: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class MixerFacts:
    """The theoretical cost of a variant's mixer: its row of Table 1, a `bakeoff.models.Cost`.

    Attributes:
        mixer: The name of the mixer; empty if the architecture does not take a mixer.
        is_proven: True if the mixer has a reference that it is checked against before it is timed.
    """

    mixer: str
    time: str = ""
    sequential_operations: str = ""
    maximum_path_length: str = ""
    is_proven: bool = True


@dataclass(frozen=True, kw_only=True)
class About:
    """The content of a report besides its numbers; it is stored inside `results.parquet`.

    Attributes:
        note: The ablation's docstring.
        variants: All labels, in the order of the table.
        settings: The scale's settings (width, depth, steps, ...), by name.
        metrics: The metrics of each probe on each task: task -> probe -> metrics.
        is_indicative: True if the scale is too small for a paper.
        regenerate: The command that creates the report again.
        provenances: environment_id -> the environment.
        subjects: Variant -> the mixer under test and its theoretical cost.
        registration: The registration of the claim, or None without a claim or if it is unknown.
        samples: Task -> variant -> samples of its model, trained with the first seed.
        floors: Task -> labels of its floors.
        signatures: Task -> sacrebleu's signature of its metric, if sacrebleu computes the metric.
        part_titles: Task -> the titles of the coordinates of its parts, see `Task.part_titles`.
        editions: All known editions, including the shown one, newest first.
        costs: The resources that the trials took, by variant; empty if no trial had a GPU.
        price: The price of one hour, if the user states one.
        opens_with: The kind of sample shown above the figure of scores, see `bakeoff.Ablation`;
            usually empty.
        words: Axis and value, as ``score=general`` -> how sentences name them.
        held_out: For a scaling law: axis -> its value in the trainings that the law predicts.
        axis_values: Variant -> axis -> its value, for every axis; a whole model is given by its
            label. Empty in results of versions that did not store it.
        named_axes: Variant -> the axes that its label names.
        num_test_examples: Task -> the number of examples of its test split, if the plan knows it.
        training_steps: Task -> variant -> its training steps, if a budget other than steps is
            equal.
        training_flops: Task -> variant -> FLOPs of its training, as its learning curve counts them;
            not stored.
    """

    ablation: str
    scale: str
    question: str
    note: str
    baseline: str
    variants: tuple[str, ...]
    tasks: tuple[str, ...]
    probes: tuple[str, ...]
    num_seeds: int
    settings: Mapping[str, Knob]
    model: Mapping[str, Knob]
    claim: ClaimSpec | None
    metrics: Mapping[str, Mapping[str, tuple[MetricSpec, ...]]]
    data_sets: Mapping[str, DataSet]
    is_indicative: bool
    regenerate: str
    provenances: Mapping[str, Provenance] = field(default_factory=dict)
    subjects: Mapping[str, MixerFacts] = field(default_factory=dict)
    registration: Registration | None = None
    samples: Annotated[Mapping[str, Mapping[str, tuple[Sample, ...]]], _SAMPLES] = field(
        default_factory=dict
    )
    floors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    part_titles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    editions: tuple[Edition, ...] = ()
    costs: tuple[Expense, ...] = ()
    price: Price | None = None
    opens_with: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    held_out: Mapping[str, int] = field(default_factory=dict)
    axis_values: Mapping[str, Mapping[str, Knob]] = field(default_factory=dict)
    named_axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    num_test_examples: Mapping[str, int] = field(default_factory=dict)
    training_steps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    training_flops: Annotated[Mapping[str, Mapping[str, float]], Field(exclude=True)] = field(
        default_factory=dict
    )

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes."""
        if self.axis_values:
            return tuple(self.axis_values[self.baseline])
        return axes_in(self.variants)

    def budget_of(self, variant: str) -> str:
        """Return what the variant has as much of as the baseline; see `bakeoff.Scale.equal`."""
        own = self.axis_values.get(variant, {}).get("equal")
        return str(own or self.settings.get("equal", "steps"))

    @property
    def edition(self) -> int:
        """The number of the shown edition; 1 if none is known."""
        return next((each.number for each in self.editions if each.is_shown), 1)

    @property
    def editions_with_results(self) -> tuple[Edition, ...]:
        """The editions that have results, the newest first."""
        return tuple(each for each in self.editions if each.num_done)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels that rows may have: the variants, then the floors, each once."""
        floors = (label for of_task in self.floors.values() for label in of_task)
        return tuple(dict.fromkeys((*self.variants, *floors)))


# Memory of a process on a GPU besides torch's allocator: CUDA, cuBLAS and cuDNN take 0.3 to 0.7
# GiB.
BYTES_OF_A_CONTEXT = 2**30


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of one worker of a trial; recorded with its result, never part of its id.

    Attributes:
        num_gpus: GPUs of the worker. Below 1 the worker shares a GPU, and may use that share of its
            memory.
        memory_bytes: Free memory that a node must have; 0 sets no requirement.
        gpu_model: The model of the GPU as Ray names it (``A100``, ``L4``); empty accepts any.
    """

    num_cpus: int = 1
    num_threads: int = 1
    num_gpus: float = 0.0
    memory_bytes: int = 0
    gpu_model: str = ""

    @property
    def is_shared(self) -> bool:
        """True if other workers may use its GPU at the same time."""
        return 0 < self.num_gpus < 1

    @property
    def share(self) -> float:
        """Its share of a GPU, or 1."""
        return self.num_gpus if self.is_shared else 1.0

    @property
    def alone(self) -> Resources:
        """The same resources, with a whole GPU in place of a share."""
        return replace(self, num_gpus=1.0) if self.is_shared else self

    def for_trial(self, trial: Trial) -> Resources:
        """Return the resources for a trial: a whole GPU if sharing one would change its number."""
        is_moved = trial.is_timing or trial.probe in MEMORY_PROBES
        return self.alone if is_moved else self


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """An ablation at one scale, expanded: the cells of its table, and the trials that fill them."""

    about: About
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    resources: Resources
    source_paths: tuple[str, ...] = ()  # folders from which the user's own modules are imported
    shared_module: str = ""  # that of the user's file, if its ablations have names of their own

    def __repr__(self) -> str:
        """Return a line, since the fields hold every trial."""
        return f"<Plan of {self.about.ablation} at {self.about.scale}: {len(self.trials)} trials>"

    @property
    def own_module(self) -> str:
        """The module of the user's file that defines the ablation; empty without one."""
        return (self.shared_module or self.about.ablation) if self.source_paths else ""

    @property
    def key(self) -> tuple[str, str]:
        """(ablation, scale), which names a parent run in the store."""
        return self.about.ablation, self.about.scale
