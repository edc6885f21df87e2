"""Test that generated text replaces the part between its marks and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.marked_text import add_between_marks, clear_between_marks, replace_between_marks

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- x: begin -->", "<!-- x: end -->"


def test_text_is_replaced_between_the_marks(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for text in ("new", "newer"):
        replace_between_marks(document, "x", text)
        assert document.read_text() == f"before\n{BEGIN}\n\n{text}\n\n{END}\nafter\n"


def test_text_is_added_behind_what_is_there_until_it_is_cleared(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    for text in ("first", "second"):
        add_between_marks(document, "x", text)
    assert document.read_text() == f"before\n{BEGIN}\n\nfirst\n\nsecond\n\n{END}\nafter\n"
    clear_between_marks(document, "x")
    assert document.read_text() == f"before\n{BEGIN}\n{END}\nafter\n"


@pytest.mark.parametrize("text", ["nothing", f"{END} {BEGIN}", BEGIN, f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_document_without_its_marks_is_refused(tmp_path: Path, text: str) -> None:
    document = tmp_path / "document.md"
    document.write_text(text)
    with pytest.raises(ValueError, match="needs <!-- x: begin -->"):
        replace_between_marks(document, "x", "new")
    assert document.read_text() == text


@pytest.mark.parametrize(
    ("name", "mark"),
    [("reliability", "chaos"), ("benchmarks", "measured"), ("benchmarks", "measured later")],
)
def test_the_documents_of_the_repository_have_their_marks(
    name: str, mark: str, tmp_path: Path
) -> None:
    copy = tmp_path / f"{name}.md"
    copy.write_text((ROOT / "docs" / f"{name}.md").read_text())
    replace_between_marks(copy, mark, "new")
    assert "\n\nnew\n\n" in copy.read_text()
