"""Replaces generated text between two marks of a document, and keeps the prose around it."""

from __future__ import annotations

from pathlib import Path


def replace_between_marks(path: Path, name: str, text: str) -> None:
    """Put `text` between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises:
        ValueError: the document does not hold each mark once, in this order.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    document = path.read_text(encoding="utf-8")
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    if document.count(begin) != 1 or document.count(end) != 1 or end not in rest:
        raise ValueError(f"{path}: needs {begin} and {end}, once each and in this order.")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
