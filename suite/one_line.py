"""How foreign text stands in a message: on one line, with what would not print spelt out."""

from __future__ import annotations

MOST_CHARACTERS = 2_000  # of a message: whoever reads it wants its beginning and its end
_OF_THE_END = 400


def one_line(text: str) -> str:
    r"""The text with line breaks as ``\n`` and, say, a right-to-left override as ``\u202e``."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def message(text: str) -> str:
    """The text on one line, without its middle where it is very long."""
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS - _OF_THE_END]} ... {text[-_OF_THE_END:]}"
    return one_line(text)


def words_of(error: BaseException) -> str:
    """As ``KeyError: 'x'``; also of an error that fails to say anything."""
    try:
        said = str(error)
    except Exception:
        said = "(its message cannot be had)"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
