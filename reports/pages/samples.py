"""Build the sections on what trained models attend to, write, and draw.

For each variant, the model of the first seed is shown. No number in these sections is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from bakeoff.reports.document import (
    Column,
    Drawing,
    Entry,
    Exhibit,
    Section,
    Table,
    View,
    capitalized,
    column_rows,
    listed,
)
from bakeoff.reports.escape import one_line, slug
from bakeoff.reports.pages.pictures import DRAWN, SEEN, WRITTEN, Makers
from bakeoff.reports.pages.translations import alignments_exhibit, translations_exhibit
from bakeoff.reports.plots.heatmaps import (
    COSINE_SHADES,
    WEIGHT_SHADES,
    Panel,
    bias_shades,
    grid_figure,
    one_row_a_layer,
)
from bakeoff.reports.results.samples import (
    HeadFocus,
    Matrix,
    at_distance,
    head_focus,
    matrices,
    of_heads,
    of_variants,
    texts,
)
from bakeoff.reports.results.variant_labels import MAX_SHOWN, shown_name
from bakeoff.reports.stats.intervals import Estimate
from bakeoff.suite.schema import About, Sample, SampleKind

Maker = Callable[[About, str], Iterator[Exhibit]]

_MOST = 8
_HOW_MADE = (
    "Each model goes on from a prompt of held-out text, drawing every next token from its own "
    "probabilities at temperature 0.8, all with the same dice. A slash stands for a new line."
)


def _continuations(about: About, task: str) -> Iterator[Exhibit]:
    """Yield an exhibit with the prompt, and a row for each variant with its continuation."""

    def found_in(some: Sequence[Sample]) -> dict[str, str]:
        found = {title: each.text for title, each in texts(some, "text").items()}
        return found if found.get("continuation") else {}

    found, _ = of_variants(about, task, found_in, _MOST)
    if not found:
        return
    prompts = {some.get("prompt", "") for some in found.values()}
    prompt = f"The prompt: “{_verses(*prompts)}”" if len(prompts) == 1 else ""
    written = {variant: some["continuation"] for variant, some in found.items()}
    yield Exhibit(
        title=f"What they write on {task}",
        sentences=tuple(filter(None, (_HOW_MADE, prompt))),
        tables=(_samples_table(about, task, written),),
    )


def _verses(text: str) -> str:
    """Return the text on one line, with slashes for line breaks, as verses are quoted."""
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


_HOW_TO_READ = (
    "One square a head. A row is a token that looks, a column a token that it looks at, both in "
    "the order of the example; the darker, the more of the row’s weight lies there. The diagonal "
    "is the token itself, the line just below it the token before. Of many heads, layers or "
    "variants some are shown."
)
_FOOTNOTE = "Means over all tokens but the first two, which have hardly anywhere else to look."


def _attention(about: About, task: str) -> Iterator[Exhibit]:
    """Yield an exhibit with views of the baseline and a few other variants that have weights."""
    if views := _views(about, task, "attention", _attention_view):
        title = f"Attention maps on {task}"
        yield Exhibit(title=title, sentences=(_HOW_TO_READ,), views=views)


def _views(
    about: About,
    task: str,
    kind: SampleKind,
    view: Callable[[About, str, str, Sequence[Matrix]], View],
) -> tuple[View, ...]:
    """Return a view for each of a few variants whose heads have matrices of that kind."""
    found, _ = of_variants(about, task, partial(of_heads, kind=kind))
    return tuple(view(about, task, variant, some) for variant, some in found.items())


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
    """Return the sizes, such as ``32``, or ``15 (encoder) and 12 (decoder)``."""
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
    """Return each head's weights, with a column for the next token only if any attends to it."""
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
    """Return a column with a number for each head that has one; shares become percentages."""
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


def _cosines(about: About, task: str) -> Iterator[Exhibit]:
    """Yield an exhibit of cosines of absolute positions; matrices that are equal appear once."""
    shared = _shared(about, task)
    if not shared:
        return
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
    title = f"The position matrix on {task}"
    yield Exhibit(title=title, sentences=(_COSINES,), drawings=(drawing,))


def _biases(about: About, task: str) -> Iterator[Exhibit]:
    """Yield an exhibit with views of a few variants whose relative positions add to scores."""
    if views := _views(about, task, "positions", _bias_view):
        title = f"What distance adds to scores on {task}"
        yield Exhibit(title=title, sentences=(_BIASES,), views=views)


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
    """Return each matrix with the variants that have it, in the order of the table."""
    found: dict[bytes, tuple[Matrix, list[str]]] = {}
    of_task = about.samples[task]
    for variant in (v for v in about.variants if v in of_task):
        for matrix in matrices(of_task[variant], "positions"):
            if not matrix.layer:
                key = matrix.values.tobytes()
                found.setdefault(key, (matrix, []))[1].append(variant)
    return list(found.values())


def _names(variants: Sequence[str], num_having: int) -> str:
    """Return a short name for the variants that share a matrix."""
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
    """Describe how a matrix changes with the distance."""
    size = len(panel.matrix.values)
    places = [distance for distance in (0, 1, 4, 16, 32) if distance < size]
    parts = [f"{at_distance(panel.matrix, place):.2g} at distance {place}" for place in places]
    return f"{one_line(panel.title)}: {', '.join(parts)}"


def _drawn(makers: Makers) -> tuple[Maker, ...]:
    """Return makers of exhibits with one drawing each."""

    def exhibits(
        make: Callable[[About, str], Iterator[Drawing]], about: About, task: str
    ) -> Iterator[Exhibit]:
        for drawing in make(about, task):
            yield Exhibit(title=drawing.title, drawings=(drawing,))

    return tuple(partial(exhibits, make) for make in makers.values())


# The title and the introduction of each section, and the makers of its exhibits.
_SECTIONS: tuple[tuple[str, str, tuple[Maker, ...]], ...] = (
    (
        "What the models see in an image",
        "The models of the first seed. This is for looking: another seed gives other pictures, and "
        "no verdict rests on them.",
        _drawn(SEEN),
    ),
    (
        "What the trained models write about pictures",
        "The models of the first seed, on pictures of the validation data that are chosen by rule. "
        "This is for looking: another seed writes other captions, and no verdict rests on them.",
        _drawn(WRITTEN),
    ),
    (
        "What the trained models draw",
        "The models of the first seed, on validation data that are chosen by rule. This is for "
        "looking: another seed draws other pictures, and no verdict rests on them.",
        _drawn(DRAWN),
    ),
    (
        "What the trained models write",
        "The models of the first seed on examples of the validation data, which are chosen by rule "
        "and not by what a model wrote. This is for looking: no verdict rests on it.",
        (translations_exhibit, alignments_exhibit),
    ),
    (
        "What the trained models look at",
        "The models of the first seed, on the first example of the validation data. This is for "
        "looking: another seed gives other heads, and no verdict rests on it.",
        (_attention, _cosines, _biases, _continuations),
    ),
)


def sample_sections(about: About, opening: Drawing | None = None) -> Iterator[Section]:
    """Yield the sections on samples, without the drawing at the top of the page."""
    shown = opening.name if opening else ""
    tasks = [task for task in about.tasks if task in about.samples]
    for title, introduction, makers in _SECTIONS:
        exhibits = tuple(
            exhibit
            for task in tasks
            for make in makers
            for exhibit in make(about, task)
            if all(drawing.name != shown for drawing in exhibit.drawings)
        )
        if exhibits:
            yield Section(
                title=title,
                sentences=(introduction,),
                exhibits=exhibits,
                is_folded=_attention in makers,
            )
