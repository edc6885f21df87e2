"""Does it fit into MLflow? Names, lengths and requests that its store accepts whole. Pure.

MLflow would cut long values silently; here they become a hash, and a file that holds them whole.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

PARAM_LIMIT = 6_000  # characters; these limits stand in mlflow/utils/validation.py
TAG_LIMIT = 8_000
KEY_LIMIT = 220  # MLflow: 250; the difference is for our prefixes
REQUEST_LIMIT = 500_000  # half of what a server accepts
MOST_PARTS = 1_000
MOST_OTHERS = 100  # parameters, and tags, of one request

_PLAIN = re.compile(r"(?:[/\w.=-]|, )*")

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class MetricRow:
    """One number as MLflow keeps it; sent twice with the same content it is kept once."""

    key: str
    value: float
    timestamp_ms: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one request carries."""

    params: dict[str, str] = field(default_factory=dict)
    rows: list[MetricRow] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)


def entity_key(text: str) -> str:
    """The text as a name that MLflow accepts: ``heads=4, dim=64`` becomes ``heads:4 dim:64``.

    Where anything else had to change, a hash of the text is added, so that no two fall together.
    """
    is_plain = _PLAIN.fullmatch(text) is not None and posixpath.normpath(text) == text
    if is_plain and not text.startswith(("/", "..")) and len(text) <= KEY_LIMIT:
        return text.replace("=", ":").replace(", ", " ")
    cut = re.sub(r"[^\w.-]", "_", text.replace("=", "-"))[: KEY_LIMIT - 20]
    return f"{cut}.{_sha256(text)[:8]}"


def shortened(values: Mapping[str, str], limit: int, file: str) -> tuple[dict[str, str], str]:
    """The values, those above the limit as a hash; and the body of the file that holds them whole.

    The body is empty where all values fit.
    """
    long = {name: value for name, value in values.items() if len(value) > limit}
    hashed = {
        name: f"sha256:{_sha256(value)} ({len(value)} characters, whole in {file})"
        for name, value in long.items()
    }
    body = json.dumps(long, indent=1, sort_keys=True, ensure_ascii=False) if long else ""
    return {**values, **hashed}, body


def batches(
    params: Mapping[str, str], rows: Sequence[MetricRow], tags: Mapping[str, str]
) -> list[Batch]:
    """Requests that a server accepts: one where possible, else in this order, tags last."""
    weight = sum(map(_weight, (*params.items(), *rows, *tags.items())))
    num_parts = len(params) + len(rows) + len(tags)
    fits = max(len(params), len(tags)) <= MOST_OTHERS and num_parts <= MOST_PARTS
    if fits and weight <= REQUEST_LIMIT:
        return [Batch(params=dict(params), rows=list(rows), tags=dict(tags))] if num_parts else []
    return [
        *(Batch(params=dict(chunk)) for chunk in _chunks(params.items(), MOST_OTHERS)),
        *(Batch(rows=chunk) for chunk in _chunks(rows, MOST_PARTS)),
        *(Batch(tags=dict(chunk)) for chunk in _chunks(tags.items(), MOST_OTHERS)),
    ]


def _chunks(parts: Iterable[_Part], most: int) -> Iterator[list[_Part]]:
    chunk: list[_Part] = []
    size = 0
    for part in parts:
        weight = _weight(part)
        if chunk and (len(chunk) == most or size + weight > REQUEST_LIMIT):
            yield chunk
            chunk, size = [], 0
        chunk.append(part)
        size += weight
    if chunk:
        yield chunk


def _weight(part: object) -> int:
    """Bytes of the part in a request, roughly; JSON escapes count."""
    return len(json.dumps(str(part))) + 50


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
