"""The page of a scaling law: its headline, figures and tables say what the frame holds."""

from __future__ import annotations

import csv
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

import reports
from reports.export.printers import to_csv
from reports.literature.csv import rows_of
from reports.pages.ablation import Page, page
from reports.pages.scaling_law import law_in_words, law_section
from reports.render import render
from reports.results.frame import Sweep, about_from_json, about_to_json
from reports.results.series import all_series
from tests.reports.made_scaling_law import TASK, sweep


def paged(of: Sweep) -> Page:
    return page(of, [of.about.scale])


@pytest.fixture(scope="module")
def held() -> Page:
    return paged(sweep())


def words(of: Sweep) -> str:
    return law_in_words(of.about, all_series(of.about, of.results), TASK)


def test_the_headline_says_the_exponents_and_whether_the_prediction_held(held: Page) -> None:
    sentence = held.answer.sentence
    assert "The loss falls as N^−alpha and D^−beta with alpha 0.52 [0.49, 0.56]" in sentence
    assert "(attention)" in sentence
    assert sentence.count("within the interval") == 2
    assert held.answer.drawing is not None
    assert held.answer.drawing.name.endswith("scaling-law")


def test_a_miss_is_said_with_its_size_and_side() -> None:
    said = words(sweep(off=0.2))
    assert said.count("within the interval") == 1
    assert "0.2" in said.partition("missed: ")[2][:6]
    assert "worse than predicted" in said
    assert "beyond the interval." in said
    assert "better than predicted" in words(sweep(off=-0.2))


def test_last_bits_of_losses_move_no_byte() -> None:
    """Processors differ in them: `numpy.exp` with AVX-512 and without, sums by other threads."""
    made, rng = sweep(), random.Random(7)
    is_loss = made.results["unit"] == "bit"
    factors = [1 + rng.uniform(-1e-15, 1e-15) * each for each in is_loss]
    moved = replace(made, results=made.results.assign(value=made.results["value"] * factors))
    assert not moved.results["value"].equals(made.results["value"])
    assert written(moved) == written(made)


def written(of: Sweep) -> list[str]:
    section = law_section(of.about, all_series(of.about, of.results), TASK)
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
    assert len(first.drawings) == 2  # a view a mixer; the law itself is on the first screen


def test_the_coverage_that_is_said_is_the_one_that_was_measured() -> None:
    """The least and the most of the table in docs/statistics.md."""
    documented = Path(reports.__file__).parents[1] / "docs" / "statistics.md"
    _, _, table = documented.read_text().partition("Nominal 95 % intervals held")
    rows = [row for row in table.partition("So they are")[0].splitlines() if row.count("|") == 6]
    shares = [
        int(n) for row in rows[2:] for n in re.findall(r"(\d+) %(?= \|)", row.split("|", 2)[2])
    ]
    assert len(shares) == 12
    section = law_section(sweep().about, all_series(sweep().about, sweep().results), TASK)
    assert section is not None
    said = next(text for text in section.sentences if "bootstrap" in text)
    assert "nominally 95 %" in said
    assert f"{min(shares)} to {max(shares)} % of simulated sweeps" in said


def test_published_exponents_stand_beside_ours(held: Page) -> None:
    laws = held.findings[0].tables[1]
    names = [row.name for row in laws.rows]
    assert names[:2] == ["mixer=attention", "mixer=lstm"]
    keys = [column.key for column in laws.columns]
    for row in laws.rows[2:]:
        rows = [r for r in rows_of("scaling_laws.csv") if r["system"] == row.name]
        assert rows
        for one in rows:
            assert row.entries[keys.index(one["metric"])].text == one["value"]
        assert "arXiv" in row.note
        assert row.entries[keys.index("irreducible_loss")].text == "–"


def test_an_exponent_that_is_not_identified_is_no_number() -> None:
    """Of three sizes that lie close together."""
    of = sweep(noise=0.03, dims=(30, 32, 34))
    laws = paged(of).findings[0].tables[1]
    alpha = [column.key for column in laws.columns].index("parameter_exponent")
    for row in laws.rows[:2]:
        assert row.entries[alpha].text == "not identified"
        assert row.entries[alpha].interval.startswith("[")
    assert "not identified" in words(of)


def test_too_few_sizes_are_said_in_words() -> None:
    of = sweep(dims=(16, 32))
    section = law_section(of.about, all_series(of.about, of.results), TASK)
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
    assert any("mixer=lstm: 1 variants have no loss" in s for s in first.sentences)


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
