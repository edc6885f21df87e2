"""Where does each head of the trained models look? A map a head, and in numbers what it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.baseline import shown_name
from reports.columns import Column, Entry
from reports.plots.heatmaps import WEIGHT_SHADES, grid_figure, one_row_a_layer
from reports.results.matrices import Gaze, Matrix, gaze, of_heads
from reports.section import Exhibit, View
from reports.shown_variants import shown_variants
from reports.statistics import Estimate
from reports.tables.comparison import Row, Table
from reports.text import one_line, slug
from suite.schema import About

_HOW_TO_READ = (
    "One square a head. A row is a token that looks, a column a token that it looks at, both in "
    "the order of the example; the darker, the more of the row’s weight lies there. The diagonal "
    "is the token itself, the line just below it the token before. Of many heads, layers or "
    "variants some are shown."
)
_FOOTNOTE = "Means over all tokens but the first two, which have hardly anywhere else to look."


def attention_exhibit(about: About, task: str) -> Exhibit | None:
    """A view each of the baseline and a few others; None where no mixer has weights."""
    maps = {v: of_heads(some, "attention") for v, some in about.specimens[task].items()}
    chosen = shown_variants(about, {variant for variant, found in maps.items() if found})
    if not chosen:
        return None
    return Exhibit(
        title=f"Attention maps on {task}", sentences=(_HOW_TO_READ,),
        views=tuple(_view(about, task, variant, maps[variant]) for variant in chosen),
    )  # fmt: skip


def _view(about: About, task: str, variant: str, maps: Sequence[Matrix]) -> View:
    gazes = {matrix.name: gaze(matrix) for matrix in maps}
    known = {name: found for name, found in gazes.items() if found is not None}
    named = one_line(shown_name(about, variant))
    drawing = grid_figure(
        one_row_a_layer(maps), WEIGHT_SHADES,
        name=slug(f"{task}-attention-{variant}"), title=f"Attention of {named} on {task}",
        caption=f"The first {len(maps[0].values)} tokens of a held-out example. Shades grow with "
        "the square root of the weight.",
        description=_in_words(known) or f"Maps of {len(maps)} heads.",
    )  # fmt: skip
    tables = (_table(task, variant, known),) if known else ()
    return View(title=named, drawings=(drawing,), tables=tables)


def _in_words(gazes: Mapping[str, Gaze]) -> str:
    return " ".join(
        f"{name[:1].upper()}{name[1:]}: {found.mostly}, {found.distance:.1f} tokens away on "
        f"average, entropy {found.entropy:.1f} of at most {found.most_entropy:.1f} bits."
        for name, found in gazes.items()
    )


def _table(task: str, variant: str, gazes: Mapping[str, Gaze]) -> Table:
    """Where the weight of each head lies; the place after only where somebody sees it."""
    columns = [
        _share("itself", "on itself", {n: g.itself for n, g in gazes.items()}),
        _share("previous", "on the token before", {n: g.previous for n, g in gazes.items()}),
        _share("first", "on the first token", {n: g.first for n, g in gazes.items()}),
        _distance({n: g.distance for n, g in gazes.items()}),
        _entropy(gazes),
    ]
    nexts = {name: found.next for name, found in gazes.items() if found.next is not None}
    if len(nexts) == len(gazes):
        columns.insert(2, _share("next", "on the token after", nexts))
    rows = [Row(name=name, entries=tuple(c.entries[name] for c in columns)) for name in gazes]
    return Table(
        name=slug(f"{task}-attention-{variant}"), title=f"Where the heads of {variant} look",
        task=task, row_title="head", columns=tuple(columns), rows=tuple(rows),
        footnotes=(_FOOTNOTE,),
    )  # fmt: skip


def _share(key: str, title: str, shares: Mapping[str, float]) -> Column:
    entries = {
        name: Entry(estimate=Estimate(n=1, point=share), text=f"{100 * share:.0f}")
        for name, share in shares.items()
    }
    return Column(
        key=f"weight_on_{key}", title=title, measured_unit="1", unit="%", arrow="", note="",
        entries=entries,
    )  # fmt: skip


def _distance(distances: Mapping[str, float]) -> Column:
    entries = {
        name: Entry(estimate=Estimate(n=1, point=distance), text=f"{distance:.1f}")
        for name, distance in distances.items()
    }
    return Column(
        key="distance", title="how far away", measured_unit="token", unit="tokens", arrow="",
        note="on average", entries=entries,
    )  # fmt: skip


def _entropy(gazes: Mapping[str, Gaze]) -> Column:
    entries = {
        name: Entry(estimate=Estimate(n=1, point=found.entropy), text=f"{found.entropy:.2f}")
        for name, found in gazes.items()
    }
    most = max(found.most_entropy for found in gazes.values())
    return Column(
        key="entropy", title="entropy", measured_unit="bit", unit="bit", arrow="",
        note=f"of at most {most:.2f}", entries=entries,
    )  # fmt: skip
