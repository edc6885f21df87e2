"""Converts a sweep of the journal to a file of lines, and back.

The first line is the plan with the statements of its claim, every other one a result. A result's
line is the journal's own JSON, so that it keeps its hash; the same rows give the same bytes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter

from models.model_spec import canonical_json
from suite.journal.plans import Statement
from suite.journal.sqlite_schema import Kept
from suite.schema import Plan, Result
from suite.text import redact

JOURNAL_FILE = "journal.jsonl.gz"

_LEVEL = 6  # of gzip: the next ones take twice the time for a twentieth of the size
_PLAN = TypeAdapter(Plan)
_RESULT = TypeAdapter(Result)
_BODY = b',"result":'


class ExportError(ValueError):
    """The file is damaged, or was written by another version: one sentence."""


@dataclass(frozen=True, kw_only=True)
class SweepExport:
    """The content of one sweep's file."""

    plan: Plan
    statements: tuple[Statement, ...]
    results: tuple[Kept, ...] = ()


_SWEEP = TypeAdapter(SweepExport)  # of the first line, which is all but the results


def packed(plan: Plan, statements: Iterable[Statement], results: Iterable[Kept]) -> bytes:
    """The file. It says nothing of where the user's files lie, and holds no password."""
    bare = replace(plan, about=replace(plan.about, registration=None), source_paths=())
    stated = canonical_json([asdict(statement) for statement in statements])
    head = b'{"plan":%s,"statements":%s}' % (_PLAN.dump_json(bare), stated.encode())
    return gzip.compress(b"\n".join([head, *map(_line, results), b""]), _LEVEL, mtime=0)


def unpacked(body: bytes) -> bytes:
    """The file's lines; compare these, since another zlib packs them into other bytes.

    Raises:
        ExportError: if it cannot be unpacked.
    """
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ExportError(f"{JOURNAL_FILE} cannot be unpacked: {error}.") from None


def parsed(body: bytes) -> SweepExport:
    """The file's content.

    Raises:
        ExportError: if it is no such file, or one of another version.
    """
    first, *rest = unpacked(body).splitlines() or [b""]
    try:
        return replace(_SWEEP.validate_json(first), results=tuple(map(_kept, rest)))
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(
            f"{JOURNAL_FILE} was written by another version of bakeoff, or is none of its files "
            f"({type(error).__name__})."
        ) from None


def _line(kept: Kept) -> bytes:
    plain = _without_secrets(kept)
    head = {"attempt": plain.attempt, "sha256": plain.sha256, "started": plain.started_seconds,
            "ended": plain.ended_seconds}  # fmt: skip
    return canonical_json(head).encode()[:-1] + _BODY + plain.body + b"}"


def _kept(line: bytes) -> Kept:
    head, _, body = line.partition(_BODY)
    found = json.loads(head + b"}")
    return Kept(
        found["attempt"], found["sha256"], found["started"], found["ended"], body.removesuffix(b"}")
    )


def _without_secrets(kept: Kept) -> Kept:
    """Without passwords that an exception named; such a result gets a new hash."""
    text = kept.body.decode()
    if redact(text) == text:
        return kept
    result = _RESULT.validate_json(kept.body)
    plain = replace(
        result, reason=redact(result.reason), traceback=redact(result.traceback),
        output=redact(result.output),
    )  # fmt: skip
    if plain == result:
        return kept
    return kept._replace(sha256=plain.sha256, body=_RESULT.dump_json(plain))
