"""What do the trained language models write? Each goes on from the same held-out prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.columns import Column, Entry
from reports.section import Exhibit
from reports.shown_variants import shown_variants
from reports.statistics import Estimate
from reports.tables.comparison import Row, Table
from reports.text import one_line, slug
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
