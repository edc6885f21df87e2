"""Score the sentences that a trained model generates on the test split.

The model reads its own output, as in use, and a beam search looks for the most likely sentence,
with the beam and the length penalty of the scale (`bakeoff.models.decoding`), which may be axes.
`quality` trains the model once for all of them, and its own score remains that of the task's
search, mostly a greedy one. No sentence becomes longer than the targets of its task may be;
`unfinished` is the share of those that are cut there.

    written_bleu         with the 95 % interval of a bootstrap over sentences; see `interval_of`
    written_chrf         chrF2
    written_exact_match  the share of sentences that equal the reference, symbol by symbol; if a
                         task has several references, any of them counts as right in all scores
    written_NAME         each metric of the task's `also_scored`, with such an interval too
    length_ratio         words generated over words of the references, as sacrebleu counts them
    bits_per_word        of all target symbols under teacher forcing, over the words of the
                         references, which are separated by spaces: models can be compared whatever
                         their symbols are
    teacher_forced_bleu  of the most likely symbol at each position under teacher forcing
    exposure_gap         the same minus `written_bleu`

In training a model reads the right symbols only, and in use its own, with their errors. The gap
shows the cost of that (Bengio et al. 2015, arXiv:1506.03099; Ranzato et al. 2016,
arXiv:1511.06732). It is an upper bound, and a loose one: the right symbols also reveal the length
of the sentence, correct the prefix after each error, and may be the half of a word that determines
the other half. A better search makes the gap smaller too, although it does not correct errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.models import Decoder, ModelSpec, architecture_class
from bakeoff.models.decoding import Decoded
from bakeoff.models.interface import Outputs
from bakeoff.suite.errors import Diverged
from bakeoff.suite.probes.probe import ORIGIN, Said, TrainedModelProbe, measurement, trained_model
from bakeoff.suite.probes.samples.collect import samples_of
from bakeoff.suite.probes.samples.translations import translations
from bakeoff.suite.schema import (
    NUM_SENTENCES,
    WRITTEN_SCORES,
    Measurement,
    MetricSpec,
    Parallel,
    Trial,
    metric_spec,
)
from bakeoff.suite.tasks.metrics import Bits
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.sequence_metrics import (
    Bleu,
    ChrF,
    ExactMatch,
    SacrebleuMetric,
    SequenceMetric,
    Symbols,
)
from bakeoff.suite.tasks.task import UNSCORED, Batch, Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import in_evaluation_mode, writes, written

NUM_RESAMPLES = 1_000
_SEED = 20_040_725
_OUTSIDE = (2.5, 97.5)  # percentiles outside the interval
_MAX_ORDER = 4  # the largest n of BLEU's n-grams

_BLEU = metric_spec("written_bleu")
_SENTENCES = metric_spec(NUM_SENTENCES)
_CHRF = metric_spec("written_chrf")
_EXACT = metric_spec("written_exact_match")
_RATIO = metric_spec("length_ratio")
_UNFINISHED = metric_spec("unfinished")
_BITS = metric_spec("bits_per_word")
_FORCED = metric_spec("teacher_forced_bleu")
_GAP = metric_spec("exposure_gap")

Statistics = NDArray[np.float64]  # float64 represents whole numbers up to 2**53 exactly


class Sentence(NamedTuple):
    """The data of one example.

    Attributes:
        asked: The symbols of the reference.
        written: The symbols that the model generates.
        forced: The most likely symbols under teacher forcing.
        has_ended: False if the search was cut.
        parts: The coordinates of the task's parts to which any of its targets belongs.
        references: All right answers, by which generated text is scored; empty if it is `asked`
            alone.
    """

    asked: Symbols
    written: Symbols
    forced: Symbols
    has_ended: bool
    parts: frozenset[str]
    references: tuple[Symbols, ...] = ()

    @property
    def right(self) -> tuple[Symbols, ...]:
        """The references, at least one."""
        return self.references or (self.asked,)


class WrittenScores(TrainedModelProbe):
    """Scores of generated sentences on the test split, compared with teacher forcing."""

    name = WRITTEN_SCORES
    version = 1
    depends_on = TrainedModelProbe.depends_on | ORIGIN | {"beam", "length_penalty"}

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return BLEU and the number of sentences, also for the task's parts, then others."""
        assert task is not None, f"{self.name} is no sweep"
        places = ("", *task(length).parts())
        in_parts = (replace(spec, at=at) for at in places for spec in (_BLEU, _SENTENCES))
        of_task = map(_spec_of, _of_writing(task))
        return (*in_parts, _CHRF, _EXACT, _RATIO, _UNFINISHED, _BITS, _FORCED, _GAP, *of_task)

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; the model must generate sequences."""
        silent = architecture_class(model.architecture).why_silent(model)
        return silent or super().why_not(model, parallel)

    def why_not_on(self, task: type[Task]) -> str:
        """Return why a trial is skipped; the metric must score generated text."""
        if isinstance(task.metric, SacrebleuMetric) and writes(task.metric):
            return ""
        return f"{self.name} is for written text, and the metric of {task.name} is of none"

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Run the search and the teacher-forced pass, batch by batch.

        The search holds `beam` hypotheses of each sequence of the trial's batch at once.

        Raises:
            Diverged: if a probability is not a number.
            CheckpointError: if the weights are not available on this host.
        """
        model = trained_model(trial, checkpointer, device)
        task = build_task(trial.task, trial.length)
        metric = task.metric
        assert isinstance(metric, SacrebleuMetric), "other tasks are refused while planning"
        search = _search_of(metric, trial)
        sentences: list[Sentence] = []
        bits = 0.0
        with in_evaluation_mode(model), torch.inference_mode():
            for held_out in task.held_out("test", trial.batch):
                batch = held_out.to(device)
                outputs = batch.through(model)
                bits += _bits(outputs, batch)
                forced = metric.likeliest(outputs, batch)
                found = written(model, batch, search, metric.end)
                sentences += _sentences(task, metric, batch, forced, found)
        yield from scores(metric, sentences, bits, task.parts())
        for each in _of_writing(type(task)):
            yield with_interval(each, sentences)
        yield from samples_of(model, task, trial.seed, (partial(translations, search=search),))


def _of_writing(task: type[Task]) -> list[SequenceMetric]:
    """Return the task's further metrics of generated sequences."""
    return [each for each in task.also_scored if isinstance(each, SequenceMetric)]


def _spec_of(metric: SequenceMetric) -> MetricSpec:
    """Return the specification of a metric of generated sequences."""
    return MetricSpec(name=f"written_{metric.name}", unit=metric.unit, better=metric.better)


def _search_of(metric: SacrebleuMetric, trial: Trial) -> Decoder:
    """Return the task's search with the settings of the trial."""
    assert metric.decoder is not None, "tasks that judge no writing are refused while planning"
    return replace(metric.decoder, beam=trial.beam, length_penalty=trial.length_penalty)


def _bits(outputs: Outputs, batch: Batch) -> float:
    """Return the bits of all target symbols."""
    bits = float(Bits(name=_BITS.name, unit=_BITS.unit).sums(outputs, batch)[0])
    if not math.isfinite(bits):
        raise Diverged(f"the bits of the test split are {bits}")
    return bits


def _sentences(
    task: Task, metric: SacrebleuMetric, batch: Batch, forced: Sequence[Symbols], found: Decoded
) -> Iterator[Sentence]:
    """Yield the sentences of the rows that have targets."""
    is_scored = batch.targets != UNSCORED
    inside = {at: (part & is_scored).any(dim=1) for at, part in task.in_parts(batch).items()}
    ended, right = found.has_ended.tolist(), metric.right(batch)
    rows = zip(metric.asked(batch), found.rows(), forced, ended, right, strict=True)
    for row, (asked, free, likeliest, has_ended, references) in enumerate(rows):
        if asked is not None:
            parts = frozenset(at for at, is_inside in inside.items() if is_inside[row])
            yield Sentence(asked, free, likeliest, has_ended, parts, references)


def scores(
    metric: SacrebleuMetric, sentences: Sequence[Sentence], bits: float, parts: Sequence[str]
) -> Iterator[Measurement]:
    """Yield all measurements; a part without sentences is left out.

    Args:
        metric: The metric, which converts symbols to text.
        sentences: The sentences, at least one.
        bits: The bits of all their symbols together, including the end symbols.
        parts: The coordinates of the task's parts.
    """
    bleu = Bleu(end=metric.end, text=metric.text)
    chrf = ChrF(end=metric.end, text=metric.text)
    found = _statistics(bleu, sentences)
    for at in ("", *parts):
        inside = [not at or at in each.parts for each in sentences]
        if any(inside):
            yield from _with_interval(bleu, found[inside], at)
    yield measurement(_CHRF, _score(chrf, _statistics(chrf, sentences)))
    exact = ExactMatch(end=metric.end)
    yield measurement(_EXACT, _score(exact, _statistics(exact, sentences)))
    words, asked_words = found[:, :2].sum(axis=0)
    yield measurement(_RATIO, words / asked_words)
    yield measurement(_UNFINISHED, fmean(not each.has_ended for each in sentences))
    yield measurement(_BITS, bits / sum(len(metric.text(each.asked).split()) for each in sentences))
    right_before = [each._replace(written=each.forced) for each in sentences]
    forced = _score(bleu, _statistics(bleu, right_before))
    yield measurement(_FORCED, forced)
    yield measurement(_GAP, forced - _score(bleu, found))


def with_interval(metric: SequenceMetric, sentences: Sequence[Sentence]) -> Measurement:
    """Return a further metric of the generated sentences, with its interval over sentences.

    Args:
        metric: A metric of the task's `also_scored`.
        sentences: The sentences, at least one.
    """
    statistics = _statistics(metric, sentences)

    def values(sums: Statistics) -> NDArray[np.float64]:
        return np.array([metric.value(each) for each in torch.from_numpy(sums)])

    low, high = interval_of(statistics, values)
    value = _score(metric, statistics)
    return measurement(_spec_of(metric), value, spread_low=low, spread_high=high)


def _statistics(metric: SequenceMetric, sentences: Sequence[Sentence]) -> Statistics:
    """Return additive statistics of each sentence, `[sentences, k]`."""
    counts = [metric.counts(each.written, *each.right) for each in sentences]
    return np.array(counts, dtype=np.float64)


def _score(metric: SequenceMetric, statistics: Statistics) -> float:
    """Return the score of the corpus of these sentences."""
    return metric.value(torch.from_numpy(statistics.sum(axis=0)))


def _with_interval(bleu: Bleu, statistics: Statistics, at: str) -> Iterator[Measurement]:
    """Yield BLEU of some sentences, and their number."""
    low, high = interval_of(statistics, bleu_of)
    value = _score(bleu, statistics)
    yield measurement(_BLEU, value, at=at, spread_low=low, spread_high=high)
    yield measurement(_SENTENCES, len(statistics), at=at)


def interval_of(
    statistics: Statistics, value: Callable[[Statistics], NDArray[np.float64]]
) -> tuple[float, float]:
    """Return the 95 % interval of a corpus score, by a percentile bootstrap over sentences.

    Koehn 2004, "Statistical significance tests for machine translation evaluation"
    (https://aclanthology.org/W04-3250), section 3. The interval shows how much the score would vary
    over test sets of the same size for this one trained model, not how it varies over seeds. The
    resamples depend on the number of sentences only, so that intervals of models can be compared.

    Args:
        statistics: Additive statistics, `[sentences, k]`.
        value: Function from sums `[resamples, k]` to scores `[resamples]`.
    """
    count = len(statistics)
    drawn = np.random.default_rng(_SEED).integers(count, size=(NUM_RESAMPLES, count))
    sums = np.stack([statistics[rows].sum(axis=0) for rows in drawn])
    low, high = np.percentile(value(sums), _OUTSIDE)
    return float(low), float(high)


def bleu_of(sums: Statistics) -> NDArray[np.float64]:
    """Return BLEU of sums `[corpora, 10]`, as sacrebleu computes it with its defaults.

    An order without a matching n-gram counts as one half match, the next such order as one quarter.
    """
    lengths, right, total = np.split(sums.astype(np.float64), (2, 2 + _MAX_ORDER), axis=1)
    is_missed = right == 0
    smoothed = np.where(is_missed, 0.5 ** is_missed.cumsum(axis=1), right)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(smoothed / total).mean(axis=1)
        penalty = np.minimum(0.0, 1 - lengths[:, 1] / lengths[:, 0])
        found = 100 * np.exp(logarithms + penalty)
    is_zero = is_missed.all(axis=1) | (total == 0).any(axis=1)
    return np.where(is_zero, 0.0, found)
