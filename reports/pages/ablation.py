"""Build the page of one ablation.

The page depends only on the sweep, not on the clock, the host or the network.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bakeoff.reports.document import (
    Drawing,
    Exhibit,
    ReportTable,
    Row,
    Section,
    capitalized,
    readable,
)
from bakeoff.reports.literature.csv import has_counterpart
from bakeoff.reports.literature.scores import published_exhibit
from bakeoff.reports.pages.answer import Answer, answer
from bakeoff.reports.pages.costs import costs_section
from bakeoff.reports.pages.editions import editions_section
from bakeoff.reports.pages.failures import (
    MAX_FAILURES,
    FailureGroup,
    failure_groups,
    fates_in_words,
)
from bakeoff.reports.pages.mixers import controls_section, mixers_section
from bakeoff.reports.pages.samples import sample_sections
from bakeoff.reports.pages.summary import SummaryPoint, certainty, facts, folded
from bakeoff.reports.plots.learning_curves import curves_figure, learning_curves
from bakeoff.reports.plots.scores import figure_name, score_figure
from bakeoff.reports.plots.tradeoff import tradeoff_exhibit
from bakeoff.reports.results.frame import FrameError
from bakeoff.reports.results.reading import Coverage
from bakeoff.reports.results.series import Series
from bakeoff.reports.sections.axis_series import axis_exhibits
from bakeoff.reports.sections.scaling_law import law_section
from bakeoff.reports.tables.beside_published import beside_published_exhibit
from bakeoff.reports.tables.comparison import comparison_table, primary, whole_coverage
from bakeoff.reports.tables.pooled import pooled_exhibit
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import (
    BASELINE_AGAIN,
    MIXER_ALONE,
    About,
    DataSet,
    Provenance,
    Status,
    metric_sentence,
)

SCALES = ("smoke", "quick", "standard", "paper")
MAX_DOTS = 30  # with more rows, the score figure is left out if other tables group them
MAX_UNRANKED = 40  # with more variants, a table is ranked and folded
MOST_COLUMNS = 5  # more do not fit on a screen 1,300 pixels wide
MOST_BEST = 8  # variants that the page shows unfolded if there are more
_READING = (
    "Each row is a variant. A variant differs from the baseline (shaded row) only in the settings "
    "given by its name. ↓ means that lower is better, ↑ that higher is better. Coverage is the "
    "number of planned seeds that were measured."
)
_ONLY_THE_ENDS = (
    "The curves show validation scores during training. The learning rate is annealed only at the "
    "end, so only the last points of two curves are comparable."
)
DEFINITIONS = (
    "Means are taken over seeds. Their intervals are Student's t intervals at 95 %, which assume "
    "approximately normal errors; a single seed has no interval. Differences from the baseline are "
    "computed per seed, with the same batches in the same order, and then averaged; “better” or "
    "“worse” means that the interval excludes zero. The verdict applies only to the claim of the "
    "ablation. All other comparisons are exploratory and not corrected for multiple testing.",
    "FLOPs are computed by formula: 2 per multiply-add in matrix products, convolutions and "
    "attention, none for elementwise operations; for training, the backward pass counts as twice "
    "the forward pass. Times are medians with the spread of the samples, or of the processes if "
    "there are several, and are never compared across machines. Coverage refers to the planned "
    "seeds: a seed that diverged or failed stays in the denominator.",
)
_OF_RECIPES = {
    "start": (
        "In pre-training (start), the same model is first trained on another task. The steps, time "
        "and FLOPs of pre-training are not included in the numbers of this page."
    ),
    "distillation": (
        "In distillation, a model learns from the outputs of a teacher in addition to the targets: "
        "from its probabilities (soft) or from its most likely class (hard). The teacher is "
        "trained first, on the same task and with the same seed; its own training is not included "
        "in the numbers of this page. Training FLOPs include its forward passes; training steps "
        "are timed without a teacher, so that no training time is given."
    ),
    "scheduled_sampling": (
        "In scheduled sampling, a growing share of the input tokens is replaced by the model's own "
        "predictions from a first pass; the setting is the share at the last step. Training FLOPs "
        "include that pass; training steps are timed without it, so that no training time is given."
    ),
    "adversarial_steps": (
        "With adversarial steps, each training step makes this number of forward and backward "
        "passes, on images perturbed to increase the loss; the last third of the training uses no "
        "perturbation. Training FLOPs include the mean over the training; training steps are "
        "timed without these passes, so that no training time is given."
    ),
}
_OF_STEPS = frozenset({"optimizer", "accumulation", "ema", "is_start_frozen"})


@dataclass(frozen=True, kw_only=True)
class Page:
    """A report that is ready to be printed as HTML or Markdown.

    Attributes:
        answer: The content at the top of the page.
        facts: The facts below the answer: the comparison and its scale.
        certainty: The facts on how certain the answer is, folded.
        findings: The sections of results: mixers alone, each task, all tasks.
        controls: The controls of timings on tasks, if mixers are not measured alone; printed
            after the failures.
        failures: The first groups of failures, of `num_failures` in all.
    """

    about: About
    scales: tuple[str, ...]
    answer: Answer
    facts: tuple[SummaryPoint, ...]
    certainty: tuple[SummaryPoint, ...]
    coverage: Coverage
    findings: tuple[Section, ...]
    controls: Section | None
    failures: tuple[FailureGroup, ...]
    num_failures: int
    data_sets: tuple[tuple[str, DataSet], ...]
    environments: tuple[tuple[str, Provenance], ...]
    commits: tuple[str, ...]
    definitions: tuple[str, ...]

    @property
    def all_tables(self) -> tuple[ReportTable, ...]:
        """All tables in the order of the page."""
        return tuple(table for section in self._sections for table in section.tables)

    @property
    def all_drawings(self) -> tuple[Drawing, ...]:
        """All drawings in the order of the page."""
        return (
            *self.answer.drawings,
            *(drawing for section in self._sections for drawing in section.drawings),
        )

    @property
    def fates(self) -> tuple[Mapping[str, str], ...]:
        """The words for the failures on the page, with their meanings."""
        return fates_in_words(failure.fate for failure in self.failures)

    @property
    def _sections(self) -> tuple[Section, ...]:
        return (*self.findings, *((self.controls,) if self.controls else ()))


def ordered(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """Return the sweeps from the smallest scale to the largest."""

    def size(sweep: Sweep) -> tuple[int, str]:
        scale = sweep.about.scale
        return SCALES.index(scale) if scale in SCALES else -1, scale

    return sorted(sweeps, key=size)


def shown_sweep(sweeps: Sequence[Sweep], scale: str | None = None) -> Sweep:
    """Return the sweep of the given scale, or else of the largest scale that has a result.

    Raises:
        FrameError: If there are no results at that scale.
    """
    by_scale = {sweep.about.scale: sweep for sweep in ordered(sweeps)}
    if scale is not None:
        if scale not in by_scale:
            known = ", ".join(by_scale) or "none"
            raise FrameError(f"no results at scale {scale!r}; scales with results: {known}.")
        return by_scale[scale]
    with_results = [s for s in by_scale.values() if (s.results["status"] == Status.OK).any()]
    with_rows = [s for s in by_scale.values() if len(s.results)]
    return (with_results or with_rows or list(by_scale.values()))[-1]


def page(sweep: Sweep, scales: Sequence[str]) -> Page:
    """Return the page of one sweep; `scales` lists all scales of the ablation with results."""
    about = sweep.about
    measured, judged = sweep.measured, sweep.verdict
    mixers = mixers_section(about, sweep.results) if MIXER_ALONE in about.tasks else None
    is_controlled = mixers is None and (sweep.results["metric"] == BASELINE_AGAIN).any()
    cover = whole_coverage(about, measured)
    failures = () if cover.is_complete else failure_groups(about, measured)
    tasks = [task for task in about.tasks if task != MIXER_ALONE]
    first = answer(about, measured, judged, sweep.growths)
    above = {drawing.name for drawing in first.drawings}
    on_tasks = [each for task in tasks for each in _on_task(sweep, task, above)]
    alone = [_without_above(mixers, above)] if mixers else []
    is_of_task = about.claim is not None and about.claim.task != MIXER_ALONE
    parts = [*on_tasks, *alone] if is_of_task else [*alone, *on_tasks]  # the claim's part first
    findings = folded((*parts, *_others(sweep, above)))
    return Page(
        about=about,
        scales=tuple(scales),
        answer=first,
        facts=tuple(facts(about)),
        certainty=tuple(certainty(about, judged, cover, sweep.num_trials)),
        coverage=cover,
        findings=findings,
        controls=controls_section(about, sweep.results) if is_controlled else None,
        failures=failures[:MAX_FAILURES],
        num_failures=len(failures),
        data_sets=tuple(sorted(about.data_sets.items())),
        environments=tuple(sorted(about.provenances.items())),
        commits=tuple(sorted(set(sweep.results["commit"]) - {""})),
        definitions=(
            *DEFINITIONS,
            *([mixers.definition] if mixers else []),
            *_recipes_in_words(about),
        ),
    )


def _recipes_in_words(about: About) -> Iterator[str]:
    """Yield explanations of training methods that the ablation sets or varies."""
    named = {*about.axes, *about.settings}
    yield from (said for name, said in _OF_RECIPES.items() if name in named)
    if "step_time" in about.probes and not _OF_STEPS.isdisjoint(about.axes):
        yield (
            "Training steps are timed with AdamW, whole batches and no average of the weights; the "
            "training time is not given for variants with another recipe."
        )


def metric_in_words(metric: str, unit: str, better: str) -> str:
    """Return the meaning of a metric and its good direction as a sentence."""
    meaning = metric_sentence(metric) or ("" if unit == "1" else f"in {unit}")
    said = f"{capitalized(readable(metric))}{f': {meaning}' if meaning else ''}"
    return f"{said}." if better == "none" else f"{said}; {better} is better."


def _on_task(sweep: Sweep, task: str, above: Container[str]) -> Iterator[Section]:
    """Yield the section on scaling laws, if the sweep has held-out sizes, and the comparison."""
    law = law_section(sweep.about, sweep.measured, task) if sweep.about.held_out else None
    if law is not None:
        yield _without_above(law, above)
    yield _task(sweep, task, above)


def _task(sweep: Sweep, task: str, above: Container[str]) -> Section:
    """Return the section that compares variants on a task, with figures of the same numbers."""
    measured, beside = sweep.measured, sweep.compared
    judged = primary(beside, task)
    table = comparison_table(sweep.about, beside, task)
    has_lines = len(sweep.about.variants) > 1 or any(s.at for s in measured if s.task == task)
    exhibits = axis_exhibits(sweep.about, measured, task) if has_lines else ()
    along = tuple(_without(above, one) for one in exhibits)
    has_groups = any(not one.is_of_variants for shown in along for one in shown.all_tables)
    is_elsewhere = len(table.rows) > MAX_DOTS and has_groups
    best, folded = _best(table, judged)
    shown = [row.name for row in best.rows if not row.is_floor] if folded else None
    is_above = judged is not None and figure_name(judged) in above
    is_drawn = len(table.rows) > 1 and not is_elsewhere and not is_above
    score = score_figure(sweep.about, judged, shown) if judged and is_drawn else None
    narrow, *more = _narrow(best)
    comparison = Exhibit(
        title="",
        sentences=(_READING,),
        tables=(narrow,),
        drawings=(score,) if score else (),
        folded=(*more, *(part for table in folded for part in _narrow(table))),
    )
    return Section(
        title=table.title,
        sentences=tuple(_what_is_judged(sweep.about, judged)) if judged else (),
        exhibits=(comparison, *along, *_looks(sweep, judged, above)),
    )


def _what_is_judged(about: About, judged: Series) -> Iterator[str]:
    yield metric_in_words(judged.metric, judged.unit, judged.better)
    if judged.is_score and judged.task in about.signatures:
        yield f"It is computed by sacrebleu with the signature {about.signatures[judged.task]}."


def _without_above(section: Section, above: Container[str]) -> Section:
    return replace(section, exhibits=tuple(_without(above, one) for one in section.exhibits))


def _without(above: Container[str], exhibit: Exhibit) -> Exhibit:
    """Return the exhibit without the figures that the top of the page already shows."""

    def left(drawings: Iterable[Drawing]) -> tuple[Drawing, ...]:
        return tuple(one for one in drawings if one.name not in above)

    views = (replace(view, drawings=left(view.drawings)) for view in exhibit.views)
    kept = tuple(view for view in views if view.drawings or view.tables)
    return replace(exhibit, drawings=left(exhibit.drawings), views=kept)


def _narrow(table: ReportTable) -> Iterator[ReportTable]:
    """Yield a table of the first columns, and tables of the others, so that none is cut."""
    for start in range(0, max(1, len(table.columns)), MOST_COLUMNS):
        end = start + MOST_COLUMNS
        part = replace(
            table,
            columns=table.columns[start:end],
            rows=tuple(replace(row, entries=row.entries[start:end]) for row in table.rows),
        )
        number = start // MOST_COLUMNS
        if number:
            part = replace(
                part,
                name=f"{table.name}-more-{number}",
                title=f"{table.title}: more measurements",
                rows=tuple(row for row in part.rows if not row.is_floor),
                footnotes=(),
                has_coverage=False,
            )
        yield part


def _best(table: ReportTable, judged: Series | None) -> tuple[ReportTable, tuple[ReportTable, ...]]:
    """Return the table to show, and the full ranked table to fold if there are many variants.

    The table to show then has the best variants, the baseline and the floors.
    """
    variants = [row for row in table.rows if not row.is_floor]
    if judged is None or not judged.is_score or len(variants) <= MAX_UNRANKED:
        return table, ()
    place = [column.key for column in table.columns].index(judged.metric)
    sign = -1.0 if judged.better == "higher" else 1.0

    def rank(row: Row) -> float:
        point = row.entries[place].estimate.point
        return math.inf if point is None else sign * point

    ranked = sorted(variants, key=rank)
    best = [row for row in ranked if row in ranked[:MOST_BEST] or row.is_baseline]
    floors = [row for row in table.rows if row.is_floor]
    title = f"The best {MOST_BEST} of {len(variants):,} variants"
    return (
        replace(table, name=f"{table.name}-best", title=title, rows=(*best, *floors)),
        (replace(table, title=f"All {len(variants):,} variants", rows=(*ranked, *floors)),),
    )


def _looks(sweep: Sweep, judged: Series | None, above: Container[str]) -> Iterator[Exhibit]:
    """Yield the learning curves of the score, and the score against costs."""
    if judged is None or not judged.is_score:
        return
    about = sweep.about
    of_costs = (
        tradeoff_exhibit(about, sweep.compared, judged, above) if len(about.variants) > 1 else None
    )
    yield from filter(None, (_learning_curves(sweep, judged), of_costs))


def _learning_curves(sweep: Sweep, judged: Series) -> Exhibit | None:
    curves = learning_curves(sweep.about, sweep.curves, judged) if len(sweep.curves) else None
    drawing = curves_figure(sweep.about, curves) if curves else None
    if drawing is None:
        return None
    return Exhibit(title="Learning curves", sentences=(_ONLY_THE_ENDS,), drawings=(drawing,))


def _others(sweep: Sweep, above: Container[str]) -> Iterator[Section]:
    """Yield the other sections, each only if it can have data."""
    about, measured = sweep.about, sweep.compared
    is_known = has_counterpart(about.ablation)
    is_pooled = len(about.tasks) > 1
    together = beside_published_exhibit(about, measured) if is_known and is_pooled else None
    pooled = pooled_exhibit(about, measured) if is_pooled else None
    published = published_exhibit(about, measured) if is_known else None
    for shown in filter(None, (together, pooled, published)):
        is_folded = together is not None and shown is published  # it only adds details by method
        yield Section(title=shown.title, exhibits=(replace(shown, title=""),), is_folded=is_folded)
    yield from sample_sections(about, above)
    if about.costs:
        yield costs_section(about)
    if len(about.editions_with_results) > 1:
        yield editions_section(about)
