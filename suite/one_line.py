"""How foreign text stands in a message: on one line, with what would not print spelt out."""

from __future__ import annotations


def one_line(text: str) -> str:
    r"""The text with line breaks as ``\n`` and, say, a right-to-left override as ``\u202e``."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
