"""Test the section on scaling laws: its points, predictions, best sizes, and page."""

from __future__ import annotations

import csv
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff import reports
from bakeoff.reports.export.printers import to_csv
from bakeoff.reports.literature.csv import rows_of
from bakeoff.reports.pages.ablation import Page, page
from bakeoff.reports.render import render
from bakeoff.reports.results.frame import about_from_json, about_to_json
from bakeoff.reports.sections.scaling_law import (
    FlopsBudget,
    LawGroup,
    _describe_budgets,
    _valley,
    flops_budgets,
    frontier,
    law_groups,
    law_in_words,
    law_section,
    predictions_table,
)
from bakeoff.reports.stats.intervals import Estimate
from bakeoff.reports.tables.marks import PARTIAL
from bakeoff.reports.view import Sweep
from tests.reports.conftest import known
from tests.reports.made_scaling_law import (
    DIMS,
    HELD_OUT,
    STEPS,
    TASK,
    TRUTH,
    num_parameters,
    sweep,
)

pytestmark = pytest.mark.whole


def groups(of: Sweep) -> tuple[LawGroup, ...]:
    return law_groups(of.about, of.series, TASK)


@pytest.fixture(scope="module")
def made() -> tuple[LawGroup, ...]:
    return groups(sweep())


def test_a_group_a_mixer_without_what_is_held_out(made: tuple[LawGroup, ...]) -> None:
    assert [group.name for group in made] == ["mixer=attention", "mixer=lstm"]
    assert [group.short_name for group in made] == ["attention", "LSTM"]
    for group in made:
        assert len(group.seen) == len(DIMS) * len(STEPS)
        assert [one.variant for one in group.held_out] == [f"{group.name}, dim=96, steps=4000"]
        assert not {one.variant for one in group.seen} & {one.variant for one in group.held_out}
        assert group.law is not None
        assert len(group.law.points) == len(group.seen)


def test_parameters_are_of_the_model_and_tokens_of_the_training(made: tuple[LawGroup, ...]) -> None:
    (larger,) = made[1].held_out
    assert larger.point.num_parameters == num_parameters(96)
    assert larger.point.num_tokens == 4000 * 32 * 64
    assert larger.flops == 3 * 2 * num_parameters(96) * larger.point.num_tokens
    assert len(larger.point.losses) == 3


def test_a_law_predicts_what_follows_it(made: tuple[LawGroup, ...]) -> None:
    for group in made:
        (one,) = group.predictions
        assert one.is_inside
        low, high = one.ends
        assert low < one.larger.mean < high


@pytest.mark.parametrize(("off", "sign"), [(0.2, 1), (-0.2, -1)])
def test_what_is_off_the_law_is_missed_and_the_side_is_told(off: float, sign: int) -> None:
    first, second = groups(sweep(off=off))
    assert first.predictions[0].is_inside
    (one,) = second.predictions
    assert not one.is_inside
    assert one.miss * sign == pytest.approx(0.2, abs=0.05)


def test_what_was_held_out_moves_no_law(made: tuple[LawGroup, ...]) -> None:
    for here, there in zip(made, groups(sweep(off=0.2)), strict=True):
        assert here.law is not None
        assert there.law is not None
        assert here.law.best.theta.tobytes() == there.law.best.theta.tobytes()


def test_the_order_of_rows_moves_nothing(made: tuple[LawGroup, ...]) -> None:
    of = sweep()
    shuffled = replace(of, results=of.results.sample(frac=1, random_state=3))
    for here, there in zip(made, groups(shuffled), strict=True):
        assert here.law is not None
        assert there.law is not None
        assert here.law.best.theta.tobytes() == there.law.best.theta.tobytes()
        assert here.predictions[0].predicted == there.predictions[0].predicted
        assert here.predictions[0].larger.loss == there.predictions[0].larger.loss


def test_what_diverged_is_left_out_and_counted() -> None:
    of = sweep()
    rows = of.results.copy()
    lost = rows["variant"].eq("mixer=lstm, dim=16, steps=250") & rows["probe"].eq("quality")
    one = rows["variant"].eq("mixer=lstm, dim=16, steps=500") & rows["seed"].eq(2)
    rows.loc[lost | one, ["value", "status"]] = [math.nan, "diverged"]
    _, group = groups(replace(of, results=rows))
    assert (group.num_lost, group.num_missing) == (1, 1)
    assert group.law is not None
    assert len(group.law.points) == 19


def test_too_few_sizes_have_no_law_but_a_reason() -> None:
    for group in groups(sweep(dims=(16, 32))):
        assert group.law is None
        assert group.predictions == ()
        assert group.why_no_law == "2 different sizes, and a law needs at least 3"
        assert flops_budgets(group) == ()
        assert frontier(group, [1e12]) == {}


def test_without_being_asked_there_is_no_law() -> None:
    assert groups(sweep(held_out={})) == ()


def test_the_best_size_for_a_budget_is_that_of_the_formula() -> None:
    """Compare with Hoffmann et al. 2022, equation 4, at 6 N FLOPs per token."""
    for group in groups(sweep(noise=1e-5)):
        _, a, alpha, b, beta = TRUTH[group.short_name.lower()]
        a, b = a * num_parameters(32) ** alpha, b * (1000 * 32 * 64) ** beta
        budgets = flops_budgets(group)
        assert len(budgets) == 4
        for one in budgets:
            ratio = (alpha * a / (beta * b)) ** (1 / (alpha + beta))
            best = ratio * (one.flops / 6) ** (beta / (alpha + beta))
            assert one.best_size.point == pytest.approx(best, rel=0.04)
            assert len(one.measured) >= 3
            for size, loss in one.measured.items():
                assert group.law is not None
                fitted = group.law.loss(size, one.flops / (6 * size))
                assert loss == pytest.approx(fitted, rel=0.01)  # linear between two trainings
            assert min(one.curve.values()) == pytest.approx(one.best_loss, rel=1e-3)


def test_no_size_is_measured_beyond_its_own_trainings(made: tuple[LawGroup, ...]) -> None:
    for one in flops_budgets(made[0]):
        for size in one.measured:
            spent = [v.flops for v in made[0].seen if v.point.num_parameters == size]
            assert min(filter(None, spent)) <= one.flops <= max(filter(None, spent))


def test_the_frontier_is_below_every_fitted_point(made: tuple[LawGroup, ...]) -> None:
    for group in made:
        law = group.law
        assert law is not None
        for one in group.seen:
            assert one.flops is not None
            (lowest,) = frontier(group, [one.flops]).values()
            assert lowest <= law.loss(one.point.num_parameters, one.point.num_tokens) * 1.0001


def test_what_is_held_out_is_named_by_all_its_axes() -> None:
    """Check that a variant with only one of the held-out values is an ordinary point."""
    (first, _) = groups(sweep(held_out={**HELD_OUT, "dim": 64}))
    assert [one.variant for one in first.held_out] == []
    assert len(first.seen) == 21


def paged(of: Sweep) -> Page:
    return page(of, [of.about.scale])


@pytest.fixture(scope="module")
def held() -> Page:
    return paged(sweep())


def words(of: Sweep) -> str:
    return law_in_words(of.about, of.series, TASK)


def test_the_headline_says_the_exponents_and_whether_the_prediction_held(held: Page) -> None:
    sentence = held.answer.sentence
    assert "The loss falls as N^−alpha and D^−beta with alpha 0.52 [0.49, 0.56]" in sentence
    assert "(attention)" in sentence
    assert sentence.count("within the interval") == 2
    assert held.answer.drawings[0].name.endswith("scaling-law")


def test_a_miss_is_said_with_its_size_and_side() -> None:
    said = words(sweep(off=0.2))
    assert said.count("within the interval") == 1
    assert "0.2" in said.partition("missed: ")[2][:6]
    assert "worse than predicted" in said
    assert "beyond the interval." in said
    assert "better than predicted" in words(sweep(off=-0.2))


@pytest.mark.slow
def test_last_bits_of_losses_move_no_byte() -> None:
    """Perturb last bits, in which processors and numbers of threads differ."""
    made, rng = sweep(), random.Random(7)
    is_loss = made.results["unit"] == "bit"
    factors = [1 + rng.uniform(-1e-15, 1e-15) * each for each in is_loss]
    moved = replace(made, results=made.results.assign(value=made.results["value"] * factors))
    assert not moved.results["value"].equals(made.results["value"])
    assert written(moved) == written(made)


def written(of: Sweep) -> list[str]:
    section = law_section(of.about, of.series, TASK)
    assert section is not None
    return [*map(to_csv, section.tables), *(drawing.svg for drawing in section.drawings)]


def test_the_section_comes_first_and_has_all_tables(held: Page) -> None:
    first = held.findings[0]
    assert first.title == "Scaling laws on shakespeare characters"
    assert [table.title for table in first.tables] == [
        "The held-out trainings",
        "The fitted laws",
        "Differences between exponents",
        "Points of the fits",
        "Best sizes by training FLOPs",
    ]
    assert len(first.drawings) == 2  # a view per mixer; the law itself is at the top of the page


def test_the_coverage_that_is_said_is_the_one_that_was_measured() -> None:
    """Compare with the minimum and maximum of the table in docs/statistics.md."""
    documented = Path(reports.__file__).resolve().parents[1] / "docs" / "statistics.md"
    _, _, table = documented.read_text().partition(
        "Nominal 95 % intervals contained the true value"
    )
    rows = [
        row for row in table.partition("The intervals are")[0].splitlines() if row.count("|") == 6
    ]
    shares = [
        int(n) for row in rows[2:] for n in re.findall(r"(\d+) %(?= \|)", row.split("|", 2)[2])
    ]
    assert len(shares) == 12
    section = law_section(sweep().about, sweep().series, TASK)
    assert section is not None
    said = next(text for text in section.sentences if "bootstrap" in text)
    assert "nominally 95 %" in said
    assert f"{min(shares)} to {max(shares)} % of simulated sweeps" in said


def test_published_exponents_stand_beside_ours(held: Page) -> None:
    laws = held.findings[0].tables[1]
    names = [row.name for row in laws.rows]
    assert names[:2] == ["attention", "LSTM"]
    keys = [column.key for column in laws.columns]
    for row in laws.rows[2:]:
        rows = [r for r in rows_of("scaling_laws.csv") if r["system"] == row.name]
        assert rows
        for one in rows:
            assert row.entries[keys.index(one["metric"])].text == one["value"]
        assert "arXiv" in row.note
        assert row.entries[keys.index("irreducible_loss")].text == "–"


@pytest.mark.slow
def test_an_exponent_that_is_not_identified_is_no_number() -> None:
    """Use three sizes that are close together."""
    of = sweep(noise=0.03, dims=(30, 32, 34))
    laws = paged(of).findings[0].tables[1]
    alpha = [column.key for column in laws.columns].index("parameter_exponent")
    for row in laws.rows[:2]:
        assert row.entries[alpha].text == "not identified"
        assert row.entries[alpha].interval.startswith("[")
    assert "not identified" in words(of)


def test_too_few_sizes_are_said_in_words() -> None:
    of = sweep(dims=(16, 32))
    section = law_section(of.about, of.series, TASK)
    assert section is not None
    assert any(
        "no law is fitted, since there are 2 different sizes" in s for s in section.sentences
    )
    assert words(of) == "No law is fitted."
    assert "No law is fitted." in paged(of).answer.sentence


def test_what_is_missing_is_said() -> None:
    of = sweep()
    rows = of.results.copy()
    lost = rows["variant"].eq("mixer=lstm, dim=16, steps=250") & rows["probe"].eq("quality")
    rows.loc[lost, ["value", "status"]] = [math.nan, "diverged"]
    first = paged(replace(of, results=rows)).findings[0]
    assert any("LSTM: 1 variant and " in s for s in first.sentences)


def test_other_ablations_have_no_such_section(held: Page) -> None:
    plain = paged(sweep(held_out={}))
    assert not any("Scaling" in section.title for section in plain.findings)
    assert "alpha" not in plain.answer.sentence
    assert len(held.findings) == len(plain.findings) + 1


def test_an_about_from_before_stays_as_it_is() -> None:
    of = sweep().about
    assert '"held_out":{"dim":96,"steps":4000}' in about_to_json(of)
    assert about_from_json(about_to_json(of)) == of
    assert "held_out" not in about_to_json(replace(of, held_out={}))


@pytest.mark.slow
def test_the_report_is_the_same_again_and_its_tables_are_files(tmp_path: Path) -> None:
    of = sweep()
    shuffled = replace(of, results=of.results.sample(frac=1, random_state=1))
    one, two = (
        render("scaling_laws", [each], tmp_path / name).parent
        for name, each in (("a", of), ("b", shuffled))
    )
    for path in one.rglob("*.*"):
        assert path.read_bytes() == (two / path.relative_to(one)).read_bytes(), path
    with (one / "tables" / f"{TASK}-scaling-laws.csv").open() as file:
        (first, *_) = csv.DictReader(file)
    assert float(first["parameter_exponent (1)"]) == pytest.approx(0.52, abs=0.01)
    svg = (one / "figures" / f"{TASK}-scaling-law.svg").read_text()
    assert "in the held-out training, predicted" in svg
    assert (one / "tables" / f"{TASK}-scaling-predictions.tex").is_file()


def test_a_held_out_training_that_lost_seeds_is_not_judged() -> None:
    made = sweep(noise=0.004)
    rows = made.results.copy()
    lost = (rows["variant"] == "mixer=lstm, dim=96, steps=4000") & (rows["probe"] == "quality")
    lost &= rows["seed"] < 2
    rows.loc[lost, ["value", "status", "reason"]] = [float("nan"), "diverged", "x"]
    several = groups(Sweep(about=made.about, results=rows, curves=made.curves))
    attention, lstm = several
    assert (lstm.num_lost, lstm.num_missing) == (0, 0)  # the fit has all its seeds
    table = known(predictions_table(TASK, "bit", several))
    by_name = {row.title: row.entries for row in table.rows}
    measured, outcome = by_name["LSTM, width 96, 4,000 steps"][-2:]
    assert measured.marks == (PARTIAL,)
    assert outcome.text == "not judged, since 2 seeds of it have no loss"
    assert "not judged" not in by_name["attention, width 96, 4,000 steps"][-1].text
    assert attention.num_missing == 0


def test_a_best_size_that_is_not_identified_is_not_drawn_or_told() -> None:
    point = Estimate(n=20, point=15_000.0)
    curve = {1e4: 2.0, 2e4: 1.9}
    one = FlopsBudget(flops=1e12, measured={}, curve=curve, best_size=point, best_loss=1.9)
    (bits,) = (s for s in sweep().series if s.metric == "bits_per_character")
    assert _describe_budgets(bits, [one]) == "1 TFLOP: best size not identified."
    assert not list(_valley([one]))
    sure = replace(one, best_size=replace(point, low=1e4, high=2e4))
    assert "15,000 parameters" in _describe_budgets(bits, [sure])
    assert len(list(_valley([sure]))) == 1
