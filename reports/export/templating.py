"""Render the Jinja templates: escaping, filters, names of settings, and the script of a page.

The script is inside the page, and the page's Content Security Policy (CSP) allows only its SHA-256.
No other script can run there, whatever text a name or a reason contains.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bakeoff.reports.document import capitalized
from bakeoff.reports.escape import (
    markdown_code,
    markdown_inline_code,
    markdown_text,
    one_line,
    paragraphs,
    slug,
    visible,
)
from bakeoff.reports.export.printers import in_print, to_markdown
from bakeoff.suite.schema import Provenance

_TEMPLATES = Path(__file__).parent / "templates"
_SETTINGS = {
    "dim": "model width (dim)",
    "depth": "layers (depth)",
    "length": "sequence length in tokens (length)",
    "batch": "sequences per batch (batch)",
    "steps": "training steps",
    "warmup_steps": "warm-up steps of the learning rate (warm-up)",
    "num_evaluations": "evaluations during training",
    "cpus": "CPU cores per trial",
    "gpus": "GPUs per trial",
    "dims": "widths of the mixers alone (dims)",
    "lengths": "lengths of the mixers alone",
    "heads": "attention heads",
    "clip_norm": "gradient clipping norm (clip_norm)",
    "ema": "decay of the exponential moving average of the weights (ema)",
    "accumulation": "gradient accumulation steps (accumulation)",
    "runtime": "how training steps are executed (runtime)",
    "start": "pre-training task (start)",
    "pretraining_steps": "pre-training steps",
    "teacher": "teacher model (teacher)",
    "teacher_dim": "width of the teacher",
    "teacher_depth": "layers of the teacher",
    "teacher_steps": "training steps of the teacher",
    "teacher_learning_rate": "learning rate of the teacher",
    "distillation": "kind of distillation (distillation)",
    "distillation_weight": "weight of the distillation loss",
    "distillation_temperature": "distillation temperature",
    "scheduled_sampling": "share of inputs replaced by predictions at the end (scheduled_sampling)",
    "flip": "random horizontal flips (flip)",
    "crop": "padding of random crops, in pixels (crop)",
    "randaugment": "RandAugment magnitude (randaugment)",
    "erasing": "probability of random erasing (erasing)",
    "mixup": "mixup alpha (mixup)",
    "cutmix": "CutMix alpha (cutmix)",
    "adversarial_steps": "adversarial passes per training step (adversarial_steps)",
    "repeated_augmentation": "copies of each image in a batch (repeated_augmentation)",
}


@cache
def html_templates() -> Environment:
    """Return the HTML environment, which spells out control characters and escapes text."""
    made = _environment(finalize=_shown)
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    own = {"script": script, "script_hash": f"sha256-{digest}"}  # in the format of the CSP
    made.globals |= {name: Markup(text) for name, text in own.items()}  # nosec  # B704: our own file
    return made


@cache
def markdown_templates() -> Environment:
    """Return the Markdown environment, which escapes every text for Markdown and HTML."""
    made = _environment(finalize=_shown_in_markdown)
    escaped: dict[str, Callable[[Any], str]] = {
        "table": to_markdown,
        "code": markdown_code,
        "inline_code": markdown_inline_code,
        "html": lambda text: html.escape(one_line(text)),  # within a line that is HTML already
    }
    made.filters |= {name: _whole(escape) for name, escape in escaped.items()}
    return made


def setting_name(name: str) -> str:
    """Return the name of a setting on a page."""
    return _SETTINGS.get(name, name.replace("_", " "))


def setting_value(value: object) -> str:
    """Return the value of a setting in readable form."""
    match value:
        case None:
            return "not set"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def used(made: Provenance) -> str:
    """Describe the resources of one trial, such as ``2 CPUs, 2 threads, 1 GPU``."""
    parts = [(made.num_cpus, "CPU"), (made.num_threads, "thread"), (made.num_gpus, "GPU")]
    return ", ".join(
        f"{number:g} {noun}{'' if number == 1 else 's'}" for number, noun in parts if number
    )


def _environment(finalize: Callable[[object], object]) -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )
    made.filters |= {
        "slug": slug,
        "svg": Markup,
        "used": used,
        "in_print": in_print,
        "setting_name": setting_name,
        "setting_value": setting_value,
        "capital": capitalized,
        "paragraphs": paragraphs,
    }
    return made


def _shown(value: object) -> object:
    return value if isinstance(value, Markup) else visible(str(value))


def _shown_in_markdown(value: object) -> object:
    return value if isinstance(value, Markup) else _whole(markdown_text)(str(value))


def _whole(escape: Callable[[Any], str]) -> Callable[[object], Markup]:
    """Wrap an escaping function, so that its output is not escaped again."""
    return lambda value: Markup(escape(value))  # nosec  # B704: `escape` has made it harmless
