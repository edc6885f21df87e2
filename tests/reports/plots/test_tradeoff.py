"""Test that scores are paired with the right costs, and that the front is the Pareto front."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest

from bakeoff.reports.document import Drawing, Exhibit, View
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.plots.tradeoff import pareto_front, state_figure, tradeoff_exhibit
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.series import Series, all_series
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.tables.comparison import primary
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About, MetricSpec, MixerFacts
from tests.reports import conftest as synthetic
from tests.reports import mixers_alone
from tests.reports.conftest import TASKS, judged, known, series_of
from tests.reports.mixers_alone import whole

TASK = "fashion_mnist_patches"


@cache
def _measured() -> tuple[Series, ...]:
    return series_of(whole())


def _against_time(about: About, measured: Sequence[Series], score: Series) -> Drawing | None:
    """Return that view; drop the others first, since all views are drawn."""
    timed = [s for s in measured if s.metric not in ("forward_flops", "peak_memory_bytes")]
    made = tradeoff_exhibit(about, timed, score)
    views = {view.title: view for view in made.views} if made else {}
    return views["training time"].drawings[0] if "training time" in views else None


def _drawn(about: About, task: str = TASK) -> Drawing:
    return known(_against_time(about, _measured(), judged(whole(), task)))


def _step(variant: str) -> float:
    rows = whole().results.query("metric == 'training_step_seconds' and task == @TASK")
    return statistics.median(rows[rows["variant"] == variant]["value"])


def test_the_front_holds_what_nothing_beats() -> None:
    places = {"fast": (1.0, 0.5), "slow": (4.0, 0.9), "beaten": (2.0, 0.4), "middle": (2.0, 0.7)}
    high = replace(judged(whole(), TASK), better="higher")
    assert pareto_front(places, high) == ["fast", "middle", "slow"]
    low = replace(judged(whole(), TASK), better="lower")
    assert pareto_front(places, low) == ["fast", "beaten"]
    assert pareto_front({"a": (1.0, 0.5), "b": (1.0, 0.5)}, high) == ["a"]


def test_time_is_steps_times_the_median_step() -> None:
    svg = _drawn(whole().about).svg
    assert re.search(rf"LSTM: 0\.8\d+ for {300 * _step('mixer=lstm'):.3g} s", svg)
    longer = mixers_alone.about(settings={"steps": 3000})
    assert f"for {3000 * _step('mixer=fnet'):.3g} s" in _drawn(longer).svg


def test_steps_as_an_axis_are_the_variants_own() -> None:
    names = ("steps=100", "steps=900")
    series = {
        s.metric: replace(s, readings=dict(zip(names, s.readings.values(), strict=False)))
        for s in _measured()
        if s.task == TASK and s.metric in ("accuracy", "training_step_seconds")
    }
    about = mixers_alone.about(variants=names, baseline=names[0])
    made = _against_time(about, tuple(series.values()), series["accuracy"])
    assert f"for {900 * _step('kernel=materialised'):.3g} s" in known(made).svg


@pytest.mark.parametrize("task", mixers_alone.TASKS)
def test_every_seed_is_a_dot_and_every_skipped_variant_is_counted(task: str) -> None:
    made = _drawn(whole().about, task)
    num_trained = 8 if task == TASK else 6
    assert len(re.findall(r"<use [^>]*fill: #ffffff[^>]*>", made.svg)) == 3 * num_trained
    assert ("2 of 8 variants lack one of the two values." in made.caption) == (num_trained == 6)


@cache
def _exhibit() -> Exhibit:
    return known(tradeoff_exhibit(whole().about, _measured(), judged(whole(), TASK)))


def _view(title: str) -> View:
    (found,) = (view for view in _exhibit().views if view.title == title)
    return found


def test_each_cost_has_a_view_that_names_its_front() -> None:
    made = _exhibit()
    assert [view.title for view in made.views] == [
        "training time",
        "training FLOPs",
        "peak memory",
    ]
    assert "exploratory" in made.sentences[0]
    assert len({drawing.name for drawing in made.all_drawings}) == 3
    for view in made.views:
        assert view.sentences[0].startswith("Pareto-optimal by their means alone: ")
    assert "on AMD EPYC 7B13 with 2 threads" in _view("training time").sentences[1]


@pytest.mark.parametrize(
    ("title", "metric"),
    [
        ("training time", "training_step_seconds"),
        ("training FLOPs", "forward_flops"),
        ("peak memory", "peak_memory_bytes"),
    ],
)
def test_the_front_of_each_view_is_the_undominated(title: str, metric: str) -> None:
    """Compare every pair; only the two kernels have equal costs or scores."""
    rows = whole().results.query("task == @TASK")
    cost = rows[rows["metric"] == metric].groupby("variant")["value"].median()
    score = rows[rows["metric"] == "accuracy"].groupby("variant")["value"].mean()
    expected = {
        a
        for a in score.index
        if not any(cost[b] <= cost[a] and score[b] > score[a] for b in score.index)
        and not any(cost[b] < cost[a] and score[b] == score[a] for b in score.index)
    }
    text = _view(title).sentences[0].partition(": ")[2].removesuffix(".")
    assert {*text.split("; ")} == {shown_name(whole().about, variant) for variant in expected}


def test_memory_and_flops_are_those_of_the_rows() -> None:
    rows = whole().results.query("task == @TASK and variant == 'mixer=lstm' and seed == 0")
    value = rows.set_index("metric")["value"]
    flops = 3 * 16 * 300 * value["forward_flops"]
    assert f"for {flops / 1e9:.3g} GFLOP" in _view("training FLOPs").drawings[0].svg
    peak = value["peak_memory_bytes"]
    assert f"for {peak / 2**20:.3g} MiB" in _view("peak memory").drawings[0].svg


def test_a_cost_in_which_all_variants_are_alike_is_left_out() -> None:
    """Use FLOPs and memory, which do not depend on the number of heads."""
    sweep = synthetic.sweep()
    measured = series_of(sweep)
    made = known(tradeoff_exhibit(sweep.about, measured, judged(sweep)))
    assert [view.title for view in made.views] == ["training time"]


def test_one_machine_only() -> None:
    """Check that a second, slower machine with fewer times changes nothing."""
    other = [
        replace(
            s,
            environment_id="other",
            readings={
                v: tuple(replace(r, value=9e9) for r in some[:1]) for v, some in s.readings.items()
            },
        )
        for s in _measured()
        if s.metric == "training_step_seconds"
    ]
    made = _against_time(whole().about, (*other, *_measured()), judged(whole(), TASK))
    assert known(made).svg == _drawn(whole().about).svg


def test_without_both_there_is_no_figure() -> None:
    series = judged(whole(), TASK)
    untimed = [s for s in _measured() if s.metric != "training_step_seconds"]
    assert _against_time(whole().about, untimed, series) is None
    assert _against_time(mixers_alone.about(settings={}), _measured(), series) is None
    one = synthetic.about(variants=("heads=8",))
    measured = all_series(one, synthetic.sweep().results.query("variant == 'heads=8'"))
    assert _against_time(one, measured, known(primary(measured, "majority"))) is None


STATES = {"heads=1": 4096.0, "heads=2": 4096.0, "heads=4": 1024.0, "heads=8": 8192.0}
MIXERS = {"heads=1": "gru", "heads=2": "attention", "heads=4": "gru", "heads=8": "attention"}


def _with_states(mixers: Mapping[str, str]) -> Sweep:
    """Return four variants with known state bytes and the given mixers."""
    sweep = synthetic.sweep(is_troubled=False)
    spec = MetricSpec(name="state_bytes", unit="B", better="lower", at="length=128")
    facts = {v: MixerFacts(mixer=mixer) for v, mixer in mixers.items()}
    said = synthetic.about(variants=tuple(STATES), subjects=facts)
    rows = [
        synthetic.row(said, variant, "majority", "state_bytes", spec, value=value)
        for variant, value in STATES.items()
    ]
    kept, curves = (
        frame[frame["variant"].isin(list(STATES))] for frame in (sweep.results, sweep.curves)
    )
    return Sweep(said, results_frame([*kept.to_dict("records"), *rows]), curves)


def test_a_score_is_drawn_against_the_state_first_and_on_a_logarithmic_axis() -> None:
    sweep = _with_states({})
    measured = series_of(sweep)
    made = known(tradeoff_exhibit(sweep.about, measured, judged(sweep, "majority")))
    assert [view.title for view in made.views] == ["state between tokens", "training time"]
    (drawing,) = made.views[0].drawings
    assert "8 heads: 0.9" in drawing.svg
    assert "for 8 KiB" in drawing.svg
    assert "one mixer" not in drawing.caption
    alone = known(state_figure(sweep.about, measured, judged(sweep, "majority")))
    assert alone == drawing


def test_variants_of_one_mixer_are_joined_under_its_name() -> None:
    sweep = _with_states(MIXERS)
    drawing = known(state_figure(sweep.about, series_of(sweep), judged(sweep, "majority")))
    assert "Variants of one mixer share a colour and are joined by a line." in drawing.caption
    for variant, amount in STATES.items():
        name = shown_name(sweep.about, variant)
        assert re.search(rf"{name}\b[^;]*for {amount / 1024:g} KiB", drawing.svg)


def test_states_that_are_alike_or_unknown_are_not_drawn() -> None:
    sweep = _with_states({})
    measured = series_of(sweep)
    score = judged(sweep, "majority")
    alike = [
        replace(
            s,
            readings={
                v: tuple(replace(r, value=64.0) for r in some) for v, some in s.readings.items()
            },
        )
        for s in measured
        if s.metric == "state_bytes"
    ]
    assert state_figure(sweep.about, (score, *alike), score) is None
    assert state_figure(sweep.about, (score,), score) is None
    assert state_figure(sweep.about, measured, judged(sweep, "shakespeare_characters")) is None


def test_the_figure_at_the_top_of_the_page_is_not_drawn_again() -> None:
    """Use a page without a claim on another task, which starts with the figure."""
    sweep = _with_states(dict(zip(MIXERS, ("gru", "attention", "lstm", "rnn"), strict=True)))
    sweep = replace(sweep, about=replace(sweep.about, claim=None, tasks=tuple(TASKS)[::-1]))
    made = page(sweep, ["quick"])
    (drawn,) = made.answer.drawings
    assert drawn.name == "majority-accuracy-for-state"
    names = [drawing.name for drawing in made.all_drawings]
    assert names.count(drawn.name) == 1
    assert "majority-accuracy" in names
    (exhibit,) = (e for f in made.findings for e in f.exhibits if "against state" in e.title)
    assert (
        exhibit.sentences[1] == "The figure at the top of the page shows the state between tokens."
    )
    assert exhibit.sentences[2].startswith("Pareto-optimal by their means alone: 4 heads; ")
    assert [view.title for view in exhibit.views] == ["training time"]


def test_a_variant_of_which_seeds_diverged_is_not_on_the_front() -> None:
    sweep = whole()
    rows = sweep.results.copy()
    of_task = (rows["task"] == TASK) & (rows["metric"] == "accuracy")
    first = rows[of_task]["variant"].iloc[0]
    here = of_task & (rows["variant"] == first)
    rows.loc[here & (rows["seed"] == 0), "value"] = 1.0
    rows.loc[here & (rows["seed"] > 0), ["value", "status", "reason"]] = [
        float("nan"),
        "diverged",
        "nan",
    ]
    measured = all_series(sweep.about, rows)
    score = known(primary([s for s in measured if s.task == TASK], TASK))
    made = known(tradeoff_exhibit(sweep.about, measured, score))
    name = shown_name(sweep.about, first)
    for view in made.views:
        front, _, lost = view.sentences[0].partition(" Seeds of ")
        assert name not in front.split(": ", 1)[1]
        assert lost == f"{name} diverged: not ranked."
