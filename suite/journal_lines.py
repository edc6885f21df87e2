"""How does a sweep of the journal look as lines of text, and back? Pure.

The first line is the plan with the statements of its claim, every other one a result. A result's
line is the journal's own JSON, so that it keeps its hash; the file is the same bytes whenever it
is made of the same rows.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter

from suite.journal.rows import Kept
from suite.registration import Statement
from suite.schema import Plan, Result, canonical_json
from suite.text import redact

JOURNAL_FILE = "journal.jsonl.gz"

_LEVEL = 6  # of gzip: the next ones take twice the time for a twentieth of the size
_PLAN = TypeAdapter(Plan)
_RESULT = TypeAdapter(Result)
_STATEMENTS = TypeAdapter(tuple[Statement, ...])
_BODY = b',"result":'


class LinesError(ValueError):
    """The file is none of ours, or was written by another version: one sentence."""


@dataclass(frozen=True, kw_only=True)
class SweepLines:
    """What the file of one sweep says."""

    plan: Plan
    statements: tuple[Statement, ...]
    results: tuple[Kept, ...]


def packed(plan: Plan, statements: Iterable[Statement], results: Iterable[Kept]) -> bytes:
    """The file."""
    lines = [_head(plan, statements), *map(_line, results), b""]
    return gzip.compress(b"\n".join(lines), _LEVEL, mtime=0)


def unpacked(body: bytes) -> bytes:
    """The file's lines: what is compared, since another zlib packs them into other bytes.

    Raises:
        LinesError: if it is no such file.
    """
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise LinesError(f"{JOURNAL_FILE} cannot be unpacked: {error}.") from None


def understood(body: bytes) -> SweepLines:
    """What the file says.

    Raises:
        LinesError: if it is no such file, or one of another version.
    """
    head, *rest = unpacked(body).splitlines() or [b""]
    try:
        found = json.loads(head)
        return SweepLines(
            plan=_PLAN.validate_json(json.dumps(found["plan"])),
            statements=_STATEMENTS.validate_json(json.dumps(found["statements"])),
            results=tuple(map(_kept, rest)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LinesError(
            f"{JOURNAL_FILE} was written by another version of bakeoff, or is none of its files "
            f"({type(error).__name__})."
        ) from None


def results_in(lines: SweepLines) -> Iterator[tuple[Result, Kept]]:
    """The results, each with the row that it stands in."""
    for kept in lines.results:
        yield _RESULT.validate_json(kept.body), kept


def _head(plan: Plan, statements: Iterable[Statement]) -> bytes:
    """Without where the user's files lie: that is nobody else's business, and of no use there."""
    bare = replace(plan, about=replace(plan.about, registration=None), source_paths=())
    stated = canonical_json([asdict(statement) for statement in statements])
    return b'{"plan":%s,"statements":%s}' % (_PLAN.dump_json(bare), stated.encode())


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
    """What an exception said may hold a password: such a result is another one, with a new hash."""
    text = kept.body.decode()
    if redact(text) == text:
        return kept
    result = _RESULT.validate_json(kept.body)
    plain = replace(result, reason=redact(result.reason), traceback=redact(result.traceback))
    if plain == result:
        return kept
    return kept._replace(sha256=plain.sha256, body=_RESULT.dump_json(plain))
