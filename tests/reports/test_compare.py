"""Test the comparison of two selections: pairing, the rules on known numbers, and the files."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bakeoff.reports.analysis.time_comparison import CLEAR_GAP
from bakeoff.reports.compare import (
    MOST_ROWS,
    NOTHING_IN_COMMON,
    Change,
    Selection,
    compare_selections,
    level_beyond_gap,
    machine_drift,
    recorded_differences,
    render_comparison,
    unpaired_ratio,
)
from bakeoff.reports.stats.intervals import mean_interval
from tests.reports.made_selections import ABOUT, HERE, THERE, row, rows, selection

HERE_ID, THERE_ID = HERE.environment_id, THERE.environment_id
BITS, SHARES = [2.0, 2.1, 2.2, 2.05], [0.5, 0.6, 0.55]
SECONDS, RATES = [0.010, 0.0101, 0.0099], [100.0, 101.0, 99.0]
KERNEL = "linear_kernel_seconds"
EVIL = "<script>alert(1)</script>|`=1+1`\x1b[2J"
FILES = ("index.html", "report.md", "moved.csv")


def paired(a: Selection, b: Selection) -> list[Change]:
    return [c for c in compare_selections(a, b) if not c.outcome.startswith("only in")]


def only(a: Selection, b: Selection) -> set[tuple[str, str, str]]:
    some = [c for c in compare_selections(a, b) if c.outcome.startswith("only in")]
    return {(c.outcome[-1], c.key["metric"], "".join(c.devices)) for c in some}


def change(metric: str, a: list[float], b: list[float], **of_b: Any) -> Change:
    (found,) = compare_selections(selection(rows(metric, a)), selection(rows(metric, b, **of_b)))
    return found


def shifted(values: list[float], by: float, wobble: float = 0.001) -> list[float]:
    return [value + by + wobble * (-1) ** index for index, value in enumerate(values)]


def times(values: list[float], factor: float) -> list[float]:
    return [factor * (1 + 0.001 * (-1) ** index) * x for index, x in enumerate(values)]


@pytest.mark.parametrize(
    "other", [{"variant": "heads=1"}, {"task": "mixer_alone"}, {"at": "length=64"}]
)
def test_a_metric_of_something_else_is_another_number(other: dict[str, str]) -> None:
    sides = selection(rows("bits", [1.0])), selection(rows("bits", [2.0], **other))
    assert paired(*sides) == []
    assert only(*sides) == {("A", "bits", ""), ("B", "bits", "")}
    control = selection(rows(KERNEL, [1.0]))
    assert compare_selections(control, control) == []


def test_times_are_paired_environment_by_environment() -> None:
    a = selection(rows("seconds", [1.0]), rows("seconds", [5.0], made=THERE))
    b = selection(rows("seconds", [2.0]), rows("seconds", [6.0], made=THERE))
    found = {c.environments: c.values for c in compare_selections(a, b)}
    assert found[HERE_ID, HERE_ID] == ({0: 1.0}, {0: 2.0})
    assert found[THERE_ID, THERE_ID] == ({0: 5.0}, {0: 6.0})
    only_here = selection(rows("seconds", [2.0]))
    assert [c.values for c in paired(a, only_here)] == [({0: 1.0}, {0: 2.0})]
    assert only(a, only_here) == {("A", "seconds", "New GPU")}


def test_without_a_common_environment_those_with_most_numbers_are_paired() -> None:
    third = {"environment_id": "third", "device": "Third CPU"}
    a = selection(rows("seconds", [1.0, 1.0]), rows("seconds", [7.0], **third))
    b = selection(rows("seconds", [2.0], made=THERE))
    (found,) = paired(a, b)
    assert found.environments == (HERE_ID, THERE_ID)
    assert found.devices == ("Old CPU", "New GPU")
    assert only(a, b) == {("A", "seconds", "Third CPU")}


def test_a_score_of_several_environments_comes_from_the_shared_one() -> None:
    both = [row("bits", 1.0), row("bits", 2.0, made=THERE)]
    for order in (both, both[::-1]):
        for shared, wanted in ((HERE, 1.0), (THERE, 2.0)):
            other = selection(rows("bits", [wanted], made=shared))
            (found,) = compare_selections(selection(order), other)
            assert found.values == ({0: wanted}, {0: wanted})


def test_a_score_of_another_probe_is_tested_and_not_counted() -> None:
    moved = change("validation_bits", [2.0, 2.1, 2.2], [2.0, 2.1, 2.2003])
    assert (moved.kind, moved.outcome, moved.tone) == ("score", "open", "")
    assert change("validation_bits", BITS, shifted(BITS, 0.5)).finding == "worse"


def test_a_tie_of_medians_is_neither_better_nor_worse() -> None:
    found = change("peak_bytes", [10.0, 20.0, 30.0], [11.0, 20.0, 30.0])
    assert (found.kind, found.outcome, found.finding) == ("count", "moved", "moved")


def test_what_is_recorded_and_differs_is_named() -> None:
    a, other = rows("bits", [1.0]), {"commit": "bbbb00000000", "trial_id": "another"}
    for b, wanted in ((a, ()), (rows("bits", [1.0], **other), ("trial", "commit"))):
        (found,) = compare_selections(selection(a), selection(b))
        assert found.differs == wanted


def test_the_only_part_of_a_task_is_not_counted_beside_the_whole() -> None:
    def with_parts(values: list[float], *parts: str) -> Selection:
        return selection(*(rows("bits", values, at=at) for at in ("", *parts)))

    sides = with_parts(BITS, "part=all"), with_parts(shifted(BITS, 0.1), "part=all")
    assert [(c.key["at"], c.finding) for c in compare_selections(*sides)] == [("", "worse")]
    two = with_parts(BITS, "part=a", "part=b")
    assert {c.key["at"] for c in compare_selections(two, two)} == {"", "part=a", "part=b"}
    unlike = selection(rows("bits", BITS), rows("bits", shifted(BITS, 1.0), at="part=all"))
    assert len(compare_selections(unlike, unlike)) == 2


CASES = {
    "equal scores": ("bits", BITS, BITS, "identical"),
    "equal times": ("seconds", SECONDS, SECONDS, "identical"),
    "equal counts": ("num_parameters", [7.0], [7.0], "identical"),
    "more bits": ("bits", BITS, shifted(BITS, 0.1), "worse"),
    "fewer bits": ("bits", BITS, shifted(BITS, -0.1), "better"),
    "more accuracy": ("accuracy", SHARES, shifted(SHARES, 0.1), "better"),
    "scatter": ("bits", BITS, shifted(BITS, 0.001, wobble=0.1), "open"),
    "two seeds": ("bits", BITS[:2], [9.0, 9.1], "open"),
    "more time": ("seconds", SECONDS, times(SECONDS, 1.2), "slower"),
    "less time": ("seconds", SECONDS, times(SECONDS, 0.8), "faster"),
    "about as much time": ("seconds", SECONDS, times(SECONDS, 1.001), "same"),
    "times that scatter": ("seconds", SECONDS, [0.02, 0.01, 0.015], "ambiguous"),
    "two processes": ("seconds", SECONDS[:2], [0.02, 0.0201], "noisy"),
    "half the rate": ("tokens_per_second", RATES, [50.0, 50.5, 49.5], "slower"),
    "one parameter more": ("num_parameters", [100_000.0], [100_001.0], "moved"),
    "less memory": ("peak_bytes", [100.0], [50.0], "better"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_finding(case: str) -> None:
    metric, a, b, wanted = CASES[case]
    found = change(metric, a, b)
    assert found.finding == wanted
    if wanted == "identical":
        assert (found.p, found.size) == (None, 0.0)


def test_a_score_is_tested_with_students_t_of_the_paired_differences() -> None:
    found = change("bits", BITS, shifted(BITS, 0.1))
    wanted = stats.ttest_rel(shifted(BITS, 0.1), BITS)
    assert found.estimate.point == pytest.approx(0.1)
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.estimate.low == pytest.approx(wanted.confidence_interval(0.95).low)
    assert change("bits", BITS, shifted(BITS, 0.1), made=THERE).finding == "worse"
    last_digit = change("bits", BITS, [*BITS[:3], math.nextafter(BITS[3], 9)])
    assert last_digit.outcome == "open"
    assert last_digit.p is not None
    assert "contains zero" in last_digit.reason


def test_too_few_common_seeds_are_no_test_and_numbers_are_those_of_common_seeds() -> None:
    two = change("bits", BITS[:2], [9.0, 9.1, 50.0])
    assert (two.p, two.reason) == (None, "2 paired seeds, and at least 3 are needed")
    a, b = two.summaries
    assert a is not None
    assert b is not None
    assert two.estimate.point == pytest.approx(b - a)  # although B has a third seed
    later = selection([row("bits", 2.0, seed=seed) for seed in (7, 8, 9)])
    (apart,) = compare_selections(selection(rows("bits", BITS[:3])), later)
    assert (apart.outcome, apart.reason) == ("open", "no seed in common")
    assert change("seconds", SECONDS[:2], [0.02, 0.0201]).p is None


def test_a_time_and_a_rate_are_ratios() -> None:
    slower = change("seconds", SECONDS, times(SECONDS, 1.2))
    assert slower.estimate.point == pytest.approx(1.2, rel=2e-3)
    rate = change("tokens_per_second", RATES, [50.0, 50.5, 49.5])
    assert (rate.estimate.point, rate.tone) == (pytest.approx(0.5), "worse")
    noisy = [row("seconds", 0.01, seed, status="noisy", reason="restless") for seed in range(3)]
    (found,) = compare_selections(selection(rows("seconds", SECONDS)), selection(noisy))
    assert (found.outcome, found.reason) == ("noisy", "restless")


def test_times_of_different_devices_get_no_verdict() -> None:
    found = change("seconds", SECONDS, [0.001, 0.0011, 0.0012, 0.001], made=THERE)
    assert (found.outcome, found.p, found.estimate.n) == ("other device", None, 7)
    ratio = stats.gmean([1, 1.1, 1.2, 1]) / stats.gmean([10, 10.1, 9.9])
    assert found.estimate.point == pytest.approx(ratio)
    assert "environment" in found.differs
    memory = change("peak_bytes", [100.0], [100.0], made=THERE)
    assert memory.outcome == "other device"


def test_counts_and_shares() -> None:
    found = change("num_parameters", [100_000.0], [100_001.0])
    assert (found.outcome, found.estimate.point) == ("moved", pytest.approx(1.00001))
    assert replace(found, outcome="perhaps moved").finding == "perhaps moved"
    assert change("num_parameters", [0.0], [5.0]).size == 1.0
    share = change("scaling_efficiency", [0.91], [0.92])  # a ratio of times, so not a count
    assert share.kind == "score"


def test_a_seed_that_ends_differently_is_a_change() -> None:
    b = [*rows("bits", BITS[:3]), row("bits", None, 3, status="diverged", reason="nan at step 9")]
    (found,) = compare_selections(selection(rows("bits", BITS)), selection(b))
    assert found.outcome == "ended differently"
    assert found.reason == "seed 3: ok in A, diverged (nan at step 9) in B"
    assert found.is_certain
    assert found.size == math.inf
    failed = selection([row("bits", None, status="skipped", reason="cannot be")])
    (found,) = compare_selections(failed, failed)
    assert (found.outcome, found.reason) == ("no number", "skipped")


def scattered(num_tests: int, scale: float, random_seed: int) -> list[Change]:
    """Return scores at `num_tests` coordinates, A and B from the same distribution."""
    rng = np.random.default_rng(random_seed)
    places = [(f"length={i}", seed) for i in range(num_tests) for seed in range(3)]
    a, b = (
        selection([row("bits", 2.0 + scale * rng.normal(), s, at=at) for at, s in places])
        for _ in range(2)
    )
    return compare_selections(a, b)


@pytest.mark.statistics
def test_holm_keeps_chance_from_changing_anything() -> None:
    """Simulate no effect: 2 of 40 tests exclude zero by chance; a page errs in 5 % of cases."""
    pages = [scattered(40, 0.01, random_seed) for random_seed in range(20)]
    possible = [c for page in pages for c in page if c.outcome == "perhaps moved"]
    certain = [[c for c in page if c.is_certain] for page in pages]
    # 40 of 800 are expected; both bounds are five standard deviations away.
    assert 10 <= len(possible) + sum(map(len, certain)) <= 70
    # In 20 pages, 7 or more errors have a probability of 1/30,000.
    assert sum(map(bool, certain)) <= 6
    assert all("correction for 40" in found.reason for found in possible)


def test_what_is_clear_survives_holm_and_counts_are_no_part_of_it() -> None:
    noise = [row("bits", 2.0 + 0.01 * s, s, at=f"length={i}") for i in range(5) for s in range(3)]
    other = [
        replaced | {"value": replaced["value"] + 0.001 * (i % 7 - 3)}
        for i, replaced in enumerate(noise)
    ]
    a = selection(noise, rows("bits", [2.0, 2.01, 2.02]), rows("num_parameters", [1.0]))
    b = selection(other, rows("bits", [2.5, 2.5100001, 2.5200002]), rows("num_parameters", [2.0]))
    found = compare_selections(a, b)
    certain = {(c.kind, c.outcome) for c in found if c.is_certain}
    assert certain == {("score", "moved"), ("count", "moved")}
    assert [c.kind for c in found if c.p is not None] == ["score"] * 6


def test_scores_then_the_largest_change_come_first_and_both_ways_round_it_is_the_same() -> None:
    metrics = {"num_parameters": [100.0], "peak_bytes": [100.0], "bits": BITS, "seconds": SECONDS}
    a = selection(*(rows(name, values) for name, values in metrics.items()))
    b = selection(
        rows("num_parameters", [101.0]),
        rows("peak_bytes", [10.0]),
        rows("bits", shifted(BITS, 1.0)),
        rows("seconds", [3 * x for x in SECONDS]),
    )
    found = compare_selections(a, b)
    order = ["bits", "peak_bytes", "seconds", "num_parameters"]
    assert [c.key["metric"] for c in found] == order
    for there, back in zip(found, compare_selections(b, a), strict=True):
        assert there.p == pytest.approx(back.p)
        assert there.size == pytest.approx(back.size)
        is_directed = there.key["better"] != "none"
        assert {there.tone, back.tone} == ({"better", "worse"} if is_directed else {""})


def test_the_p_of_a_time_is_the_level_at_which_its_interval_leaves_the_gap() -> None:
    for sign in (1, -1):
        logs = [sign * x for x in (0.02, 0.03, 0.045)]
        at_p = mean_interval(logs, confidence=1 - level_beyond_gap(logs))
        nearest = at_p.low if sign > 0 else at_p.high
        assert nearest == pytest.approx(sign * math.log(CLEAR_GAP))
    assert level_beyond_gap([0.001, 0.002, 0.003]) == 1.0


def test_an_unpaired_ratio_has_welchs_interval() -> None:
    a, b = [1.0, 1.1, 1.05], [2.0, 2.6, 2.2, 2.3]
    wanted = stats.ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval(0.95)
    found, inverse = unpaired_ratio(a, b), unpaired_ratio(b, a)
    assert found.n == 7
    assert found.point == pytest.approx(stats.gmean(b) / stats.gmean(a))
    assert found.low == pytest.approx(math.exp(wanted.low))
    assert inverse.high == pytest.approx(math.exp(-wanted.low))
    single = unpaired_ratio([2.0], [3.0, 3.0])
    assert (single.point, single.low) == (pytest.approx(1.5), None)
    assert unpaired_ratio([], b).point is None
    assert unpaired_ratio([0.0], b).point is None
    without_spread = unpaired_ratio([1.0, 1.0], [2.0, 2.0])
    assert without_spread.low == without_spread.high == pytest.approx(2.0)


def of(variant: str, *bits: float) -> list[dict[str, object]]:
    return rows("bits", bits, variant=variant)


@pytest.fixture
def a() -> Selection:
    return selection(
        of("heads=1", 2.5, 2.6, 2.7),
        of("heads=8", 2.0, 2.1, 2.2),
        rows("seconds", SECONDS),
        rows(KERNEL, [1.0] * 3),
        name="old",
    )


@pytest.fixture
def b() -> Selection:
    return selection(
        of("heads=1", 2.5, 2.6, 2.7),
        of("heads=8", 3.0, 3.1, 3.2001),
        rows("seconds", SECONDS),
        rows(KERNEL, [1.1] * 3),
        name="new",
    )


def markdown(a: Selection, b: Selection, folder: Path) -> str:
    return render_comparison(a, b, folder)[1].with_name("report.md").read_text()


def csv_rows(page: Path) -> list[dict[str, str]]:
    with page.with_name("moved.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_it_writes_a_page_and_its_numbers_and_the_same_bytes_for_any_order_of_rows(
    a: Selection, b: Selection, tmp_path: Path
) -> None:
    _, one = render_comparison(a, b, tmp_path / "one")
    assert one == tmp_path / "one/heads/compare-old-new/index.html"
    assert sorted(path.name for path in one.parent.iterdir()) == sorted(FILES)
    mixed = pd.DataFrame(a.results.sample(frac=1, random_state=3)).reset_index(drop=True)
    _, two = render_comparison(replace(a, results=mixed), b, tmp_path / "two")
    for name in FILES:
        assert one.with_name(name).read_bytes() == two.with_name(name).read_bytes()


def test_page_and_markdown_tell_what_moved_which_way(
    a: Selection, b: Selection, tmp_path: Path
) -> None:
    unchanged = "No significant change: 2 scores: 2 identical; 1 time: 1 identical."
    assert render_comparison(a, a, tmp_path)[0] == unchanged
    headline, page = render_comparison(a, b, tmp_path)
    assert headline.startswith("2 scores: 1 worse, 1 identical; 1 time: 1 identical. Largest")
    assert "bits of heads=8 (words) +1.0000" in headline
    for name, title in (("index.html", "What moved</h2>"), ("report.md", "## What moved")):
        text = page.with_name(name).read_text()
        assert headline.partition(".")[0] in text
        assert "The verdict on the claim moved: “supported, indicative” in A" in text
        assert "took 1.10 times as long in B" in text
        assert "bakeoff report heads --scale quick --compare old new" in text
        assert text.index(title) < text.index("The other 2")
        assert "no recorded differences" in text


def test_what_differs_and_what_is_missing_is_named(a: Selection, tmp_path: Path) -> None:
    about = replace(ABOUT, settings={"dim": 64, "steps": 600}, claim=None)
    b = selection([row("bits", 2.0, seed) for seed in (0, 1, 7)], about=about, name="new")
    text = markdown(a, b, tmp_path)
    for wanted in (
        "setting: steps",
        "2 metrics are only in A",
        "seed 2 in A only and seed 7 in B only",
        "Only A makes a claim.",
    ):
        assert wanted in text
    one, two = (replace(a, name=n, source={"mine.py": f"{n}\n"}) for n in ("old", "new"))
    text = markdown(one, two, tmp_path)
    assert text.index("## Scores") < text.index("own source") < text.index("-old\n+new\n")
    assert "mine.py" not in markdown(one, a, tmp_path)  # not known for both


def test_a_row_shows_both_numbers_the_change_and_what_else_differs(tmp_path: Path) -> None:
    a = selection(rows("num_parameters", [107_264.0]))
    b = selection(rows("num_parameters", [107_265.0], commit="bbbb00000000"))
    line = "| heads=8 | num parameters (words) | moved | 1.000 × | 107,264 | 107,265 | commit |"
    assert line in markdown(a, b, tmp_path).splitlines()
    a, b = selection(rows("seconds", SECONDS)), selection(rows("seconds", SECONDS, made=THERE))
    (line,) = (line for line in markdown(a, b, tmp_path).splitlines() if "| seconds" in line)
    assert re.search(r"other device \| 1\.000 × \\\[.*\(Old CPU\).*\(New GPU\)", line)


def test_a_long_table_ends_with_where_the_rest_is(tmp_path: Path) -> None:
    many = selection([row("peak_bytes", 1.0, at=f"length={n}") for n in range(MOST_ROWS + 5)])
    _, page = render_comparison(many, many, tmp_path)
    text = page.with_name("report.md").read_text()
    assert text.count("\n| heads=8 |") == MOST_ROWS
    assert "200 of 205 rows are shown; moved.csv contains all rows." in text
    assert len(csv_rows(page)) == MOST_ROWS + 5


def test_the_csv_holds_exact_numbers_and_what_changed_first(tmp_path: Path) -> None:
    bits, lengths = rows("bits", [2.0, 2.1, 2.2]), ("length=64", "length=128")
    only_a = [row("accuracy", 0.1, at=at) for at in lengths]
    a = selection(bits, rows("num_parameters", [5.0]), only_a, rows("peak_bytes", [1.0]))
    _, page = render_comparison(a, selection(bits, rows("num_parameters", [6.0])), tmp_path)
    found = csv_rows(page)
    assert [line["metric"] for line in found[:2]] == ["num_parameters", "bits"]
    assert [line["has_moved"] for line in found] == ["yes", *["no"] * 4]
    assert [line["outcome"] for line in found] == ["moved", "identical", *["only in A"] * 3]
    assert [float(found[0][name]) for name in ("a", "b", "change")] == [5.0, 6.0, 1.2]
    assert float(found[1]["a"]) == pytest.approx(2.1)


def test_hostile_names_are_text_everywhere(tmp_path: Path) -> None:
    variants = (EVIL, f"=cmd()|{EVIL}")
    about = replace(
        ABOUT,
        question=EVIL,
        variants=variants,
        baseline=EVIL,
        claim=None,
        settings={EVIL: EVIL},
        ablation=f"../{EVIL}",
    )
    named = {"ablation": about.ablation}
    first = [
        row("bits", None, 0, variant=EVIL, status="error", reason=EVIL, **named),
        *rows("num_parameters", [1.0], variant=variants[1], **named),
    ]
    elsewhere = replace(THERE, device=EVIL)
    second = [
        row("bits", 1.0, 0, variant=EVIL, **named),
        *rows("num_parameters", [2.0], variant=variants[1], **named),
        *rows("seconds", SECONDS, variant=EVIL, made=elsewhere, **named),
    ]
    a = replace(selection(first, about=about), name=f"../../{EVIL}")
    b = replace(selection(second, about=replace(about, settings={})), name="$(touch x)")
    _, page = render_comparison(a, b, tmp_path)
    assert page.is_relative_to(tmp_path)
    assert len(page.relative_to(tmp_path).parts) == 3
    html, text = page.read_text(), page.with_name("report.md").read_text()
    scripts = re.findall(r"<script.*?</script", html, flags=re.DOTALL)
    assert scripts
    assert not any("alert" in script for script in scripts)
    assert "<script" not in text.split("## Reproduce these results")[0]
    assert "\x1b" not in html + text
    assert {line["variant"][:1] for line in csv_rows(page)} == {"<", "'"}


def test_nothing_in_common_and_nothing_at_all_are_pages_too(a: Selection, tmp_path: Path) -> None:
    seed_9 = selection([row("bits", 2.0, seed=9)])
    for one, b in ((a, selection(rows("accuracy", [0.5]))), (a, seed_9), (selection(),) * 2):
        headline, page = render_comparison(one, b, tmp_path)
        assert headline == NOTHING_IN_COMMON
        assert headline in page.read_text()


def test_each_difference_is_named_with_both_values_and_what_agrees_is_not() -> None:
    a = selection(rows("bits", BITS))
    assert recorded_differences(a, selection(rows("bits", [9.0]))) == {}
    newer = replace(
        HERE,
        commit="bbbb00000000",
        versions={"torch": "2.14.0"},
        num_threads=2,
        conditions={"governor": "powersave"},
    )
    assert ABOUT.claim is not None
    about = replace(
        ABOUT,
        provenances={newer.environment_id: newer},
        num_seeds=5,
        settings={"dim": 64, "steps": 600},
        claim=replace(ABOUT.claim, by=0.1),
    )
    b = selection(rows("bits", BITS, made=newer), about=about)
    assert recorded_differences(a, b) == {
        "commit": ("aaaa00000000", "bbbb00000000"),
        "environment": (HERE_ID, newer.environment_id),
        "threads": ("1", "2"),
        "torch version": ("2.13.0", "2.14.0"),
        "python version": ("3.11.9", "none"),
        "governor": ("performance", "powersave"),
        "seeds planned": ("3", "5"),
        "setting: steps": ("300", "600"),
        "claim: by": ("0.0", "0.1"),
    }
    # Only the environments of the rows count.
    assert recorded_differences(a, selection(rows("bits", BITS, made=THERE))) == {
        "environment": (HERE_ID, THERE_ID),
        "device": ("Old CPU", "New GPU"),
    }


def test_the_drift_is_the_median_ratio_of_the_kernels_of_one_machine() -> None:
    a = selection(rows(KERNEL, [1.0, 1.0, 1.0]), rows("seconds", [1.0, 1.0, 1.0]))
    b = selection(rows(KERNEL, [1.1, 1.2, 5.0]), rows("seconds", [9.0, 9.0, 9.0]))
    assert machine_drift(a, b) == (pytest.approx(1.2), 3)
    elsewhere = selection(rows(KERNEL, [2.0], made=THERE))
    assert machine_drift(a, elsewhere) is None


def test_counts_are_compared_over_common_seeds() -> None:
    def counted(values: dict[int, float]) -> Selection:
        found = rows("steps_to_target", [*values.values()])
        return selection([{**one, "seed": seed} for one, seed in zip(found, values, strict=True)])

    (found,) = compare_selections(
        counted({0: 100, 1: 100, 2: 100}), counted({0: 120, 5: 40, 6: 40})
    )
    assert (found.kind, found.finding, found.estimate.point) == ("count", "worse", 1.2)
    (found,) = compare_selections(counted({0: 100, 1: 300, 2: 300}), counted({0: 100}))
    assert (found.finding, found.summaries, found.estimate.point) == ("identical", (100, 100), 1.0)


def test_shares_that_happen_to_be_whole_are_tested() -> None:
    found = change("test_accuracy", [0.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    assert (found.kind, found.outcome) == ("score", "open")
