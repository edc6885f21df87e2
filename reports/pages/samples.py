"""Builds the section on what trained models attend to and write; no number here is judged.

The models of the first seed, one a variant, on the first example of the validation data: attention
maps and position matrices, one a head, with summary numbers. Language models continue the same
held-out prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from reports.document import (
    Column,
    Entry,
    Exhibit,
    Section,
    Table,
    View,
    capitalized,
    column_rows,
    listed,
)
from reports.escape import one_line, slug
from reports.plots.heatmaps import (
    COSINE_SHADES,
    WEIGHT_SHADES,
    Panel,
    bias_shades,
    grid_figure,
    one_row_a_layer,
)
from reports.results.matrices import HeadFocus, Matrix, at_distance, head_focus, matrices, of_heads
from reports.results.variant_labels import MAX_SHOWN, shown_name, shown_variants
from reports.stats.intervals import Estimate
from suite.schema import About, Specimen, SpecimenKind

_MOST = 8
_HOW_MADE = (
    "Each model goes on from a prompt of held-out text, drawing every next token from its own "
    "probabilities at temperature 0.8, all with the same dice. A slash stands for a new line."
)


def samples_exhibit(about: About, task: str) -> Exhibit | None:
    """The prompt, and a row a variant; None where nothing was written."""
    of_task = about.specimens[task]
    written = {variant: _text(some, "continuation") for variant, some in of_task.items()}
    chosen = shown_variants(about, {v for v, text in written.items() if text}, _MOST)
    if not chosen:
        return None
    prompts = {_text(of_task[variant], "prompt") for variant in chosen}
    prompt = f"The prompt: “{_verses(*prompts)}”" if len(prompts) == 1 else ""
    return Exhibit(
        title=f"What they write on {task}",
        sentences=tuple(filter(None, (_HOW_MADE, prompt))),
        tables=(_samples_table(about, task, {variant: written[variant] for variant in chosen}),),
    )


def _text(specimens: Sequence[Specimen], title: str) -> str:
    return next((s.text for s in specimens if (s.kind, s.title) == ("text", title)), "")


def _verses(text: str) -> str:
    """On one line, as verses are quoted."""
    return one_line(text.strip("\n").replace("\n", " / "))


def _samples_table(about: About, task: str, written: Mapping[str, str]) -> Table:
    entries = {variant: Entry(text=_verses(text)) for variant, text in written.items()}
    column = Column(key="continuation", title="continuation", entries=entries)
    rows = column_rows((column,), written, baseline=about.baseline)
    return Table(
        name=slug(f"{task}-samples"),
        title=f"What the models of {task} write",
        task=task,
        columns=(column,),
        rows=rows,
    )


_TITLE = "What the trained models look at"
_INTRODUCTION = (
    "The models of the first seed, on the first example of the validation data. This is for "
    "looking: another seed gives other heads, and no verdict rests on it."
)


def specimens_section(about: About) -> Section | None:
    """The pictures and texts of every task; None where there are none."""
    exhibits = tuple(_exhibits(about))
    if not exhibits:
        return None
    return Section(title=_TITLE, sentences=(_INTRODUCTION,), exhibits=exhibits, is_folded=True)


def _exhibits(about: About) -> Iterator[Exhibit]:
    for task in about.tasks:
        if task in about.specimens:
            for made in (attention_exhibit, cosines_exhibit, biases_exhibit, samples_exhibit):
                exhibit = made(about, task)
                if exhibit:
                    yield exhibit


_HOW_TO_READ = (
    "One square a head. A row is a token that looks, a column a token that it looks at, both in "
    "the order of the example; the darker, the more of the row’s weight lies there. The diagonal "
    "is the token itself, the line just below it the token before. Of many heads, layers or "
    "variants some are shown."
)
_FOOTNOTE = "Means over all tokens but the first two, which have hardly anywhere else to look."


def attention_exhibit(about: About, task: str) -> Exhibit | None:
    """A view each of the baseline and a few others; None where no mixer has weights."""
    views = _views(about, task, "attention", _attention_view)
    title = f"Attention maps on {task}"
    return Exhibit(title=title, sentences=(_HOW_TO_READ,), views=views) if views else None


def _views(
    about: About,
    task: str,
    kind: SpecimenKind,
    view: Callable[[About, str, str, Sequence[Matrix]], View],
) -> tuple[View, ...]:
    """A view for each of a few variants whose heads have matrices of that kind."""
    found = {v: of_heads(some, kind) for v, some in about.specimens[task].items()}
    chosen = shown_variants(about, {variant for variant, some in found.items() if some})
    return tuple(view(about, task, variant, found[variant]) for variant in chosen)


def _attention_view(about: About, task: str, variant: str, maps: Sequence[Matrix]) -> View:
    focuses = {matrix.name: head_focus(matrix) for matrix in maps}
    known = {name: found for name, found in focuses.items() if found is not None}
    named = one_line(shown_name(about, variant))
    drawing = grid_figure(
        one_row_a_layer(maps),
        WEIGHT_SHADES,
        name=slug(f"{task}-attention-{variant}"),
        title=f"Attention of {named} on {task}",
        caption=f"The first {_listed_sizes(maps)} tokens of a held-out example. Shades grow with "
        "the square root of the weight.",
        description=_in_words(known) or f"Maps of {len(maps)} heads.",
    )
    tables = (_table(task, variant, known),) if known else ()
    return View(title=named, drawings=(drawing,), tables=tables)


def _listed_sizes(maps: Sequence[Matrix]) -> str:
    """As ``32``, or ``15 (encoder) and 12 (decoder)``."""
    sizes = {matrix.side: len(matrix.values) for matrix in reversed(maps)}
    if set(sizes) == {""}:
        return str(sizes[""])
    return listed([f"{size} ({side})" for side, size in reversed(sizes.items())])


def _in_words(focuses: Mapping[str, HeadFocus]) -> str:
    return " ".join(
        f"{capitalized(name)}: {found.mostly}, {found.distance:.1f} tokens away on "
        f"average, entropy {found.entropy:.1f} of at most {found.most_entropy:.1f} bits."
        for name, found in focuses.items()
    )


def _table(task: str, variant: str, focuses: Mapping[str, HeadFocus]) -> Table:
    """Where the weight of each head lies; the place after only where somebody sees it."""
    places = {
        "itself": "on itself",
        "previous": "on the token before",
        "next": "on the token after",
        "first": "on the first token",
    }
    is_causal = all(found.next is None for found in focuses.values())
    columns = [
        _column(f"weight_on_{key}", title, "%", _values(focuses, key), 0, heads=tuple(focuses))
        for key, title in places.items()
        if key != "next" or not is_causal
    ]
    distances, entropies = _values(focuses, "distance"), _values(focuses, "entropy")
    most = f"of at most {max(_values(focuses, 'most_entropy').values()):.2f}"
    columns.append(_column("distance", "how far away", "tokens", distances, 1, "on average"))
    columns.append(_column("entropy", "entropy", "bit", entropies, 2, most))
    return Table(
        name=slug(f"{task}-attention-{variant}"),
        title=f"Where the heads of {variant} look",
        task=task,
        row_title="head",
        columns=tuple(columns),
        rows=column_rows(columns, focuses),
        footnotes=(_FOOTNOTE,),
    )


def _values(focuses: Mapping[str, HeadFocus], name: str) -> dict[str, float]:
    found = {head: getattr(focus, name) for head, focus in focuses.items()}
    return {head: value for head, value in found.items() if value is not None}


def _column(
    key: str,
    title: str,
    unit: str,
    values: Mapping[str, float],
    digits: int,
    note: str = "",
    heads: Sequence[str] = (),
) -> Column:
    """One number a head, where it has one; of shares the percentage is shown."""
    factor = 100 if unit == "%" else 1
    entries = {
        name: Entry(estimate=Estimate(n=1, point=value), text=f"{factor * value:.{digits}f}")
        for name, value in values.items()
    }
    entries |= {head: Entry(text="unseen", tone="none") for head in heads if head not in values}
    measured = "1" if unit == "%" else unit.removesuffix("s")
    return Column(
        key=key, title=title, measured_unit=measured, unit=unit, note=note, entries=entries
    )


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
        [panels],
        COSINE_SHADES,
        name=slug(f"{task}-positions"),
        title=f"Cosines between positions on {task}",
        caption=f"Of the first {len(panels[0].matrix.values)} places; "
        f"{_how_many(len(panels), len(shared), num_having)}",
        description=" ".join(f"{_falling(panel)}." for panel in panels),
    )
    return Exhibit(
        title=f"The position matrix on {task}", sentences=(_COSINES,), drawings=(drawing,)
    )


def biases_exhibit(about: About, task: str) -> Exhibit | None:
    """Of relative positions that add to scores; a view a variant."""
    views = _views(about, task, "positions", _bias_view)
    title = f"What distance adds to scores on {task}"
    return Exhibit(title=title, sentences=(_BIASES,), views=views) if views else None


def _bias_view(about: About, task: str, variant: str, biases: Sequence[Matrix]) -> View:
    rows = one_row_a_layer(biases)
    panels = [panel for row in rows for panel in row]
    named = one_line(shown_name(about, variant))
    drawing = grid_figure(
        rows,
        bias_shades(panels),
        name=slug(f"{task}-biases-{variant}"),
        title=f"What distance adds to the scores of {named} on {task}",
        caption=f"The first {len(panels[0].matrix.values)} places. A shade means the same number "
        "in all squares; layers that add what the first one adds are left out.",
        description=" ".join(f"{_falling(panel)}." for panel in panels),
    )
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
