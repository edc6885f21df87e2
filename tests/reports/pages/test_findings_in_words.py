"""Test that the sentences of a page state what its numbers show, on made and on shipped sweeps."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from bakeoff.reports.analysis.verdict import verdict
from bakeoff.reports.pages.answer import Answer, answer
from bakeoff.reports.plots import line_chart, scores
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.results.series import all_series, without_controls
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.schema import ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic
from tests.reports import shipped

_Values = dict[str, Any]
_DRAWN_BY = (line_chart, scores)
TASK = "majority"
RATE = MetricSpec(name="training_tokens_per_second", unit="tokens/s", better="higher")
KINDS = ("clean", "noise", "blur")
CONDITIONS = [{"start": s, "size": n, "rate": r} for s in "ab" for n, r in ((1, 1), (2, 1), (1, 2))]
PAIRS = [{"model": m, "training": t} for m in ("vit", "resnet") for t in ("plain", "hard")]


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each figure by its description, since only sentences are tested."""
    for module in _DRAWN_BY:
        monkeypatch.setattr(module, "to_svg", lambda *_, description, **__: description)


def _label(values: _Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _made(
    variants: list[_Values],
    value: Callable[[_Values, str], float],
    *,
    score: MetricSpec = synthetic.ACCURACY,
    seeds: int = 4,
    places: Collection[str] = ("",),
    diverged: Collection[tuple[str, int]] = (),
    sides: tuple[int, int] = (0, 1),
    floor: float | None = None,
    **changes: Any,
) -> Sweep:
    """Return a sweep whose scores are `value` of the variant's values and the place, with noise."""
    every = {_label(values): values for values in variants}
    names = [*every]
    probe = "quality" if score is synthetic.ACCURACY else "step_time"
    said = synthetic.about(
        baseline=names[0],
        variants=tuple(names),
        tasks=(TASK,),
        probes=(probe,),
        num_seeds=seeds,
        metrics={TASK: {probe: (score,), **({"floors": (score,)} if floor is not None else {})}},
        data_sets={},
        floors={TASK: ("guess",)} if floor is not None else {},
        axis_values=every,
        named_axes={name: tuple(values) for name, values in every.items()},
        claim=ClaimSpec(
            statement="a beats b",
            metric=score.name,
            a=names[sides[0]],
            b=names[sides[1]],
            task=TASK,
            by=0.0,
            source="",
        ),
        **changes,
    )
    rows = []
    for name, values in every.items():
        for seed in range(seeds):
            lost = (name, seed) in diverged
            for at in places:
                noise = random.Random(f"{seed} {at}").gauss(0, 0.001)  # the same for all variants
                number = value(values, at) * (1 + noise)
                got = {"status": "diverged", "reason": "nan"} if lost else {"value": number}
                more = {"at": at} if at else {}
                rows.append(synthetic.row(said, name, TASK, probe, score, seed=seed, **more, **got))
    if floor is not None:
        rows.append(synthetic.row(said, "guess", TASK, "floors", score, value=floor))
    return Sweep(about=said, results=results_frame(rows), curves=curves_frame([]))


def _answer(sweep: Sweep) -> Answer:
    measured = without_controls(all_series(sweep.about, sweep.results))
    return answer(sweep.about, measured, verdict(sweep.about, measured), sweep.growths)


def _all_of(made: Answer) -> str:
    return " | ".join((made.sentence, made.finding, *made.besides))


def _of_parts(values: _Values, at: str) -> float:
    """Return scores: resnet is ahead on clean, vit on noise, however they are trained."""
    is_ahead = (values["model"] == "resnet") == (at != "corruption=2")
    return 0.8 if is_ahead else 0.6


_PARTS: Mapping[str, Any] = {
    "opens_with": "by corruption",
    "places": ("", *(f"corruption={n + 1}" for n in range(len(KINDS)))),
    "titles": {
        "corruption": "what was done",
        **{f"corruption={n + 1}": kind for n, kind in enumerate(KINDS)},
    },
    "words": {"training=plain": "plain training", "training=hard": "hard training"},
}


def _parted(**changes: Any) -> Answer:
    given = {**_PARTS, **changes}
    titles = given.pop("titles")
    return _answer(_made(PAIRS, _of_parts, part_titles={TASK: titles}, **given))


def test_the_best_on_each_part_is_named_by_what_its_variants_share() -> None:
    said = _parted().sentence
    mean = r"\(0\.[78]\d+\)"
    assert re.search(
        f": on clean resnet {mean}; on noise vit {mean}; on blur resnet {mean}\\.$", said
    )


def test_with_one_seed_nothing_is_the_best_on_a_part() -> None:
    said = _parted(seeds=1).sentence
    assert re.search(r"with too few seeds for a test: on clean resnet, \w+ training \(0\.", said)
    assert "significant" not in said


def test_a_variant_that_lost_seeds_is_said_not_to_be_compared() -> None:
    said = _parted(diverged=[(_label(PAIRS[2]), 0)]).sentence
    assert said.endswith("; not compared, since seeds diverged: resnet, plain training.")
    assert "; of those ranked, the first " in said


def test_a_first_axis_is_compared_under_each_condition() -> None:
    """Three axes, of which the second and third are not crossed, are drawn as conditions."""
    made = _answer(
        _made(
            CONDITIONS,
            lambda v, _: 0.5 + 0.1 * v["size"] + (0.1 * v["rate"] if v["start"] == "a" else 0.0),
            sides=(0, 5),
        )
    )
    assert made.drawings[0].name.endswith("-by-several-axes")
    assert made.sentence.startswith("Accuracy with start a against start b: for size 1, rate 1 0.")
    assert made.sentence.count(" better (") == 3
    assert " against start b" not in " ".join(made.besides)  # it is not said again


def test_two_values_of_the_same_name_do_not_hide_each_other() -> None:
    pairs = [{"form": f, "gate": g} for f in ("soft_max", "soft max", "hard") for g in "xy"]
    made = _answer(_made(pairs, lambda v, _: 0.5 + 0.1 * (v["gate"] == "y")))
    assert made.drawings[0].name == f"{TASK}-accuracy"  # dots, a row for each


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (0.1, "The order changes with the equal budget: attention is better than LSTM at equal "),
        (-0.1, "The order of the means does not change with the equal budget."),
    ],
)
def test_a_title_on_the_order_is_answered_by_the_order(turn: float, expected: str) -> None:
    variants = [{"mixer": m, "equal": e} for m in ("attention", "lstm") for e in ("steps", "flops")]

    def score(values: _Values, _: str) -> float:
        return (
            0.6
            + (turn if values == {"mixer": "lstm", "equal": "flops"} else 0.0)
            - (0.05 if values["mixer"] == "lstm" else 0.0)
        )

    made = _answer(
        _made(variants, score, opens_with="by equal", words={"equal=steps": "equal steps"})
    )
    assert made.sentence.startswith(expected)


def test_rates_keep_their_unit_and_are_faster_or_slower() -> None:
    rates = [{"mixer": "attention"}, {"mixer": "lstm"}, {"mixer": "conv"}]
    speed = {"attention": 29_700.0, "lstm": 2_510_000.0, "conv": 15_000.0}
    said = _all_of(_answer(_made(rates, lambda v, _: speed[v["mixer"]], score=RATE)))
    assert "2.51 Mtokens/s (LSTM)" in said
    assert "29.7 ktokens/s (attention)" in said
    assert "; slower: convolution, 0.51 times as fast." in said


MIXERS = [{"mixer": "attention"}, {"mixer": "lstm"}, {"mixer": "conv"}]


def test_a_ranking_of_models_that_have_learnt_nothing_begins_with_that() -> None:
    made = _answer(_made(MIXERS, lambda v, _: 0.1 + 0.01 * len(v["mixer"]), floor=0.5))
    assert made.sentence.startswith("No variant is shown to be better than a predictor without an ")
    assert "; the first is better than every other." in made.sentence


def test_a_floor_that_only_another_variant_is_shown_to_beat_is_not_beaten_by_none() -> None:
    """The best mean is of widely spread seeds, the second one of close seeds."""
    sweep = _made(MIXERS[:2], lambda v, _: 0.85 if v["mixer"] == "lstm" else 0.88, floor=0.8)
    rows = sweep.results.copy()
    spread = (rows["variant"] == "mixer=attention") & (rows["seed"] < 2)
    rows.loc[spread, "value"] += [0.1, -0.1]
    sweep = replace(sweep, about=replace(sweep.about, claim=None), results=rows)
    assert (
        ", only LSTM beats the floor guess (0.8); the best accuracy is " in _answer(sweep).sentence
    )


def test_variants_without_a_seed_in_common_are_not_said_to_be_alike() -> None:
    sweep = _made(MIXERS[:2], lambda v, _: 0.2 if v["mixer"] == "lstm" else 0.9)
    rows = sweep.results
    kept = (rows["variant"] == "mixer=attention") == (rows["seed"] < 2)
    sweep = replace(sweep, about=replace(sweep.about, claim=None), results=rows[kept])
    said = _answer(sweep).sentence
    assert said.endswith(", but has too few seeds in common with LSTM.")
    assert "significantly from" not in said


def test_of_kinds_all_are_compared() -> None:
    kinds = ("clean", "noise", "blur", "shift", "covered", "contrast")
    titles = {f"corruption={n + 1}": kind for n, kind in enumerate(kinds)}
    said = _all_of(_parted(places=("", *titles), titles={"corruption": "what was done", **titles}))
    assert all(f"for {kind}: " in said for kind in kinds)


def _shipped(name: str) -> Sweep:
    home = shipped.FOLDER / name
    return read_sweep(home / "results.parquet", home / "curves.parquet").in_order


def _changed(sweep: Sweep, how: str) -> Sweep:
    """Return a sweep as it is halfway, or after something went wrong."""
    rows = sweep.results.copy()
    if how == "one seed":
        about = replace(sweep.about, num_seeds=1)
        return replace(sweep, about=about, results=rows[rows["seed"] == 0])
    if how == "no baseline":
        return replace(sweep, results=rows[rows["variant"] != sweep.about.baseline])
    lost = (rows["seed"] == 0) & (rows["probe"] != "floors")
    rows.loc[lost, "status"] = "diverged"
    rows.loc[lost, "value"] = float("nan")
    return replace(sweep, results=rows)


@pytest.mark.parametrize("how", ["one seed", "no baseline", "all diverged"])
@pytest.mark.parametrize("name", ["decisions", "robustness", "linear_attention", "hybrid"])
def test_no_sentence_is_empty_or_states_a_test_that_was_not_done(name: str, how: str) -> None:
    said = _all_of(_answer(_changed(_shipped(name), how)))
    assert not re.search(r"(: \.|[,:] {2}| got [.,]|for\s*,)", said), said
    if how == "one seed":
        assert "significant" not in re.sub(r"not significant\w*", "", said)
        assert "The smallest state whose" not in said


def test_what_is_below_the_range_of_floats_is_a_bound() -> None:
    made = _answer(_shipped("gradients"))
    assert ", ≤ −37.93 (convolution); " in made.sentence
    assert "convolution by at least 31.49 orders of magnitude" in " ".join(made.besides)
