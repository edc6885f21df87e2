"""Escape untrusted text for Markdown, CSV, terminals and file names.

Names and reasons come from users' files and from exceptions. Jinja escapes HTML; the formats that
it does not support (Markdown, spreadsheets, terminals, file names) are escaped here, and LaTeX,
which needs more, in `bakeoff.reports.export.printers`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s]+@")
_SECRET = re.compile(
    r"([?&;](?:password|passwd|pwd|token|secret|api_?key|access_?key)=)[^&;\s#]+", re.IGNORECASE
)
_JOINERS = "‌‍"  # needed to write some scripts, and harmless
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # Unicode categories
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$#!])")
_FORMULA_STARTS = "=+-@＝＋－＠"
_UNSAFE_IN_PATHS = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_SLUG = 80


def without_passwords(text: str) -> str:
    """Return the text with ``scheme://user:password@`` shortened to ``scheme://***@``.

    Passwords in the query, as in ``?token=``, are removed, too.
    """
    if "://" not in text:
        return text
    return _SECRET.sub(r"\1***", _PASSWORD.sub(r"\1***@", text))


def visible(text: str, keep: str = "\n\t\r") -> str:
    r"""Return the text with control and direction-changing characters escaped, as ``\x1b``.

    The other functions here start from it, and it removes passwords in addresses. The control
    characters in `keep` are unchanged.
    """
    shown = without_passwords(text)
    if shown.isascii() and shown.isprintable():
        return shown
    kept = keep + _JOINERS
    return "".join(
        spelled_out(c) if unicodedata.category(c) in _INVISIBLE and c not in kept else c
        for c in shown
    )


def spelled_out(character: str) -> str:
    r"""Return the escape sequence of a character, as ``\x1b`` or ``\u202e``."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """Return the visible text without line breaks."""
    return visible(" ".join(text.split()), keep="")


def paragraphs(text: str) -> tuple[str, ...]:
    """Return the paragraphs that blank lines separate, each as one line."""
    return tuple(filter(None, map(one_line, re.split(r"\n\s*\n", text))))


def markdown_text(text: str) -> str:
    """Return text that Markdown shows unchanged, also in a table: markup and HTML are escaped."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", safe)


def markdown_code(text: str) -> str:
    """Return a fenced code block that the text cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{visible(text, keep=chr(10))}\n{fence}"


def markdown_inline_code(text: str) -> str:
    """Return inline code that the text cannot close."""
    shown = one_line(text)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", shown)), default=0) + 1)
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def csv_text(text: str) -> str:
    """Return text that a spreadsheet shows and never evaluates (CWE-1236)."""
    shown = visible(text)
    is_formula = shown.lstrip()[:1] in tuple(_FORMULA_STARTS) or shown[:1] in ("\t", "\r", "\n")
    return f"'{shown}" if is_formula else shown


def slug(name: str) -> str:
    """Return a file name that stays in its folder; names that had to change end in a hash."""
    safe = _UNSAFE_IN_PATHS.sub("_", name).lstrip(".")[:_MAX_SLUG]
    if safe and safe == name:
        return name
    return f"{safe or 'unnamed'}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"
