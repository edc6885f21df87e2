"""Test that the outcome, badge, sentence and interval of a claim agree wherever they are shown."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

import pytest

from bakeoff.reports.analysis.verdict import ClaimOutcome
from bakeoff.reports.export.templating import html_templates, markdown_templates
from bakeoff.reports.pages import ablation as ablation_page
from bakeoff.reports.pages import answer as answer_page
from bakeoff.reports.pages import opening as opening_page
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.pages.overview import overview
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import ClaimSpec
from tests.reports import conftest as synthetic

NUM_OVERVIEWS, NUM_CLAIMS = 8, 8
STATEMENT = "the first beats the second"
ANSWERS = {
    "supported": "The first beats the second.",
    "smaller than claimed": "The first beats the second, but by less than claimed.",
    "refuted": f"The results show the opposite of the claim that {STATEMENT}.",
    "equivalent": (
        f"The difference is too small to matter, which contradicts the claim that {STATEMENT}."
    ),
    "inconclusive": f"The results do not show whether {STATEMENT}.",
    "underpowered": f"There are too few seeds to tell whether {STATEMENT}.",
    "not tested": f"The models of this scale cannot show whether {STATEMENT}.",
}
TOO_SMALL = f"The results do not show that {STATEMENT}; an effect as large as claimed is excluded."
_NUMBER = r"([+−]?[0-9.]+)"
_SEEN = re.compile(r"([0-9.]+) (better|worse) \(([0-9.]+) to ([0-9.]+)\)")
_OPEN = re.compile(rf"difference \({_NUMBER}(?: bit)?, {_NUMBER} to {_NUMBER}\)")
_UNTESTED = re.compile(rf"{_NUMBER}(?: bit)?, not tested")


@dataclass(frozen=True)
class Shown:
    """A claim as one place shows it: the text of its badge, its sentence and its numbers.

    The numbers are the difference and both ends of its interval, if there is one.
    """

    badge: str
    answer: str
    numbers: tuple[float, ...]


def _numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of an effect such as ``+0.031 (+0.010 to +0.051)``."""
    return tuple(float(number.replace("−", "-")) for number in re.findall(_NUMBER, text))


def _numbers_in_words(text: str) -> tuple[float, ...]:
    """Return the numbers of a sentence such as ``0.031 worse (0.010 to 0.051)``."""
    if seen := _SEEN.search(text):
        point, low, high = (float(seen[i]) for i in (1, 3, 4))
        return (point, low, high) if seen[2] == "better" else (-point, -high, -low)
    found = _OPEN.search(text) or _UNTESTED.search(text)
    assert found, text
    return _numbers(" ".join(filter(None, found.groups())))


def _sweep(rng: random.Random, name: str) -> Sweep:
    """Return a random claim on a score: true, false, open, a check, or below the floor."""
    better = rng.choice(("higher", "lower"))
    spec = synthetic.MetricSpec(name="score", unit="1", better=better)
    num, floor = rng.choice((1, 3, 3, 4, 6)), "guess"
    claim = ClaimSpec(
        statement=STATEMENT,
        metric="score",
        a="v=1",
        b="v=2",
        by=rng.choice((0.0, 0.05, 0.2, 0.5)),
        source="",
        task="t",
        is_check=rng.random() < 0.2,
    )
    about = synthetic.about(
        ablation=name,
        variants=("v=1", "v=2"),
        baseline="v=2",
        tasks=("t",),
        num_seeds=num,
        probes=("quality", "floors"),
        claim=claim,
        floors={"t": (floor,)},
        data_sets={},
        metrics={"t": {"quality": (spec,), "floors": (spec,)}},
    )
    gain = rng.choice((-0.3, -0.1, 0.0, 0.0, 0.1, 0.3)) * (1 if better == "higher" else -1)
    rows = [
        synthetic.row(
            about,
            variant,
            "t",
            "quality",
            spec,
            seed=seed,
            value=1.0 + gain * (variant == "v=1") + rng.gauss(0, 0.03),
        )
        for variant in about.variants
        for seed in range(num)
    ]
    is_below = rng.random() < 0.2
    value = 2.0 if is_below == (better == "higher") else 0.1
    rows.append(synthetic.row(about, floor, "t", "floors", spec, value=value, trial_id="f"))
    return Sweep(about, results_frame(rows), curves_frame([]))


def _on_overview(html: str) -> Iterator[Shown]:
    for row in html.split('<tr class="claim ')[1:]:
        edge = row.partition('"')[0]
        badge = re.search(r'<span class="badge ([^"]*)">([^<]*)</span>', row)
        said = re.search(r'<span class="label">([^<]*)</span>\n<details>', row)
        effect = re.search(r'<td class="words number".*?([^<>]*)</td>', row, re.S)
        assert badge
        assert said
        assert effect
        colour, kind = badge.groups()
        assert colour == edge == kind.partition(",")[0]
        yield Shown(kind, said[1], _numbers(effect[1]))


def _in_table(text: str) -> Iterator[Shown]:
    """Yield the claims of the overview in Markdown, whose rows are those of a table."""
    for answer, effect, kind in re.findall(
        r"^\| \[.*?\]\(.*?\) \| (.*?) \| (.*?) \| .*? \| \*\*(.*?)\*\*", text, re.M
    ):
        yield Shown(kind[0].lower() + kind[1:], answer, _numbers(effect.replace("\\", "")))


def _on_page(sweep: Sweep) -> Shown:
    """Return the claim as page and Markdown show it; both must agree."""
    made = page(sweep, ["quick"])
    html = html_templates().get_template("report.html").render(page=made)
    edge = html.partition('<div class="verdict ')[2].partition('"')[0]
    found = re.search(
        r'<p class="sentence">([^<]*)</p>\n<p><span class="badge ([^"]*)">([^<]*)</span> ([^<]*)',
        html,
    )
    assert found
    sentence, colour, kind, basis = map(unescape, found.groups())
    assert colour == edge == kind.partition(",")[0]
    markdown = markdown_templates().get_template("report.md").render(page=made).replace("\\", "")
    below = f"**{kind[0].upper()}{kind[1:]}.** {basis}"
    assert f"\n{sentence}\n\n{below}\n" in markdown
    answer, _, numbers = sentence.partition(": score is ")
    shown = Shown(kind, f"{answer}." if numbers else answer, _numbers_in_words(sentence))
    if kind.startswith("not tested"):
        assert "has not learnt t" in basis
    elif len(shown.numbers) > 1:
        assert basis.startswith("The 95 % interval is that of ")
    return shown


def _check(shown: Shown, claim: ClaimSpec) -> str:
    """Check word, sentence and interval against each other, and return the word."""
    word, *rest = shown.badge.split(", ")
    assert ("a check" in rest) == claim.is_check
    is_small = word == "refuted" and shown.numbers[-1] > 0
    assert shown.answer == (TOO_SMALL if is_small else ANSWERS[word])
    if word == "underpowered":
        return word
    point, low, high = shown.numbers
    assert low <= point <= high
    holds = {
        "supported": low >= 0 and high >= claim.by,
        "smaller than claimed": low >= 0 and high <= claim.by,
        "refuted": low <= 0 and (high <= 0 or high <= claim.by),
        "equivalent": -claim.by <= low and high <= claim.by,
        "inconclusive": low <= 0 and high >= claim.by,
        "not tested": True,  # the difference is shown all the same
    }
    assert holds[word], shown
    return word


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Omit figures: only words are compared."""
    for module in (ablation_page, opening_page):
        monkeypatch.setattr(module, "score_figure", lambda *_, **__: None)


@pytest.mark.whole
@pytest.mark.usefixtures("undrawn")
def test_everywhere_a_claim_has_the_word_badge_sentence_and_interval_of_one_verdict() -> None:
    rng = random.Random(20)
    seen: Counter[str] = Counter()
    for number in range(NUM_OVERVIEWS):
        sweeps = {f"n{i}": _sweep(rng, f"n{i}") for i in range(1 if not number else NUM_CLAIMS)}
        made = overview(sweeps)
        html = html_templates().get_template("overview.html").render(overview=made)
        markdown = markdown_templates().get_template("overview.md").render(overview=made)
        cards = list(_on_overview(html))
        assert list(_in_table(markdown)) == cards
        for entry, card in zip(made.entries, cards, strict=True):
            claim = sweeps[entry.ablation].about.claim
            assert claim
            assert entry.verdict
            assert card.badge == entry.verdict.kind
            word = _check(card, claim)
            assert _on_page(sweeps[entry.ablation]) == card
            seen[word] += 1
            seen["a check"] += claim.is_check
    assert {*ANSWERS, "a check"} == {word for word, num in seen.items() if num}


def test_every_outcome_has_a_sentence() -> None:
    assert set(answer_page._SENTENCES) == set(ClaimOutcome)


@pytest.mark.usefixtures("undrawn")
def test_themes_stand_in_their_order_and_others_last() -> None:
    rng = random.Random(3)
    sweeps = {name: _sweep(rng, name) for name in ("a", "b", "c", "d")}
    made = overview(sweeps, {"c": "second", "gone": "nothing", "b": "second", "d": "first"})
    assert [(t.name, [e.ablation for e in t.entries]) for t in made.themes] == [
        ("second", ["c", "b"]),
        ("first", ["d"]),
        ("others", ["a"]),
    ]
    (alone,) = overview(sweeps).themes
    assert (alone.name, [e.ablation for e in alone.entries]) == ("", ["a", "b", "c", "d"])
    html = html_templates().get_template("overview.html").render(overview=made)
    assert re.findall("<h2>(.*?)</h2>", html)[:3] == ["Second", "First", "Others"]


@pytest.mark.whole
@pytest.mark.usefixtures("undrawn")
def test_an_effect_is_drawn_where_its_numbers_are() -> None:
    rng, drawn = random.Random(5), 0
    sweeps = {f"n{i}": _sweep(rng, f"n{i}") for i in range(20)}
    for entry in overview(sweeps).entries:
        verdict, claim = entry.verdict, sweeps[entry.ablation].about.claim
        assert verdict
        assert claim
        advantage, bar = verdict.advantage, entry.bar
        if advantage.low is None or advantage.high is None or advantage.point is None:
            assert bar is None
            continue
        assert bar
        drawn += 1
        assert 0 <= bar.low <= bar.point <= bar.high <= 100
        assert (bar.low > bar.zero) == (advantage.low > 0) or abs(advantage.low) < 0.01
        assert (bar.claimed is None) == (claim.by == 0)
        if bar.claimed is not None and abs(advantage.low - claim.by) > 0.01:
            assert (bar.low > bar.claimed) == (advantage.low > claim.by)
        assert abs(bar.strength) > 1 if advantage.excludes_zero else abs(bar.strength) <= 1
        point, low, high = (float(n.replace("−", "-")) for n in re.findall(_NUMBER, verdict.effect))
        assert point == pytest.approx(advantage.point, abs=0.05)
        assert low <= point <= high
    assert drawn > 10
