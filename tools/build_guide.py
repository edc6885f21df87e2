"""Writes the parts of docs/guide.md that the headings and the classes determine; `make catalogue`.

These are the table of contents, and the tables of the fields of an ablation, whose descriptions are
the first sentences of the docstrings. A test compares the committed guide with the output.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from bakeoff import Ablation, Claim, Model, Recipe, Scale
from bakeoff.suite.spec import own_data
from bakeoff.suite.spec.fields import FrozenSpec
from tools.marked_text import replace_between_marks

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide.md"
KINDS: tuple[type[FrozenSpec], ...] = (Ablation, Model, Recipe, Scale, Claim)
_END = re.compile(r"(?<!et al)[.](?=\s+[A-Z0-9`]|$)")  # the end of a sentence
_CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def contents(guide: str) -> str:
    """Return a list of links to the headings of the second level."""
    headings = re.findall(r"^## (.+)$", _CODE_BLOCK.sub("", guide), re.MULTILINE)
    return " ·\n".join(f"[{heading}](#{_anchor(heading)})" for heading in headings)


def fields() -> str:
    """Return a table for each class, with a row for each field that no base class has."""
    return "\n\n".join(f"**`{kind.__name__}`**\n\n{_table(kind)}" for kind in KINDS)


def data() -> str:
    """Return a table for each set of fields that kinds of own data share, or that one has alone."""
    kinds = own_data.KINDS.values()
    bases = dict.fromkeys(base for kind in kinds for base in kind.__mro__[::-1])
    return "\n\n".join(
        f"{_owners(base)}\n\n{_table(base)}"
        for base in bases
        if issubclass(base, own_data.OwnData) and _own_fields(base)
    )


def _owners(base: type[FrozenSpec]) -> str:
    """Return the kinds of own data that have the fields of a class."""
    found = [name for name, kind in own_data.KINDS.items() if issubclass(kind, base)]
    if len(found) == len(own_data.KINDS):
        return "**all**"
    return ", ".join(f"**`{name}`**" for name in found)


def _own_fields(kind: type[FrozenSpec]) -> list[str]:
    """Return the fields that no base class has."""
    inherited = {name for base in kind.__bases__ for name in getattr(base, "model_fields", {})}
    return [name for name in kind.model_fields if name not in inherited]


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub and Python-Markdown give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _table(kind: type[FrozenSpec]) -> str:
    lines = ["| field | default | meaning |", "| :-- | :-- | :-- |"]
    described = dict(_described(kind))
    for name in _own_fields(kind):
        meaning = described[name].replace("|", "\\|").replace("``", "`")
        lines.append(f"| `{name}` | {_default(kind.model_fields[name], meaning)} | {meaning} |")
    return "\n".join(lines)


def _default(field: FieldInfo, meaning: str) -> str:
    """Return the default; a dash if the meaning states it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if "default" in meaning:
        return "–"
    return "`Recipe()`" if isinstance(value, FrozenSpec) else f"`{value!r}`"


def _described(kind: type[FrozenSpec]) -> Iterator[tuple[str, str]]:
    """Yield each field that the docstring describes, with the first sentence about it."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2]
    for name, body in re.findall(r"^    (\w+): (.+(?:\n        .*)*)", text, re.MULTILINE):
        sentence = " ".join(body.split())
        yield name, _END.split(sentence, maxsplit=1)[0] + "."


def build() -> None:
    """Write all parts."""
    replace_between_marks(GUIDE, "data", data())
    replace_between_marks(GUIDE, "fields", fields())
    replace_between_marks(GUIDE, "contents", contents(GUIDE.read_text("utf-8")))


if __name__ == "__main__":
    build()
