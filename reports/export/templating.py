"""Renders the Jinja templates: escaping, filters, and the script of a page.

The script stands inside the page, and the page's policy (CSP) names it by its SHA-256: no other
script can run there, whatever a name or a reason holds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports.escape import (
    markdown_code,
    markdown_inline_code,
    markdown_text,
    paragraphs,
    slug,
    visible,
)
from reports.export.printers import in_print, to_markdown
from reports.pages.ablation import used
from reports.pages.glossary import setting_name, setting_value
from reports.plots.style import capitalized

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def html_templates() -> Environment:
    """HTML: autoescape, and every text made visible before it is escaped."""
    made = _environment(finalize=_shown)
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    own = {"script": script, "script_hash": _hash(script)}
    made.globals |= {name: Markup(text) for name, text in own.items()}  # nosec  # B704: our own file
    return made


@cache
def markdown_templates() -> Environment:
    """Markdown: every text escaped for Markdown (HTML included) before it is printed."""
    made = _environment(finalize=_shown_in_markdown)
    escaped: dict[str, Callable[[Any], str]] = {
        "table": to_markdown,
        "code": markdown_code,
        "inline_code": markdown_inline_code,
    }
    made.filters |= {name: _whole(escape) for name, escape in escaped.items()}
    return made


def _hash(script: str) -> str:
    """As a Content-Security-Policy names a script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _environment(finalize: Callable[[object], object]) -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=finalize,
    )  # fmt: skip
    made.filters |= {
        "slug": slug, "svg": Markup, "used": used, "in_print": in_print,
        "setting_name": setting_name, "setting_value": setting_value, "capital": capitalized,
        "paragraphs": paragraphs,
    }  # fmt: skip
    return made


def _shown(value: object) -> object:
    return value if isinstance(value, Markup) else visible(str(value))


def _shown_in_markdown(value: object) -> object:
    return value if isinstance(value, Markup) else _whole(markdown_text)(str(value))


def _whole(escape: Callable[[Any], str]) -> Callable[[object], Markup]:
    """What the function has escaped is not escaped again."""
    return lambda value: Markup(escape(value))  # nosec  # B704: `escape` has made it harmless
