"""Exhibits of attention maps and position matrices: one map a head, with summary numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.document import Column, Entry, Exhibit, Row, Table, View
from reports.escape import one_line, slug
from reports.plots.heatmaps import (
    COSINE_SHADES,
    WEIGHT_SHADES,
    Panel,
    bias_shades,
    grid_figure,
    one_row_a_layer,
)
from reports.results.matrices import Gaze, Matrix, at_distance, gaze, matrices, of_heads
from reports.results.variant_labels import MAX_SHOWN, shown_name, shown_variants
from reports.stats.intervals import Estimate
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
        name=slug(f"{task}-attention-{variant}"),
        title=f"Attention of {named} on {task}",
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


_COSINES = (
    "How alike the vectors are by which a model knows two places, one as row, one as column: dark "
    "blue where they point in the same direction, white where they have nothing in common, brown "
    "where they are opposed."
)
_BIASES = (
    "What each head adds to the score of one token (column) for another (row) because of their "
    "distance, whatever the tokens are. A causal model uses what lies on and below the diagonal."
)


def cosines_exhibit(about: About, task: str) -> Exhibit | None:
    """Of absolute positions; matrices that several variants share stand there once."""
    shared = _shared(about, task)
    if not shared:
        return None
    num_having = sum(len(variants) for _, variants in shared)
    panels = [
        Panel(title=_names(variants, num_having), matrix=matrix)
        for matrix, variants in shared[:MAX_SHOWN]
    ]
    drawing = grid_figure(
        [panels], COSINE_SHADES,
        name=slug(f"{task}-positions"),
        title=f"Cosines between positions on {task}",
        caption=f"Of the first {len(panels[0].matrix.values)} places; "
        f"{_how_many(len(panels), len(shared), num_having)}",
        description=" ".join(f"{_falling(panel)}." for panel in panels),
    )  # fmt: skip
    return Exhibit(
        title=f"The position matrix on {task}", sentences=(_COSINES,), drawings=(drawing,)
    )


def biases_exhibit(about: About, task: str) -> Exhibit | None:
    """Of relative positions that add to scores; a view a variant."""
    biases = {v: of_heads(some, "positions") for v, some in about.specimens[task].items()}
    chosen = shown_variants(about, {variant for variant, found in biases.items() if found})
    if not chosen:
        return None
    return Exhibit(
        title=f"What distance adds to scores on {task}", sentences=(_BIASES,),
        views=tuple(_bias_view(about, task, variant, biases) for variant in chosen),
    )  # fmt: skip


def _bias_view(
    about: About, task: str, variant: str, biases: Mapping[str, Sequence[Matrix]]
) -> View:
    rows = one_row_a_layer(biases[variant])
    panels = [panel for row in rows for panel in row]
    named = one_line(shown_name(about, variant))
    drawing = grid_figure(
        rows, bias_shades(panels),
        name=slug(f"{task}-biases-{variant}"),
        title=f"What distance adds to the scores of {named} on {task}",
        caption=f"The first {len(panels[0].matrix.values)} places. A shade means the same number "
        "in all squares; layers that add what the first one adds are left out.",
        description=" ".join(f"{_falling(panel)}." for panel in panels),
    )  # fmt: skip
    return View(title=named, drawings=(drawing,))


def _shared(about: About, task: str) -> list[tuple[Matrix, list[str]]]:
    """Each matrix with the variants that have it, in the order of the table."""
    found: dict[bytes, tuple[Matrix, list[str]]] = {}
    of_task = about.specimens[task]
    for variant in (v for v in about.variants if v in of_task):
        for matrix in matrices(of_task[variant], "positions"):
            if not matrix.layer:
                key = matrix.values.tobytes()
                found.setdefault(key, (matrix, []))[1].append(variant)
    return list(found.values())


def _names(variants: Sequence[str], num_having: int) -> str:
    """Whose matrix it is."""
    if len(variants) == 1:
        return variants[0]
    if len(variants) == num_having:
        return "all variants"
    return f"{variants[0]} and {len(variants) - 1} more"


def _how_many(num_drawn: int, num_distinct: int, num_having: int) -> str:
    if num_drawn < num_distinct:
        return f"drawn are {num_drawn} of {num_distinct} matrices that differ."
    if num_distinct == 1 and num_having > 1:
        return f"the same in all {num_having} variants that have one."
    return "variants that share a matrix stand over it together."


def _falling(panel: Panel) -> str:
    """How a matrix changes with the distance, in words."""
    size = len(panel.matrix.values)
    places = [distance for distance in (0, 1, 4, 16, 32) if distance < size]
    parts = [f"{at_distance(panel.matrix, place):.2g} at distance {place}" for place in places]
    return f"{one_line(panel.title)}: {', '.join(parts)}"
