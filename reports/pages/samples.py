"""The section that shows what trained models attend to and write; no number here is judged.

The models of the first seed, one a variant, on the first example of the validation data. Language
models continue the same held-out prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reports.document import Column, Entry, Exhibit, Row, Section, Table
from reports.escape import one_line, slug
from reports.pages.attention_maps import attention_exhibit, biases_exhibit, cosines_exhibit
from reports.results.variant_labels import shown_variants
from reports.stats.intervals import Estimate
from suite.schema import About, Specimen

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
        title=f"What they write on {task}", sentences=tuple(filter(None, (_HOW_MADE, prompt))),
        tables=(_table(about, task, {variant: written[variant] for variant in chosen}),),
    )  # fmt: skip


def _text(specimens: Sequence[Specimen], title: str) -> str:
    return next((s.text for s in specimens if (s.kind, s.title) == ("text", title)), "")


def _verses(text: str) -> str:
    """On one line, as verses are quoted."""
    return one_line(text.strip("\n").replace("\n", " / "))


def _table(about: About, task: str, written: Mapping[str, str]) -> Table:
    entries = {
        variant: Entry(estimate=Estimate(n=0), text=_verses(text))
        for variant, text in written.items()
    }
    column = Column(
        key="continuation", title="continuation", measured_unit="", unit="", arrow="", note="",
        entries=entries,
    )  # fmt: skip
    rows = [Row(name=v, entries=(entries[v],), is_baseline=v == about.baseline) for v in written]
    return Table(
        name=slug(f"{task}-samples"), title=f"What the models of {task} write", task=task,
        columns=(column,), rows=tuple(rows),
    )  # fmt: skip


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
    return Section(title=_TITLE, sentences=(_INTRODUCTION,), exhibits=exhibits)


def _exhibits(about: About) -> Iterator[Exhibit]:
    for task in about.tasks:
        if task in about.specimens:
            for made in (attention_exhibit, cosines_exhibit, biases_exhibit, samples_exhibit):
                exhibit = made(about, task)
                if exhibit:
                    yield exhibit
