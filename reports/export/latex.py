r"""Escapes text for LaTeX: plain ASCII that every engine and encoding typesets.

No package is needed and no input encoding: symbols and accents are written as commands of the
format itself, and what LaTeX cannot typeset (other scripts, emoji) is spelled out, as ``\u9577``.
"""

from __future__ import annotations

import re
import unicodedata

from reports.escape import one_line, spelled_out

_MAX_LENGTH = 400  # characters of a cell; more would not fit on any page
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\texttt{\char34}",
    "`": "{}`{}",
}  # fmt: skip
_TEXT = {
    "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "„": ",,", "…": r"\ldots{}",
    "†": r"\dag{}", "‡": r"\ddag{}", "§": r"\S{}", "¶": r"\P{}", "©": r"\copyright{}",
    "£": r"\pounds{}", "ß": r"\ss{}", "ẞ": "SS", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}",
    "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}",
    "å": r"\aa{}", "Å": r"\AA{}", "¡": "!`", "¿": "?`", "‐": "-", "‑": "-", "½": "1/2", "¼": "1/4",
    "¾": "3/4",
    "«": r"\textless{}\textless{}", "»": r"\textgreater{}\textgreater{}",
}  # fmt: skip
_MATH = {
    "↑": r"\uparrow", "↓": r"\downarrow", "→": r"\rightarrow", "←": r"\leftarrow",
    "↔": r"\leftrightarrow", "⇒": r"\Rightarrow", "−": "-", "×": r"\times", "±": r"\pm",
    "∓": r"\mp", "÷": r"\div", "·": r"\cdot", "°": r"^\circ", "µ": r"\mu", "≤": r"\leq",
    "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "≡": r"\equiv", "∼": r"\sim", "∞": r"\infty",
    "√": r"\surd", "∑": r"\sum", "∏": r"\prod", "∫": r"\int", "∂": r"\partial", "∇": r"\nabla",
    "∈": r"\in", "∅": r"\emptyset", "¬": r"\neg", "∝": r"\propto", "≪": r"\ll", "≫": r"\gg",
    "ϵ": r"\epsilon", "∆": r"\Delta", "ο": "o",
    "Α": r"\mathrm{A}", "Β": r"\mathrm{B}", "Ε": r"\mathrm{E}",
    "Ζ": r"\mathrm{Z}", "Η": r"\mathrm{H}", "Ι": r"\mathrm{I}", "Κ": r"\mathrm{K}",
    "Μ": r"\mathrm{M}", "Ν": r"\mathrm{N}", "Ο": r"\mathrm{O}", "Ρ": r"\mathrm{P}",
    "Τ": r"\mathrm{T}", "Χ": r"\mathrm{X}", "ς": r"\varsigma", "ε": r"\varepsilon",
}  # fmt: skip
_GREEK = frozenset(
    {
        "alpha", "beta", "gamma", "delta", "zeta", "eta", "theta", "iota", "kappa", "lambda",
        "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
        "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
    }
)  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u",
    "\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
    "\u0323": "d", "\u0331": "b",
}  # fmt: skip
_LIGATURE = re.compile(r"([-',])(?=\1)")  # two of them would be typeset as another character


def latex_text(text: str) -> str:
    """Text that LaTeX typesets as it is; also where a row of a table starts with it."""
    shown = unicodedata.normalize("NFC", one_line(text))
    if len(shown) > _MAX_LENGTH:
        shown = f"{shown[:_MAX_LENGTH]}…"
    # A row's end and booktabs' rules take what follows in brackets, or a star, as their option.
    guard = "{}" if shown[:1] in ("[", "*") else ""
    return guard + "".join(map(_character, _LIGATURE.sub("\\1\0", shown)))


def _character(character: str) -> str:
    if character == "\0":  # where a ligature was taken apart; no text holds it
        return "{}"
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character.isascii():
        return character
    if character in _TEXT:
        return _TEXT[character]
    if character in _MATH:
        return f"${_MATH[character]}$"
    return _greek(character) or _script(character) or _accented(character) or _named(character)


def _greek(character: str) -> str:
    """A Greek letter of the mathematical alphabet; else nothing."""
    words = unicodedata.name(character, "").split()
    if words[:1] != ["GREEK"] or words[-2:-1] != ["LETTER"]:
        return ""
    name = words[-1].lower().replace("lamda", "lambda")
    name = name.capitalize() if words[1] == "CAPITAL" else name
    return f"$\\{name}$" if name in _GREEK else ""


def _script(character: str) -> str:
    """A raised or lowered digit or sign; else nothing."""
    kind, _, plain = unicodedata.decomposition(character).partition(" ")
    if kind not in ("<super>", "<sub>"):
        return ""
    letter = "".join(chr(int(code, 16)) for code in plain.split()).replace("−", "-")
    if not (letter.isascii() and letter.isalnum()) and letter not in ("-", "+", "="):
        return ""
    return f"${'^' if kind == '<super>' else '_'}{{\\mathrm{{{letter}}}}}$"


def _accented(character: str) -> str:
    """A Latin letter with one accent; else nothing."""
    parts = unicodedata.normalize("NFD", character)
    if len(parts) != 2 or not (parts[0].isascii() and parts[0].isalpha()):
        return ""
    command = _ACCENTS.get(parts[1], "")
    letter = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0]) if command not in "cdb" else parts[0]
    return f"\\{command}{{{letter}}}" if command else ""


def _named(character: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in spelled_out(character))
