"""Compare the scores of generated texts with sacrebleu and with hand counts, after one training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.models.decoding import Decoder
from bakeoff.suite.errors import CheckpointError, Diverged
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes import written_scores
from bakeoff.suite.probes.probe import probe
from bakeoff.suite.probes.written_scores import (
    Sentence,
    bleu_of,
    interval_of,
    scores,
    with_interval,
)
from bakeoff.suite.schema import Measurement, Plan, Trial, rests_on
from bakeoff.suite.spec import Model, vary
from bakeoff.suite.tasks import registry
from bakeoff.suite.tasks.caption_metrics import CiderD, RougeL
from bakeoff.suite.tasks.sequence_metrics import Bleu, ChrF, SequenceMetric
from bakeoff.suite.tasks.sequence_to_sequence.bible import BibleEnDe
from bakeoff.suite.tasks.sequence_to_sequence.digits import END, ZERO, Reversal
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.weights import restore
from tests.suite.probes.conftest import said_after_training
from tests.suite.small_ablation import make_ablation
from tests.suite.writers import Successor, counted

METRIC = Bleu(decoder=Decoder(), end=END)


class Spelt(Reversal):
    """Reversal of digits as text, in parts by the first target digit; few sentences are scored."""

    name = "spelt"
    metric = METRIC

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        found = next(iter(super().held_out(split, 24)))
        found.targets[5] = UNSCORED
        for first in range(0, 24, batch):
            yield found.rows(slice(first, first + batch))

    def parts(self) -> tuple[str, ...]:
        return ("words=4", "words=8", "words=99")

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        first = batch.targets[:, :1]
        asked = {"words=4": first < 8, "words=8": first >= 8, "words=99": first >= 99}
        return {at: inside.expand(batch.targets.shape) for at, inside in asked.items()}


@pytest.fixture(autouse=True)
def _spelt(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("Spelt", "Captioned"):
        monkeypatch.setitem(registry.TASKS, kind.lower(), f"{Spelt.__module__}:{kind}")


def planned(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "baseline": Model("seq2seq"),
        "tasks": [Spelt.name],
        "axes": [vary("beam", [1, 3])],
        "probes": ["quality", "written_scores"],
    }
    scale = {"length": 8, "batch": 10, "steps": 15, "learning_rate": 1e-2, "num_evaluations": 1}
    return plan(make_ablation(**(fields | changes), scale=scale), seeds=1)


def found_by(trial: Trial, folder: Path) -> dict[tuple[str, str], Measurement]:
    said = said_after_training(trial, folder)
    return {(m.metric, m.at): m for m in said if isinstance(m, Measurement)}


def test_greedy_scores_are_those_of_quality_and_parts_add_up(tmp_path: Path) -> None:
    """Compare metrics with those announced, in order, except parts without sentences."""
    greedy, wide = (t for t in planned().trials if t.probe == "written_scores")
    found = found_by(greedy, tmp_path)
    assert greedy.trained is not None
    said = probe("quality").measure(greedy.trained, "cpu")
    own = {m.at: m.value for m in said if isinstance(m, Measurement)}
    for at in ("", "words=4", "words=8"):
        assert found["written_bleu", at].value == pytest.approx(own[at])
        assert (
            found["written_bleu", at].spread_low <= own[at] <= found["written_bleu", at].spread_high
        )
    sizes = {at: m.value for (name, at), m in found.items() if name == "num_sentences"}
    assert sizes[""] == sizes["words=4"] + sizes["words=8"] == 23  # one sentence has no targets
    announced = probe("written_scores").metrics(Spelt, greedy.length)
    assert [(s.name, s.at) for s in announced if s.at != "words=99"] == list(found)
    assert [(s.unit, s.better) for s in announced if s.at != "words=99"] == [
        (m.unit, m.better) for m in found.values()
    ]
    other = found_by(wide, tmp_path)
    for name in ("bits_per_word", "teacher_forced_bleu"):
        assert other[name, ""].value == found[name, ""].value
    for each in (found, other):
        gap = each["teacher_forced_bleu", ""].value - each["written_bleu", ""].value
        assert each["exposure_gap", ""].value == pytest.approx(gap)


def test_bits_are_those_of_the_reference_over_its_words(tmp_path: Path) -> None:
    trial = next(t for t in planned().trials if t.probe == "written_scores")
    found = found_by(trial, tmp_path)
    model = _restored(trial, tmp_path).eval()
    nats, words = 0.0, 0
    with torch.inference_mode():
        for batch in Spelt(trial.length).held_out("test", 24):
            logits = batch.through(model).logits.log_softmax(dim=-1)
            for row, place in (batch.targets != UNSCORED).nonzero().tolist():
                symbol = int(batch.targets[row, place])
                nats -= float(logits[row, place, symbol])
                words += symbol != END
    assert found["bits_per_word", ""].value == pytest.approx(nats / math.log(2) / words, rel=1e-5)


def _restored(trial: Trial, folder: Path) -> nn.Module:
    model = build_model(trial.subjects[0])
    assert trial.trained is not None
    restore(model, folder, trial.trained.trial_id)
    return model


def test_counts_of_a_model_whose_writing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count up by two and stop beyond 9: one sentence right, one too long, one empty."""
    asked = counted([1, 3, 5, 7, 9], [0, 2, 3, 4], [9])
    found = measured_on(monkeypatch, Successor(2), asked)
    by_hand = [[3, 5, 7, 9], [2, 4, 6, 8], []]
    written = [[ZERO + digit for digit in row] for row in by_hand]
    assert found["num_sentences"] == 3
    assert found["written_exact_match"] == found["unfinished"] == pytest.approx(2 / 3)
    assert found["length_ratio"] == pytest.approx(8 / 7)
    assert found["written_bleu"] == METRIC.over([METRIC.sums_of_written(written, asked)])
    # After reading 2 and 3 it writes 4 and 5 (the targets are 3 and 4), then 6 instead of END.
    forced = [[3, 5, 7, 9], [2, 4, 5, 6], []]
    given = [[ZERO + digit for digit in row] for row in forced]
    assert found["teacher_forced_bleu"] == METRIC.over([METRIC.sums_of_written(given, asked)])


def measured_on(
    monkeypatch: pytest.MonkeyPatch, model: nn.Module, batch: Batch
) -> dict[str, float | None]:
    monkeypatch.setattr(written_scores, "trained_model", lambda *args: model)
    monkeypatch.setattr(Spelt, "held_out", lambda *args: [batch])
    monkeypatch.setattr(Spelt, "in_parts", lambda *args: {})
    trial = next(t for t in planned().trials if t.probe == "written_scores")
    said = probe("written_scores").measure(trial, "cpu")
    return {m.metric: m.value for m in said if isinstance(m, Measurement)}


def test_a_model_of_no_numbers_has_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Successor):
        def _answered(self, tokens: Tensor, first: Tensor) -> Tensor:
            return super()._answered(tokens, first) * math.nan

    with pytest.raises(Diverged, match="bits of the test split are nan"):
        measured_on(monkeypatch, Lost(1), counted([1, 2, 3]))


def test_a_perfect_model_has_no_gap() -> None:
    same = Sentence([4, 5, 6, 7], [4, 5, 6, 7], [4, 5, 6, 7], True, frozenset())
    found = {m.metric: m for m in scores(METRIC, [same, same], bits=16.0, parts=("words=4",))}
    values = {name: m.value for name, m in found.items()}
    assert values["written_bleu"] == values["teacher_forced_bleu"] == pytest.approx(100)
    assert (values["exposure_gap"], values["unfinished"], values["written_exact_match"]) == (
        0,
        0,
        1,
    )
    assert (values["written_chrf"], values["length_ratio"]) == (100, 1)
    assert (values["bits_per_word"], values["num_sentences"]) == (2, 2)
    assert found["written_bleu"].spread_low == found["written_bleu"].spread_high


class Captioned(Spelt):
    """A variant that also has caption metrics."""

    name = "captioned"
    also_scored = (CiderD(end=END, references=lambda: DOCUMENTS), RougeL(end=END))


DOCUMENTS = (("3 4",), ("5 6 7",), ("3 8",))


def test_what_a_task_is_also_scored_by_comes_last_with_an_interval(tmp_path: Path) -> None:
    """Check that they have their own unit and that a claim has the gate of the task's score."""
    trial = next(t for t in planned(tasks=["captioned"]).trials if t.probe == "written_scores")
    found = found_by(trial, tmp_path)
    of, length = probe("written_scores"), trial.length
    before = [(s.name, s.at) for s in of.metrics(Spelt, length) if s.at != "words=99"]
    assert list(found) == [*before, ("written_cider_d", ""), ("written_rouge_l", "")]
    announced = of.metrics(Captioned, length)
    assert announced[: len(announced) - 2] == of.metrics(Spelt, length)
    for spec, metric in zip(announced[-2:], Captioned.also_scored, strict=True):
        measured = found[spec.name, ""]
        assert (spec.unit, spec.better) == (metric.unit, metric.better)
        assert (measured.unit, measured.better) == (metric.unit, metric.better)
        assert measured.spread_low <= measured.value <= measured.spread_high
        assert rests_on(spec.name, Captioned.metric.name)


def test_a_further_metric_is_that_of_the_written_sentences() -> None:
    """Check mean and percentiles of two right sentences in three, whatever the forced answers."""
    right = Sentence([3, 4], [3, 4], [9, 9], True, frozenset())
    wrong = Sentence([5, 6], [7], [5, 6], True, frozenset())
    found = with_interval(RougeL(end=END), [right, right, wrong])
    assert found.value == pytest.approx(2 / 3)
    drawn = np.random.default_rng(written_scores._SEED).integers(3, size=(1_000, 3))
    expected = np.percentile((drawn < 2).mean(axis=1), [2.5, 97.5])
    assert [found.spread_low, found.spread_high] == pytest.approx(expected.tolist())


def test_what_is_any_of_several_references_is_right() -> None:
    """Check that bits per token are still computed on the one target."""
    several = ([4, 5, 6, 7, 8], [3, 4])
    said = Sentence([3, 4], [4, 5, 6, 7, 8], [3, 9], True, frozenset(), several)
    found = {m.metric: m.value for m in scores(METRIC, [said], bits=8.0, parts=())}
    assert found["written_bleu"] == pytest.approx(100)
    assert (found["written_exact_match"], found["written_chrf"]) == (1, 100)
    assert (found["length_ratio"], found["bits_per_word"]) == (1, 4)
    assert with_interval(RougeL(end=END), [said]).value == 1


def test_a_further_metric_may_be_of_a_corpus() -> None:
    """Use chrF, whose value is not a mean."""
    pair = Sentence([3, 4, 5], [3, 4], [], True, frozenset())
    found = with_interval(ChrF(end=END), [pair, pair._replace(written=[6])])
    sums = sum(np.array(ChrF().counts(w, [3, 4, 5])) for w in ([3, 4], [6]))
    assert found.value == ChrF().value(torch.from_numpy(sums))


def test_what_shipped_tasks_are_also_scored_by_has_a_gate() -> None:
    for name in registry.TASKS:
        task = registry.task_class(name)
        for metric in (m for m in task.also_scored if isinstance(m, SequenceMetric)):
            assert rests_on(f"written_{metric.name}", task.metric.name), name


def random_statistics(count: int, seed: int = 0) -> np.ndarray:
    """Return the BLEU statistics of random digit sentences against partly matching references."""
    drawn = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        asked = drawn.integers(8, size=drawn.integers(1, 12)).tolist()
        keeps = drawn.random() ** 0.3
        written = [s if drawn.random() < keeps else int(drawn.integers(8)) for s in asked]
        rows.append(METRIC.counts(written[: len(asked) - int(drawn.integers(2))], asked))
    return np.array(rows, dtype=np.int64)


def test_bleu_of_many_corpora_is_that_of_sacrebleu() -> None:
    """Include missing or absent n-gram orders, corpora without a match, and empty ones."""
    every = random_statistics(400)
    corpora = [*every[:200], *(every[i : i + 3].sum(axis=0) for i in range(200))]
    corpora += [every.sum(axis=0), np.array([0, 5, 0, 0, 0, 0, 0, 0, 0, 0])]
    corpora += [np.array([9, 9, 3, 0, 0, 0, 9, 8, 7, 6]), np.array([9, 9, 0, 0, 0, 0, 9, 8, 7, 6])]
    by_sacrebleu = [METRIC.value(torch.from_numpy(each)) for each in corpora]
    assert len(set(by_sacrebleu)) > 100
    np.testing.assert_allclose(bleu_of(np.stack(corpora)), by_sacrebleu, rtol=0, atol=1e-9)


def test_the_interval_is_that_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_scores, "NUM_RESAMPLES", 60)
    every = random_statistics(30)
    drawn = np.random.default_rng(written_scores._SEED).integers(30, size=(60, 30))
    by_loop = []
    for rows in drawn:
        sums = sum(every[row] for row in rows)
        by_loop.append(METRIC.value(torch.from_numpy(sums)))
    expected = np.percentile(by_loop, [2.5, 97.5])
    np.testing.assert_allclose(interval_of(every, bleu_of), expected, atol=1e-9)
    assert interval_of(every, bleu_of) == interval_of(every.copy(), bleu_of)


def test_the_interval_covers_the_truth_about_as_often_as_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Use a true share of 0.3; of 200 test sets with 200 sentences each, 95 % are 190."""
    monkeypatch.setattr(written_scores, "NUM_RESAMPLES", 200)

    def share(sums: np.ndarray) -> np.ndarray:
        return sums[:, 0] / sums[:, 1]

    drawn = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        right = drawn.random(200) < 0.3
        low, high = interval_of(np.stack([right, np.ones(200)], axis=1).astype(np.int64), share)
        covered += low <= 0.3 <= high
    assert 180 <= covered <= 198


@pytest.mark.slow
def test_the_interval_of_bleu_covers_that_of_a_large_corpus() -> None:
    truth = float(bleu_of(random_statistics(20_000, seed=1).sum(axis=0)[None])[0])
    pool = random_statistics(20_000, seed=2)
    intervals = [interval_of(pool[i : i + 100], bleu_of) for i in range(0, 20_000, 100)]
    assert 180 <= sum(low <= truth <= high for low, high in intervals) <= 199


def test_what_cannot_be_scored_is_refused_while_planning() -> None:
    of = probe("written_scores")
    assert of.why_not_on(BibleEnDe) == of.why_not_on(Spelt) == ""
    assert "the metric of reversal is of none" in of.why_not_on(Reversal)
    found = planned(
        tasks=[Reversal.name, Spelt.name], axes=[vary("summary", ["context", "states"])]
    )
    skipped = {c.task: c.reason for c in found.cells if c.probe == "written_scores"}
    assert "written text" in skipped[Reversal.name]
    assert skipped[Spelt.name] == ""
    silent = ModelSpec(
        architecture="classifier",
        mixer="attention",
        knobs={},
        position="none",
        dim=8,
        depth=1,
        length=8,
        input_kind="tokens",
        input_size=8,
        output_size=8,
    )
    assert of.why_not(silent, None) == "a classifier does not write its own next token"


def test_without_the_trained_model_it_says_so(tmp_path: Path) -> None:
    trial = next(t for t in planned().trials if t.probe == "written_scores")
    with pytest.raises(CheckpointError):
        list(probe("written_scores").measure_resuming(trial, "cpu", Checkpointer(tmp_path, 1e9)))
