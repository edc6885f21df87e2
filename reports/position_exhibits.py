"""What have the trained models made of places? The position matrices, absolute and relative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.baseline import shown_name
from reports.plots.heatmaps import (
    COSINE_SHADES,
    Panel,
    bias_shades,
    grid_figure,
    one_row_a_layer,
)
from reports.results.matrices import Matrix, at_distance, matrices, of_heads
from reports.section import Exhibit, View
from reports.shown_variants import MAX_SHOWN, shown_variants
from reports.text import one_line, slug
from suite.schema import About

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
        name=slug(f"{task}-positions"), title=f"Cosines between positions on {task}",
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
        views=tuple(_view(about, task, variant, biases) for variant in chosen),
    )  # fmt: skip


def _view(about: About, task: str, variant: str, biases: Mapping[str, Sequence[Matrix]]) -> View:
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
