"""Fits names, values and requests into MLflow's limits. Pure.

MLflow would cut long values silently; here they become a hash, and a file that holds them whole.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PARAM_LIMIT = 6_000  # characters; these limits are in mlflow/utils/validation.py
TAG_LIMIT = 8_000
KEY_LIMIT = 220  # MLflow: 250; the difference is for our prefixes
REQUEST_LIMIT = 500_000  # half of what a server accepts
MAX_ENTITIES = 1_000  # of one request
MAX_PARAMS = MAX_TAGS = 100
_MOST = {"params": MAX_PARAMS, "tags": MAX_TAGS}

_PLAIN = re.compile(r"(?:[/\w.=-]|, )*")


@dataclass(frozen=True)
class MetricRow:
    """One number as MLflow keeps it; sent twice with the same content it is kept once."""

    key: str
    value: float
    timestamp_ms: int
    step: int


@dataclass(frozen=True)
class LogRequest:
    """The content of one request."""

    params: list[tuple[str, str]] = field(default_factory=list)
    rows: list[MetricRow] = field(default_factory=list)
    tags: list[tuple[str, str]] = field(default_factory=list)


def entity_key(text: str) -> str:
    """Turn the text into a valid name: ``heads=4, dim=64`` becomes ``heads:4 dim:64``.

    Where anything else had to change, a hash of the text is added, so that names stay distinct.
    """
    is_plain = _PLAIN.fullmatch(text) is not None and posixpath.normpath(text) == text
    if is_plain and not text.startswith(("/", "..")) and len(text) <= KEY_LIMIT:
        return text.replace("=", ":").replace(", ", " ")
    cut = re.sub(r"[^\w.-]", "_", text.replace("=", "-"))[: KEY_LIMIT - 20]
    return f"{cut}.{_sha256(text)[:8]}"


def shortened(values: Mapping[str, str], limit: int, file: str) -> tuple[dict[str, str], str]:
    """Replace values above the limit by a hash.

    Returns:
        The values, and the content of the file that holds the long ones whole; it is empty where
        all values fit.
    """
    long = {name: value for name, value in values.items() if len(value) > limit}
    hashed = {
        name: f"sha256:{_sha256(value)} ({len(value)} characters, whole in {file})"
        for name, value in long.items()
    }
    body = json.dumps(long, indent=1, sort_keys=True, ensure_ascii=False) if long else ""
    return {**values, **hashed}, body


def requests_for(
    params: Mapping[str, str], rows: Sequence[MetricRow], tags: Mapping[str, str]
) -> list[LogRequest]:
    """Split into as few requests as a server accepts, in this order, the last tag in the last."""
    kinds: dict[str, Iterable[MetricRow | tuple[str, str]]] = {
        "params": params.items(), "rows": rows, "tags": tags.items(),
    }  # fmt: skip
    requests: list[LogRequest] = []
    num_bytes, held = 0, Counter[str]()  # of the last request
    for kind, entities in kinds.items():
        for entity in entities:
            size = len(json.dumps(str(entity))) + 50  # an estimate; JSON escapes count
            is_full = held.total() == MAX_ENTITIES or held[kind] == _MOST.get(kind)
            if not requests or is_full or num_bytes + size > REQUEST_LIMIT:
                requests.append(LogRequest())
                num_bytes, held = 0, Counter()
            getattr(requests[-1], kind).append(entity)
            num_bytes += size
            held[kind] += 1
    return requests


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
