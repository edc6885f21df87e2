"""The records of a sweep: trials, measurements, results, plans.

Frozen values, so that reports and workers can both read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from models.model_spec import Knob, content_hash
from models.model_spec import in_present_words as in_present_words
from suite.schema.cost import Expense as Expense
from suite.schema.cost import Price as Price
from suite.schema.metrics import BASELINE_AGAIN as BASELINE_AGAIN
from suite.schema.metrics import BASELINE_SLOWED as BASELINE_SLOWED
from suite.schema.metrics import CONTROLS as CONTROLS
from suite.schema.metrics import INJECTED as INJECTED
from suite.schema.metrics import LEARNING_RATE as LEARNING_RATE
from suite.schema.metrics import NUM_SENTENCES as NUM_SENTENCES
from suite.schema.metrics import Better as Better
from suite.schema.metrics import MetricSpec as MetricSpec
from suite.schema.metrics import metric_bounds as metric_bounds
from suite.schema.metrics import metric_sentence as metric_sentence
from suite.schema.metrics import metric_spec as metric_spec
from suite.schema.metrics import metric_title as metric_title
from suite.schema.old_labels import axes_in
from suite.schema.sample import LATE_IN_SAMPLES as LATE_IN_SAMPLES
from suite.schema.sample import Sample as Sample
from suite.schema.sample import SampleKind as SampleKind
from suite.schema.training import Parallel as Parallel
from suite.schema.training import Precision as Precision
from suite.schema.training import Training as Training
from suite.schema.training import without_idle
from suite.schema.trial import GREEDY as GREEDY
from suite.schema.trial import MEMORY_PROBES as MEMORY_PROBES
from suite.schema.trial import PRETRAINING as PRETRAINING
from suite.schema.trial import SEARCH as SEARCH
from suite.schema.trial import TEACHER as TEACHER
from suite.schema.trial import TIMING_PROBES as TIMING_PROBES
from suite.schema.trial import TRAINED as TRAINED
from suite.schema.trial import USUAL_PENALTY as USUAL_PENALTY
from suite.schema.trial import Trial as Trial

# Frames, and journals of older versions, hold samples under another name.
_SAMPLES = Field(
    validation_alias=AliasChoices("samples", "specimens"), serialization_alias="specimens"
)

QUALITY = "quality"  # the probe whose metrics are a task's score
FLOORS = "floors"  # the probe whose rows are of no variant
WRITTEN_SCORES = "written_scores"  # the probe of what a model writes by itself
# Metrics that other probes derive from a task's, of the same trained model.
_DERIVED = ("{}", "validation_{}", "training_{}", "{}_by_position")
_OF_WRITING = frozenset(  # those of `WRITTEN_SCORES`, whichever of the two a task is scored by
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
MIXER_ALONE = "mixer_alone"  # stands where a task's name would, where there is none


def rests_on(metric: str, score: str) -> bool:
    """Return True if a metric is a task's score, or is of the same trained model's answers.

    That score on other data or at some positions, or another one of what the model writes.
    """
    is_of_writing = metric in _OF_WRITING and score in _SCORES_OF_TEXT
    return is_of_writing or metric in {name.format(score) for name in _DERIVED}


class Status(StrEnum):
    """The way in which a trial, or one measurement of it, ended."""

    OK = "ok"
    SKIPPED = "skipped"  # an impossible cell; the reason says why
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    NOISY = "noisy"
    CRASHED = "crashed"  # the process died
    ERROR = "error"  # the trial raised


# The trial produced no result: it runs again with the next `bakeoff run`, and exit is 5.
# The other statuses are findings about the variant.
FAILURES = frozenset({Status.TIMEOUT, Status.CRASHED, Status.ERROR})


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number of one subject of a trial; None if the status is neither ok nor noisy.

    `subject` is the index into the trial's `subjects`; of a trial without any, which of its rows.
    `at` is the coordinate, as ``length=1024``, or empty. The spread is that of the samples.
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
    """A point of a learning curve; its FLOPs are the formula's, None without a formula."""

    metric: str
    step: int
    flops: float | None
    value: float
    unit: str
    better: Better


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The place where a result was made; `environment_id` names what timings depend on.

    `conditions` are what else of the machine moves them: the clock's governor, boost, SMT, the
    cores that may be used. They are shown, and tell no environments apart.
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
        """Return the hash of device model, threads and torch version, 12 hexadecimal digits."""
        return content_hash([self.device, self.num_threads, self.versions.get("torch")])[:12]


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a trial; `seconds` is its wall time in its worker.

    Attributes:
        reason: One sentence where the status is not ok.
        traceback: Of what was raised; `output` is the end of what a failed trial printed.
        state_sha256: See `TrainedState`; empty where nothing was trained, or not to its end.
        gpu_bytes: The most that torch took of a GPU's memory; None without one.
        joules: What its GPU took meanwhile, or its share of that; see `suite.execution.trial`.
            None without a GPU, or where NVML does not tell.
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
        """Return the hash of all its content: if it is the same, the result is the same."""
        content = without_idle(
            self._content, specimens=(), state_sha256="", output="", gpu_bytes=None, joules=None
        )
        content["provenance"] = without_idle(content["provenance"], conditions={})
        return content_hash(content)

    @cached_property
    def finding_sha256(self) -> str:
        """Return the hash of what was found; without timings it is the same in one environment."""
        content = self._content
        found = ("trial_id", "status", "measurements", "points", "specimens", "state_sha256")
        return content_hash({name: content[name] for name in found})

    @property
    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        del content["samples"]  # hashes were first made under another name, which never changes
        return content | {"specimens": tuple(each.hashed for each in self.samples)}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """An entry of an ablation's table, and the trial that fills it.

    A failure leaves a row under the name of each metric. `subject` and `at` are those of
    `Measurement`; `reason` says why it cannot run, empty where it can.
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

    `at` is the coordinate of a sweep, `published` the source's figure in a few words, or empty. A
    check holds by construction, and is judged alone.
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


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The time when a claim was stated: before the results that it is judged by, or after.

    The hash is of all that fixes the test: claim, seeds, settings. `num_pairs_before` counts the
    seeds of which a side had a result then; `changes` are what is not as it was first stated.
    """

    sha256: str
    num_pairs_before: int = 0
    changes: tuple[str, ...] = ()

    @property
    def is_confirmatory(self) -> bool:
        """Return True if the test was registered before any result existed."""
        return self.num_pairs_before == 0


@dataclass(frozen=True, kw_only=True)
class Edition:
    """A version of an ablation's plan at one scale.

    Attributes:
        number: In the order in which they were first planned, from 1.
        sha256: Of all that determines the plan; notes, and where it runs, are no part of it.
        started_seconds: When it was first planned, since 1970; 0 is unknown.
        settings: Everything that may differ between two, by name.
        verdict: On its claim, in a word; like the `sentence` empty without claim or results.
        source_sha256: Of the user's files that it was made from; empty where there are none.
        is_shown: Whether a report shows its results.
        is_earlier_test: Whether it tested the claim of the shown one before, on other trials.
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
    """A data set, as a report names it."""

    title: str
    licence: str
    origin: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class MixerFacts:
    """The theoretical cost of a variant's mixer: its row of Table 1, as in `models.mixer.Cost`.

    It is proven where it has a reference that it is held against before it is timed. The mixer is
    empty where the architecture has no hole for one.
    """

    mixer: str
    time: str = ""
    sequential_operations: str = ""
    maximum_path_length: str = ""
    is_proven: bool = True


@dataclass(frozen=True, kw_only=True)
class About:
    """The text of a report besides its numbers; it is stored inside `results.parquet`.

    Attributes:
        variants: All labels, in the order of the table; `note` is the ablation's docstring.
        settings: The scale's (width, depth, steps, ...), by name.
        metrics: What each probe measures on each task: task -> probe -> metrics.
        subjects: Variant -> the mixer under test and its cost by theory.
        registration: Of the claim; None where there is no claim, or nothing is known of it.
        samples: Task -> variant -> what its model does, trained with the first seed.
        floors: Task -> labels of its floors; `provenances`: environment_id -> where it ran.
        signatures: Task -> sacrebleu's signature of its metric, where sacrebleu computes that.
        part_titles: Task -> how a page names the coordinates of its parts, see `Task.part_titles`.
        editions: All that are known, the shown one among them, newest first.
        costs: What the trials took, by variant; empty where none had a GPU.
        price: Of the hours, where a user states one.
        opens_with: What is shown above the figure of scores, see `suite.Ablation`; mostly nothing.
        held_out: Of a scaling law: axis -> its value in the trainings that it predicts.
        axis_values: Variant -> axis -> its value, of every axis; a whole model by its label. Empty
            in results of versions that did not store it.
        named_axes: Variant -> the axes that its label names.
        num_test_examples: Task -> examples of its test split, where a plan knows how many.
        is_indicative: Whether the scale is too small for a paper; `regenerate`: the command.
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
    held_out: Mapping[str, int] = field(default_factory=dict)
    axis_values: Mapping[str, Mapping[str, Knob]] = field(default_factory=dict)
    named_axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    num_test_examples: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Return the names of the axes."""
        if self.axis_values:
            return tuple(self.axis_values[self.baseline])
        return axes_in(self.variants)

    @property
    def edition(self) -> int:
        """Return the number of the shown edition; 1 if none is known."""
        return next((each.number for each in self.editions if each.is_shown), 1)

    @property
    def editions_with_results(self) -> tuple[Edition, ...]:
        """Return the editions that have results, the newest first."""
        return tuple(each for each in self.editions if each.num_done)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return all that a row may be about: the variants, then the floors, each once."""
        floors = (label for of_task in self.floors.values() for label in of_task)
        return tuple(dict.fromkeys((*self.variants, *floors)))


# Of a process on a GPU, beside torch's allocator: CUDA, cuBLAS and cuDNN take 0.3 to 0.7 GiB.
BYTES_OF_A_CONTEXT = 2**30


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of one worker of a trial; recorded with its result, never part of its id.

    Below 1 it shares a GPU, of whose memory it may take that share. The model of the GPU is as Ray
    names it (``A100``, ``L4``); empty takes any. `memory_bytes` is the room that a node must have
    to spare; 0 asks for none.
    """

    num_cpus: int = 1
    num_threads: int = 1
    num_gpus: float = 0.0
    memory_bytes: int = 0
    gpu_model: str = ""

    @property
    def is_shared(self) -> bool:
        """Return True if others may compute on its GPU meanwhile."""
        return 0 < self.num_gpus < 1

    @property
    def share(self) -> float:
        """Return its share of a GPU, or 1."""
        return self.num_gpus if self.is_shared else 1.0

    @property
    def alone(self) -> Resources:
        """Return the same, with the whole of a GPU that it would share."""
        return replace(self, num_gpus=1.0) if self.is_shared else self

    def for_trial(self, trial: Trial) -> Resources:
        """Return the same, but alone on its GPU if others would move the number."""
        is_moved = trial.is_timing or trial.probe in MEMORY_PROBES
        return self.alone if is_moved else self


@dataclass(frozen=True, kw_only=True)
class Plan:
    """An ablation at one scale, expanded: its table's cells, and the trials that fill them."""

    about: About
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    resources: Resources
    source_paths: tuple[str, ...] = ()  # folders that a user's own modules are imported from

    @property
    def key(self) -> tuple[str, str]:
        """Return (ablation, scale), which names a parent run in the store."""
        return self.about.ablation, self.about.scale
