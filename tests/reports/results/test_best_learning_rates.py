"""Is the chosen rate the best by validation, tried as often as its rivals? And is it said so?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports.export.printers import frame_to_csv, to_markdown
from reports.pages.best_learning_rates import chosen_rates_exhibit
from reports.results.best_learning_rates import ANY_MIXER, Choice, choices, main, mixer_and_rate
from reports.results.frame import results_frame
from suite.planning.learning_rates import read_rates
from suite.schema import MetricSpec
from tests.reports import conftest as synthetic
from tests.reports.conftest import known

ACCURACY = MetricSpec(name="validation_accuracy", unit="1", better="higher")
BITS = MetricSpec(name="validation_bits_per_character", unit="bit", better="lower")
TASKS = {"listops": ACCURACY, "shakespeare_characters": BITS}
RATES = (0.001, 0.003, 0.01)
Scores = Mapping[tuple[str, str], tuple[object, ...]]  # task, mixer -> by rate: a score or a fate

LEARNT: Scores = {
    ("listops", "attention"): (0.20, 0.30, 0.25),
    ("listops", "lstm"): (0.20, 0.21, 0.40),
    ("listops", "fnet"): (0.30, 0.30, 0.10),
    ("shakespeare_characters", "attention"): (3.5, 3.2, 3.4),
    ("shakespeare_characters", "lstm"): (3.5, 3.4, 3.0),
    ("shakespeare_characters", "fnet"): ("skipped", "skipped", "skipped"),
}


def _label(mixer: str, rate: float) -> str:
    return f"mixer={mixer}, learning_rate={rate}"


def _results(scores: Scores, seeds: int = 1) -> pd.DataFrame:
    """As many seeds; the second one is better by 0.1 everywhere."""
    said = synthetic.about(ablation="learning_rate")
    rows = [
        synthetic.row(
            said, _label(mixer, rate), task, "validation", TASKS[task], seed=seed,
            trial_id=f"{task} {mixer} {rate} {seed}", **_ending(score, 0.1 * seed),
        )
        for (task, mixer), of_mixer in scores.items()
        for rate, score in zip(RATES, of_mixer, strict=True)
        for seed in range(seeds)
    ]  # fmt: skip
    return results_frame(rows)


def _ending(score: object, more: float) -> dict[str, Any]:
    if isinstance(score, str):
        return {"value": None, "status": score, "reason": "for a reason"}
    return {"value": score + more}


def _rates(found: tuple[Choice, ...], task: str) -> dict[str, float]:
    return {one.mixer: one.rate for one in found if one.task == task}


def test_the_best_is_chosen_whichever_way_is_good() -> None:
    found = choices(_results(LEARNT))
    listops = {"attention": 0.003, "lstm": 0.01, "fnet": 0.001, ANY_MIXER: 0.003}
    assert _rates(found, "listops") == listops  # fnet: of equal ones the smaller
    text = {"attention": 0.003, "lstm": 0.01, ANY_MIXER: 0.003}
    assert _rates(found, "shakespeare_characters") == text  # any: a tie of ranks


def test_the_margin_is_to_the_next_best() -> None:
    found = {(one.task, one.mixer): one for one in choices(_results(LEARNT))}
    lstm = found["shakespeare_characters", "lstm"]
    assert lstm.margin == pytest.approx(0.4)
    assert (lstm.next_best, lstm.unit, lstm.is_at_edge) == (0.003, "bit", True)
    assert found["listops", "fnet"].margin == 0
    assert not found["listops", "attention"].is_at_edge
    assert found["listops", ANY_MIXER].margin is None


def test_any_mixer_gets_the_rate_of_the_best_mean_rank() -> None:
    """By mean score it would be 0.01, by most first places 0.001; in ranks 0.003 is ahead."""
    scores: Scores = {
        ("listops", "attention"): (0.30, 0.29, 0.28),
        ("listops", "lstm"): (0.30, 0.29, 0.28),
        ("listops", "fnet"): (0.10, 0.11, 0.90),
        ("listops", "conv"): (0.10, 0.12, 0.11),
    }
    assert _rates(choices(_results(scores)), "listops")[ANY_MIXER] == 0.003


def test_a_rate_that_diverged_is_the_worst_even_with_one_seed_of_two() -> None:
    results = _results({("listops", "lstm"): (0.2, 0.3, 0.9)}, seeds=2)
    of_last = (results["variant"] == _label("lstm", 0.01)) & (results["seed"] == 1)
    results.loc[of_last, "value"] = float("nan")
    results.loc[of_last, "status"] = "diverged"
    (lstm, _) = choices(results)
    assert (lstm.rate, lstm.next_best) == (0.003, 0.001)


def test_scores_are_averaged_over_seeds() -> None:
    results = _results({("listops", "lstm"): (0.20, 0.25, 0.21)}, seeds=2)
    lucky = (results["variant"] == _label("lstm", 0.001)) & (results["seed"] == 1)
    results.loc[lucky, "value"] = 0.9
    assert choices(results)[0].rate == 0.001


@pytest.mark.parametrize("fate", ["timeout", "crashed", "out_of_memory", "error"])
def test_a_mixer_that_lacks_a_measurement_has_no_row(fate: str) -> None:
    scores: Scores = {
        ("listops", "attention"): (0.2, 0.3, 0.1), ("listops", "lstm"): (fate, 0.1, 0.4),
    }  # fmt: skip
    assert _rates(choices(_results(scores)), "listops").keys() == {
        "attention", ANY_MIXER,
    }  # fmt: skip


def test_a_seed_or_a_rate_that_is_not_there_is_a_lack_too() -> None:
    results = _results(LEARNT, seeds=2)
    of_lstm = results["variant"] == _label("lstm", 0.01)
    one_seed = results[~(of_lstm & (results["seed"] == 1))]
    assert "lstm" not in _rates(choices(one_seed), "listops")
    assert "lstm" not in _rates(choices(results[~of_lstm]), "listops")
    assert "lstm" in _rates(choices(results), "listops")


def test_where_all_rates_diverged_there_is_nothing_to_choose() -> None:
    everywhere: Scores = {("listops", "lstm"): ("diverged",) * 3}
    assert choices(_results(everywhere)) == ()


def test_scales_are_chosen_for_apart_from_the_smallest_on() -> None:
    quick = _results({("listops", "lstm"): (0.2, 0.3, 0.1)})
    standard = _results({("listops", "lstm"): (0.4, 0.3, 0.1)}).assign(scale="standard")
    found = choices(pd.concat([standard, quick]))
    assert [(one.scale, one.rate) for one in found if one.mixer == "lstm"] == [
        ("quick", 0.003), ("standard", 0.001),
    ]  # fmt: skip


def test_other_probes_and_labels_are_left_aside() -> None:
    results = _results(LEARNT)
    assert choices(results.assign(probe="quality")) == ()
    assert choices(results.assign(variant="baseline")) == ()
    for label in ("heads=8", "mixer=lstm", "mixer=lstm, learning_rate=tuned", "learning_rate=0.1"):
        assert mixer_and_rate(label) is None
    assert mixer_and_rate("mixer=mine:My, learning_rate=1e-05") == ("mine:My", 1e-5)
    tagger = "architecture=tagger, mixer=lstm, learning_rate=0.1"
    assert mixer_and_rate(tagger) == ("tagger/lstm", 0.1)
    assert mixer_and_rate("architecture=cnn, learning_rate=0.1") == ("cnn/", 0.1)


def _file(folder: Path, results: pd.DataFrame) -> Path:
    path = folder / "results.csv"
    path.write_text(frame_to_csv(results))
    return path


def test_the_command_prints_the_table_that_the_suite_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(_file(tmp_path, _results(LEARNT)))]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[:3] == [
        "scale,task,architecture,mixer,learning_rate", "quick,listops,,attention,0.003",
        "quick,listops,,lstm,0.01",
    ]  # fmt: skip
    read = read_rates(printed)
    chosen = choices(_results(LEARNT))
    assert read == {(one.scale, one.task, "", one.mixer): one.rate for one in chosen}


def test_the_command_says_in_a_sentence_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _results(LEARNT).assign(probe="quality")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for path, said in (
        (tmp_path / "none.csv", "cannot be read"),
        (tmp_path / "other.csv", "has no column 'scale'"),
        (_file(tmp_path, other), "no result of the probe 'validation'"),
    ):
        assert main([str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert said in captured.err
        assert captured.err.count("\n") == 1
    assert main([]) == 2


def test_the_exhibit_has_a_row_a_mixer_and_says_the_margin() -> None:
    labels = tuple(_label(mixer, rate) for mixer in ("attention", "lstm", "fnet") for rate in RATES)
    about = synthetic.about(ablation="learning_rate", variants=labels, tasks=tuple(TASKS))
    exhibit = known(chosen_rates_exhibit(about, _results(LEARNT)))
    (table,) = exhibit.tables
    assert [row.name for row in table.rows] == ["attention", "lstm", "fnet", "any other"]
    assert [column.key for column in table.columns] == list(TASKS)
    shown = {row.name: [(e.text, e.note) for e in row.entries] for row in table.rows}
    assert shown["lstm"] == [
        ("0.01‡", "0.19 ahead of 0.003"), ("0.01‡", "0.40 bit ahead of 0.003"),
    ]  # fmt: skip
    assert shown["fnet"] == [("0.001‡", "equal to 0.003"), ("–", "")]
    assert shown["any other"] == [("0.003", ""), ("0.003", "")]
    assert "‡" in table.footnotes[0]
    assert "| lstm | 0.01‡ (0.19 ahead of 0.003)" in to_markdown(table)


def test_no_exhibit_where_no_rates_were_tried() -> None:
    sweep = synthetic.sweep()
    assert chosen_rates_exhibit(sweep.about, sweep.results) is None
