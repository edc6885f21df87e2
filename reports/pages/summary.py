"""Describe what a page rests on: the comparison, its scale, and how certain the answer is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bakeoff.reports.analysis.editions import date
from bakeoff.reports.analysis.untuned import untuned_in_words
from bakeoff.reports.analysis.verdict import Verdict
from bakeoff.reports.document import Exhibit, Section, capitalized, listed
from bakeoff.reports.escape import one_line
from bakeoff.reports.results.reading import Coverage
from bakeoff.reports.results.spoken_names import (
    proper_name,
    spoken_name,
    what_baseline_is_in_words,
)
from bakeoff.reports.results.variant_labels import what_baseline_is
from bakeoff.suite.schema import MIXER_ALONE, About

MOST_WORDS = 2_200  # in all unfolded sections; the rest of a page has some hundred more
SMOKE = "smoke"
_SCALES = {
    SMOKE: "hardly trained: it only shows that the ablation runs",
    "quick": "runs on two CPU cores in minutes to two hours",
    "standard": "runs on one GPU in hours",
    "paper": "the scale of a paper, for a cluster",
}
_HASH_DIGITS = 12
_BUDGETS = {  # `bakeoff.Scale.equal` -> what a variant then does
    "flops": "trains for as many FLOPs as the baseline",
    "tokens": "trains on as many tokens as the baseline",
    "parameters": "has as many parameters as the baseline",
    "seconds": "trains for as long as the baseline",
}
_INDICATIVE = (
    "Results at this scale can show the direction of large effects but are not evidence for a "
    "paper."
)
_NO_CLAIM = "This ablation makes no claim, so there is no verdict; see the confidence intervals."
_ANSWERS_NOTHING = (
    "Models are hardly trained at this scale, so no claim is tested. The results only show that "
    "the ablation runs."
)
_UNPROVEN = (
    "{mixer} has no reference implementation, so its correctness is not checked here; it is "
    "measured anyway."
)


@dataclass(frozen=True, kw_only=True)
class SummaryPoint:
    """One fact with a title.

    Attributes:
        title: The title, such as ``Scale``.
    """

    title: str
    text: str


def facts(about: About) -> Iterator[SummaryPoint]:
    """Yield the facts that a reader must know besides the answer."""
    yield SummaryPoint(title="Compared", text=_compared(about))
    is_small = about.is_indicative and about.scale != SMOKE
    scale = f"{capitalized(scale_in_words(about.scale))}.{f' {_INDICATIVE}' if is_small else ''}"
    yield SummaryPoint(title="Scale", text=scale)
    if untuned := untuned_in_words(about):
        yield SummaryPoint(title="Learning rate", text=untuned)
    published = published_in_words(about)
    if published:
        yield SummaryPoint(title="Published", text=published)
    for mixer in sorted({of.mixer for of in about.subjects.values() if not of.is_proven}):
        yield SummaryPoint(title="Unproven", text=_UNPROVEN.format(mixer=mixer))


def certainty(
    about: About, judged: Verdict | None, coverage: Coverage, num_trials: int
) -> Iterator[SummaryPoint]:
    """Yield the rule of the verdict, when the claim was stated, and how much was measured."""
    if judged is not None:
        yield SummaryPoint(
            title="Verdict", text=" ".join((judged.outcome.meaning, *judged.details))
        )
    stated = stated_in_words(about, judged)
    if stated:
        yield SummaryPoint(title="Stated", text=stated)
    if len(about.editions_with_results) > 1:
        yield SummaryPoint(title="Edition", text=_edition(about))
    yield SummaryPoint(title="Measured", text=coverage_in_words(coverage, num_trials))


def published_in_words(about: About) -> str:
    """Return the published figure of the claim and its source, or an empty string without them."""
    claim = about.claim
    if claim is None or not (claim.published or claim.source):
        return ""
    if not claim.published:
        return f"The claim is from {_sentence(claim.source)}"
    return _sentence(f"{claim.published} ({claim.source})" if claim.source else claim.published)


def stated_in_words(about: About, judged: Verdict | None) -> str:
    """State whether the claim was registered before its results; empty without a claim."""
    if about.claim is None or judged is None:
        return ""
    if judged.is_exploratory:
        return judged.remark
    made = about.registration
    if made is None:
        return (
            "The time at which this claim was stated is unknown; it may have been stated after its "
            "results."
        )
    changes = "; ".join(made.changes)
    changed = f" It was changed before any results existed: {changes}." if changes else ""
    return (
        "The claim, its seeds and settings were fixed before its results "
        f"(SHA-256 {made.sha256[:_HASH_DIGITS]}).{changed}"
    )


def coverage_in_words(coverage: Coverage, num_trials: int) -> str:
    """Describe how many planned measurements exist; one trial may give several."""
    if not coverage.num_total:
        return "Nothing was planned."
    part = "" if coverage.num_measured == coverage.num_total else f"{coverage.num_measured:,} of "
    lost = ", ".join(f"{number:,} {fate}" for fate, number in coverage.lost.items())
    planned = _count(coverage.num_total, "planned measurement")
    return (
        f"{_count(num_trials, 'trial')} ran and gave {part or 'all '}{planned}"
        f"{f'; {lost}' if lost else ''}. One trial may give several measurements: a timing trial "
        f"measures all variants.{_noise_in_words(coverage)}"
    )


def _noise_in_words(coverage: Coverage) -> str:
    """Describe how many timings are noisy; empty if all settled."""
    if not coverage.num_noisy_timings:
        return ""
    of = f"{coverage.num_noisy_timings:,} of {_count(coverage.num_timings, 'timing')}"
    verb = "is" if coverage.num_noisy_timings == 1 else "are"
    return f" {of} {verb} noisy: their stopping criterion was not met."


def why_no_verdict(about: About) -> str:
    """Return the text that replaces a verdict."""
    return _ANSWERS_NOTHING if about.scale == SMOKE else _NO_CLAIM


def scale_in_words(scale: str) -> str:
    """Return a scale and the resources that it needs."""
    return f"{scale} ({_SCALES[scale]})" if scale in _SCALES else scale


def _compared(about: About) -> str:
    tasks = [task.replace("_", " ") for task in about.tasks if task != MIXER_ALONE]
    tasks += ["mixers alone"] if MIXER_ALONE in about.tasks else []
    return (
        f"{_count(len(about.variants), 'variant')} on {listed(tasks) or 'no task'}, with "
        f"{_count(about.num_seeds, 'seed')} each. The baseline is {_baseline(about)}."
        f"{_budget(about)}"
    )


def _baseline(about: About) -> str:
    """Return the name of the baseline, with its values on the axes if it has a name of its own."""
    name, what = what_baseline_is_in_words(about), what_baseline_is(about)
    if spoken_name(about, about.baseline) != name:  # the values are its name
        return name or about.baseline
    values = [part for part in what.split(", ") if part and proper_name(part) != name]
    return f"{name} ({', '.join(values)})" if values else name


def _budget(about: About) -> str:
    """State which budget is equal, with a space in front; empty if it is the number of steps."""
    budgets = dict.fromkeys(map(about.budget_of, about.variants))
    if len(budgets) > 1:
        return " Each variant has as much as the baseline of what its name says is equal."
    said = next((_BUDGETS[each] for each in budgets if each in _BUDGETS), "")
    near = "" if about.scale == SMOKE or "seconds" in budgets else ", within 1 %"
    return f" Each variant {said}{near}." if said else ""


def _edition(about: About) -> str:
    shown = next((each for each in about.editions if each.is_shown), None)
    began = f", first planned {date(shown)}" if shown else ""
    num_tried = len(about.editions_with_results)
    return f"{about.edition}{began}; {num_tried} editions of this ablation have results."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _sentence(text: str) -> str:
    shown = one_line(text)
    return shown if shown.endswith((".", "?", "!")) else f"{shown}."


def folded(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return the sections, folding each exhibit that would exceed `MOST_WORDS`."""
    found, left = [], MOST_WORDS
    for section in sections:
        exhibits = tuple(_exhibits(section, left))
        if not section.is_folded:
            left -= sum(one.num_words for one in exhibits if not one.is_folded)
        found.append(replace(section, exhibits=exhibits))
    return tuple(found)


def _exhibits(section: Section, left: int) -> Iterator[Exhibit]:
    for exhibit in section.exhibits:
        is_open = not (section.is_folded or exhibit.is_folded) and exhibit.num_words <= left
        left -= exhibit.num_words if is_open else 0
        # A folded section is opened as a whole, so its exhibits are not folded again.
        yield replace(exhibit, is_folded=not (is_open or section.is_folded))
