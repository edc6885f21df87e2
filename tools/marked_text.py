"""Writes generated text between two marks of a document, and keeps the prose around it."""

from __future__ import annotations

from pathlib import Path


def replace_between_marks(path: Path, name: str, text: str) -> None:
    """Put `text` between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises:
        ValueError: the document does not hold each mark once, in this order.
    """
    begin, end = _marks(name)
    before, _, after = _parts(path, name)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def add_between_marks(path: Path, name: str, text: str) -> None:
    """Put `text` behind the text that is there.

    Raises:
        ValueError: see `replace_between_marks`.
    """
    kept = _parts(path, name)[1].strip()
    replace_between_marks(path, name, f"{kept}\n\n{text}" if kept else text)


def clear_between_marks(path: Path, name: str) -> None:
    """Leave nothing between the marks.

    Raises:
        ValueError: see `replace_between_marks`.
    """
    begin, end = _marks(name)
    before, _, after = _parts(path, name)
    path.write_text(f"{before}{begin}\n{end}{after}", encoding="utf-8")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def _parts(path: Path, name: str) -> tuple[str, str, str]:
    """Return the text before, between and after the marks."""
    begin, end = _marks(name)
    document = path.read_text(encoding="utf-8")
    before, _, rest = document.partition(begin)
    between, _, after = rest.partition(end)
    if document.count(begin) != 1 or document.count(end) != 1 or end not in rest:
        raise ValueError(f"{path}: needs {begin} and {end}, once each and in this order.")
    return before, between, after
