"""Test that DataFrames hold typed values, and the verdicts of the pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import false_discovery_control

import bakeoff
from bakeoff.reports.render import render
from bakeoff.reports.view import read_sweep
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting.tidy import (
    as_records,
    curves_of,
    sweeps_in_folder,
    trial_counts,
    verdicts_of,
)
from bakeoff.suite.schema import Measurement, Plan, Provenance, Result, Status
from bakeoff.suite.spec import Claim, Model, SpecError, vary
from tests.conftest import ROOT
from tests.reports.conftest import sweep as synthetic
from tests.suite.finished_sweep import METRIC, TASK, FinishedSweep
from tests.suite.heads_sweep import HEADS
from tests.suite.small_ablation import make_ablation

Fold = Callable[..., Path]


def record(out: Path, planned: Plan, results: Sequence[Result]) -> None:
    out.mkdir(exist_ok=True)
    with Journal(out / "journal.db") as journal:
        journal.keep_plan(planned)
        for result in results:
            journal.commit(result, journal.begin(result.trial_id, "here"))


@pytest.fixture
def fold(tmp_path: Path) -> Fold:
    """Return a function that records a finished sweep in a folder of that name."""

    def made(name: str, sweep: FinishedSweep, **changes: object) -> Path:
        results = [replace(result, **changes) for result in sweep.results]
        record(tmp_path / name, sweep.plan, results)
        return tmp_path / name

    return made


def _results_of(planned: Plan, value: Callable[[dict[str, object]], float]) -> list[Result]:
    trained = [trial for trial in planned.trials if trial.subjects]  # no floors
    settings = {t.trial_id: dict(t.subjects[0].settings) for t in trained}
    made = Provenance(
        commit="abc", device="a CPU", num_threads=1, num_cpus=1.0, num_gpus=0.0, versions={}
    )
    return [
        Result(
            trial_id=trial_id,
            status=Status.OK,
            provenance=made,
            seconds=1.0,
            measurements=(
                Measurement(metric=METRIC, value=value(of_trial), unit="bit", better="lower"),
            ),
        )
        for trial_id, of_trial in settings.items()
    ]


def test_a_row_is_a_measurement_and_the_axis_a_number(fold: Fold) -> None:
    sweep = FinishedSweep("heads")
    frame = bakeoff.results("heads", out=fold("out", sweep))
    assert len(frame) == len(sweep.results) == 9
    assert frame["axis_heads"].dtype == "int64"
    means = frame.groupby("axis_heads")["value"].mean()
    assert means.to_dict() == pytest.approx({1: 2.71, 2: 2.56, 8: 2.51})
    assert frame["out"].nunique() == 1


def test_several_folders_and_names_are_told_apart(fold: Fold) -> None:
    one = fold("one", FinishedSweep("heads"))
    fold("one", FinishedSweep("mine", num_seeds=4))
    two = fold("two", FinishedSweep("heads", steps=30))
    frame = bakeoff.results(out=[one, str(two)])
    counts = frame.groupby(["out", "ablation"]).size().to_dict()
    assert counts == {(str(one), "heads"): 9, (str(one), "mine"): 12, (str(two), "heads"): 9}
    assert set(bakeoff.results("mine", out=[one, two])["out"]) == {str(one)}
    assert set(bakeoff.results(["mine", "heads"], out=one)["ablation"]) == {"mine", "heads"}
    assert set(bakeoff.results("some/mine.py", out=one)["ablation"]) == {"mine"}


def test_axes_of_several_ablations_keep_their_types_where_values_are_missing(
    tmp_path: Path,
) -> None:
    mixers = [Model(mixer="lstm"), Model(mixer="attention", heads=4, label="ours")]
    axes = {
        "ones": [vary("heads", [1, 4]), vary("has_residual", [True, False])],
        "twos": [vary("model", mixers), vary("dropout", [0.0, 0.5])],
        "threes": [vary("dropout", [0, 1e-3]), vary("position", ["none", "learned"])],
    }
    out = tmp_path / "out"
    for name, some in axes.items():
        planned = plan(make_ablation(name=name, axes=some), seeds=1)
        record(out, planned, _results_of(planned, lambda settings: 2.0))
    frame = bakeoff.results(out=out)
    kinds = {name: str(kind) for name, kind in frame.dtypes.items() if name.startswith("axis_")}
    assert kinds == {
        "axis_heads": "Int64",
        "axis_has_residual": "boolean",
        "axis_model": "str",
        "axis_dropout": "float64",
        "axis_position": "str",
    }
    ones = frame.query("ablation == 'ones'").set_index("variant")
    assert ones.loc["heads=1", ["axis_heads", "axis_has_residual"]].to_list() == [1, True]
    assert ones["axis_model"].isna().all()
    assert ones["axis_dropout"].isna().all()
    assert set(frame.query("axis_dropout > 0")["variant"]) == {"dropout=0.5", "dropout=0.001"}
    assert set(bakeoff.results("ones", out=out).columns) < set(frame.columns)
    assert bakeoff.results("ones", out=out)["axis_heads"].dtype == "int64"


@pytest.mark.whole
def test_coordinates_are_numbers(tmp_path: Path) -> None:
    frame = bakeoff.results("complexity", out=Path("docs/results").absolute())
    times = frame.query("metric == 'forward_seconds' and at == 'length=4096'")
    assert len(times)
    assert set(times["at_length"]) == {4096}
    assert frame["at_length"].dtype == "Int64"
    assert frame.loc[frame["at"] == "", "at_length"].isna().all()


def test_curves_count_steps_and_tokens_by_split(fold: Fold) -> None:
    frame = bakeoff.curves("heads", out=fold("out", FinishedSweep("heads")))
    assert len(frame) == 9 * 4
    assert set(frame["split"]) == {"validation"}
    assert set(frame["metric"]) == {METRIC}
    assert (frame["tokens"] == frame["step"] * 2 * 8).all()  # the batch times the length
    best = frame.query("axis_heads == 8 and seed == 0").set_index("step")["value"]
    assert best.to_dict() == pytest.approx({s: 2.5 + 20 / (s + 10) for s in (10, 20, 30, 40)})


def test_tokens_follow_an_axis_and_are_missing_without_a_length(tmp_path: Path) -> None:
    about = synthetic().about
    said = replace(
        about, axis_values={v: {"batch": 4 if v == about.baseline else 8} for v in about.variants}
    )
    sweep = replace(synthetic(), about=said)
    frame = curves_of({"out": [sweep]})
    assert (frame["tokens"] == frame["step"] * 128 * frame["axis_batch"]).all()
    unknown = replace(said, settings={"batch": 4})
    assert curves_of({"out": [replace(sweep, about=unknown)]})["tokens"].isna().all()


def test_a_verdict_is_that_of_the_page(fold: Fold) -> None:
    out = fold("out", FinishedSweep("heads"))
    (row,) = as_records(bakeoff.verdicts(out=out))
    assert (row["ablation"], row["question"]) == (
        "heads",
        FinishedSweep("heads").plan.about.question,
    )
    assert (row["verdict"], row["published"]) == ("supported", "0.9 BLEU apart")
    assert row["effect"] == pytest.approx(0.2)
    assert (row["a"], row["b"], row["num_pairs"]) == ("heads=8", "heads=1", 3)
    assert row["p"] == row["q"] == pytest.approx(0.0, abs=1e-9)
    assert row["task"] == TASK


def test_the_interval_p_and_q_agree() -> None:
    frame = bakeoff.published_results()
    excludes_zero = (frame["low"] > frame["unit"].eq("ratio")) | (
        frame["high"] < frame["unit"].eq("ratio")
    )
    tested = frame["p"].notna()
    assert tested.sum() > 30
    assert ((frame["p"] < 0.05) == excludes_zero)[tested].all()
    assert ((frame["low"] <= frame["effect"]) & (frame["effect"] <= frame["high"]))[tested].all()
    family = frame[tested & ~frame["is_check"]]
    expected = false_discovery_control(family["p"])
    assert family["q"].to_list() == pytest.approx(list(expected), rel=1e-4)
    assert (family["q"] >= family["p"]).all()
    assert frame.loc[frame["is_check"], "q"].isna().all()


def test_times_are_compared_as_a_ratio() -> None:
    published = bakeoff.published_results().set_index("ablation")
    row = published.loc["complexity"]
    assert (row["metric"], row["unit"]) == ("forward_seconds", "ratio")
    assert f"{row['effect']:.1f} times as fast" in row["sentence"]


def test_a_claim_without_a_test_has_no_p(tmp_path: Path) -> None:
    claim = Claim("more heads", metric=METRIC, a="heads=4", b="heads=1", by=0.1)
    planned = plan(make_ablation(claim=claim), seeds=2)
    record(tmp_path / "out", planned, _results_of(planned, lambda settings: 2.0))
    frame = bakeoff.verdicts(out=tmp_path / "out")
    assert len(frame) == 1
    assert frame["verdict"].iloc[0] == "underpowered"
    assert frame[["p", "q"]].isna().all(axis=None)
    assert as_records(frame)[0]["p"] is None


def test_a_table_without_claims_has_its_columns(tmp_path: Path) -> None:
    planned = plan(make_ablation(), seeds=1)
    record(tmp_path / "out", planned, _results_of(planned, lambda settings: 2.0))
    frame = bakeoff.verdicts(out=tmp_path / "out")
    assert frame.empty
    assert list(frame.columns) == [*bakeoff.published_results().columns, "out"]
    assert verdicts_of({}).dtypes.equals(frame.dtypes)


@pytest.mark.whole
def test_a_folder_of_reports_is_read_without_its_journal(fold: Fold, tmp_path: Path) -> None:
    out = fold("out", FinishedSweep("heads"))
    whole = bakeoff.results(out=out).drop(columns="out")
    kept = sweeps_in_folder(out)
    for place in (tmp_path / "fetched" / "reports", tmp_path / "pages"):
        render("heads", kept, place)
    for folder in ("fetched", "pages"):
        again = bakeoff.results(out=tmp_path / folder).drop(columns="out")
        pd.testing.assert_frame_equal(again, whole)


def test_trials_are_counted_once_by_status(fold: Fold) -> None:
    sweep = synthetic()
    counts = trial_counts([sweep])
    rows = sweep.results
    assert counts["skipped"] == rows.loc[rows["status"] == "skipped", "trial_id"].nunique()
    assert counts["diverged"] == 1
    assert counts["failed"] == 0
    trials = sum(counts[status] for status in ("ok", "diverged", "skipped"))
    assert trials == rows["trial_id"].nunique()
    noisy = rows.assign(status=rows["status"].replace("ok", "noisy"))
    assert trial_counts([replace(sweep, results=noisy)]) == counts


REFUSED = {
    "no such folder": ({"out": "nowhere"}, r"out='\S*nowhere': no such folder\.$"),
    "an empty folder": ({"out": "empty"}, r"out='\S*empty': no results are recorded here yet; run"),
    "planned only": ({"out": "planned"}, r"out='\S*planned': no results are recorded here yet; "),
    "a near name": ({"names": "head"}, r"recorded for 'head' in \S+; did you mean 'heads'\? Reco"),
    "a shipped name": (
        {"names": "recal"},
        r"for 'recal' in \S+; did you mean 'recall' or .*\? Recorded",
    ),
    "an unknown name": ({"names": "zzz"}, r"'zzz' in \S+\. Recorded are: heads\.$"),
    "no name": ({"names": []}, r"^names=\[\] names no ablation"),
    "no folder": ({"out": []}, r"^out=\[\] names no folder"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("read", [bakeoff.results, bakeoff.verdicts, bakeoff.curves])
def test_what_cannot_be_read_is_refused_in_a_sentence(
    case: str, read: Callable[..., pd.DataFrame], fold: Fold, tmp_path: Path
) -> None:
    fold("out", FinishedSweep("heads"))
    (tmp_path / "empty").mkdir()
    record(tmp_path / "planned", FinishedSweep("heads").plan, [])
    given, said = REFUSED[case]
    out = given.get("out", "out")
    with pytest.raises(SpecError, match=said) as raised:
        read(given.get("names"), out=tmp_path / out if isinstance(out, str) else out)
    assert len(str(raised.value).splitlines()) == 1


def test_a_damaged_report_names_its_file(fold: Fold, tmp_path: Path) -> None:
    home = tmp_path / "pages" / "heads"
    home.mkdir(parents=True)
    (home / "results.parquet").write_bytes(b"no parquet")
    with pytest.raises(SpecError, match=r"results\.parquet cannot be read as Parquet"):
        bakeoff.results(out=tmp_path / "pages")
    shutil.rmtree(home)


def test_failed_trials_are_rows(fold: Fold) -> None:
    out = fold("out", FinishedSweep("heads"), status=Status.CRASHED, measurements=(), points=())
    frame = bakeoff.results(out=out)
    assert set(frame["status"]) == {"crashed"}
    assert frame["value"].isna().all()
    assert set(frame["axis_heads"]) == {1, 2, 8}
    assert bakeoff.curves(out=out).empty
    assert HEADS.place.device in set(frame["device"])


def test_tokens_are_those_of_a_task_of_fixed_length() -> None:
    home = ROOT / "docs" / "results" / "long_range"
    shipped = read_sweep(home / "results.parquet", home / "curves.parquet")
    frame = curves_of({"out": [shipped]})
    per_step = (frame["tokens"] / frame["step"]).groupby(frame["task"]).unique()
    flops = shipped.results[shipped.results["metric"] == "forward_flops"]
    for task, at in flops.groupby("task")["at"].unique().items():
        (length,) = (int(place.removeprefix("length=")) for place in at)
        assert list(per_step[task]) == [shipped.about.settings["batch"] * length]


@pytest.mark.parametrize("order", [1, -1])
def test_a_trial_that_measures_several_variants_has_the_worst_status(order: int) -> None:
    whole = synthetic()
    statuses = ["ok", "out_of_memory"][::order]
    rows = whole.results.iloc[:2].assign(trial_id="shared", status=statuses)
    counts = trial_counts([replace(whole, results=rows)])
    assert counts == {"failed": 0, "skipped": 0, "out_of_memory": 1}
