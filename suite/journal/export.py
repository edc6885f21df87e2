"""Convert a sweep of the journal to a file of JSON lines, and back.

The first line holds the plan with the statements of its claim, its editions and their sources; each
other line holds a result, including those of earlier editions. A result's line is the journal's own
JSON, so that it keeps its hash; equal rows give equal bytes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace

from pydantic import TypeAdapter

from bakeoff.models.model_spec import canonical_json, in_present_words
from bakeoff.suite.journal.editions import KeptEdition, Sources, bare_json
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import Statement
from bakeoff.suite.journal.sqlite_schema import Kept, result_json
from bakeoff.suite.schema import Plan, Result
from bakeoff.suite.text import redact

JOURNAL_FILE = "journal.jsonl.gz"

_LEVEL = 6  # compression level of gzip: higher ones take twice the time for 5 % less
_RESULT = TypeAdapter(Result)
_BODY = b',"result":'


class ExportError(ValueError):
    """Raised if the file is damaged, or was written by another version; one sentence."""


@dataclass(frozen=True, kw_only=True)
class SweepExport:
    """The content of one sweep's file."""

    plan: Plan
    statements: tuple[Statement, ...]
    editions: tuple[KeptEdition, ...] = ()
    sources: Sources = field(default_factory=dict)
    results: tuple[Kept, ...] = ()


_SWEEP = TypeAdapter(SweepExport)  # the first line, which holds everything except the results


def exported(
    plan: Plan, journal: Journal, each: Callable[[Iterable[Kept]], Iterable[Kept]] = iter
) -> bytes:
    """Return the file of a journal's sweep; `each` may filter or observe the results."""
    editions = journal.kept_editions(plan)
    kept = each(journal.kept(journal.trials_of_editions(plan)))
    statements = journal.statements(plan.key)
    return packed(plan, statements, kept, editions, journal.sources(editions))


def packed(
    plan: Plan,
    statements: Iterable[Statement],
    results: Iterable[Kept],
    editions: Iterable[KeptEdition] = (),
    sources: Sources | None = None,
) -> bytes:
    """Return the file; it holds neither the location of the user's files nor any password."""
    stated = canonical_json([asdict(statement) for statement in statements])
    head = b'{"plan":%s,"statements":%s' % (_plan_json(plan), stated.encode())
    if listed := b",".join(map(_edition_json, editions)):  # older journals have none
        head += b',"editions":[%s],"sources":%s' % (listed, canonical_json(sources or {}).encode())
    return gzip.compress(b"\n".join([head + b"}", *map(_line, results), b""]), _LEVEL, mtime=0)


def _plan_json(plan: Plan) -> bytes:
    return bare_json(replace(plan, source_paths=()))


def _edition_json(edition: KeptEdition) -> bytes:
    said = canonical_json({**vars(edition), "plan": None}).encode()
    if edition.plan is None:
        return said
    return said.replace(b'"plan":null', b'"plan":' + _plan_json(edition.plan))


def unpacked(body: bytes) -> bytes:
    """Return the file's lines; compare these, because compressed bytes depend on the zlib version.

    Raises:
        ExportError: If it cannot be decompressed.
    """
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ExportError(f"{JOURNAL_FILE} cannot be unpacked: {error}.") from None


def parsed(body: bytes) -> SweepExport:
    """Return the file's content.

    Raises:
        ExportError: If it is not such a file, or was written by another version.
    """
    first, *rest = unpacked(body).splitlines() or [b""]
    try:
        return replace(
            _SWEEP.validate_json(in_present_words(first)), results=tuple(map(_kept, rest))
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(
            f"{JOURNAL_FILE} was written by another version of bakeoff, or is not one of its files "
            f"({type(error).__name__})."
        ) from None


def _line(kept: Kept) -> bytes:
    plain = _without_secrets(kept)
    head = {
        "attempt": plain.attempt,
        "sha256": plain.sha256,
        "started": plain.started_seconds,
        "ended": plain.ended_seconds,
    }
    return canonical_json(head).encode()[:-1] + _BODY + plain.body + b"}"


def _kept(line: bytes) -> Kept:
    head, _, body = line.partition(_BODY)
    found = json.loads(head + b"}")
    return Kept(
        found["attempt"], found["sha256"], found["started"], found["ended"], body.removesuffix(b"}")
    )


def _without_secrets(kept: Kept) -> Kept:
    """Return the result without passwords in its messages; such a result gets a new hash."""
    text = kept.body.decode()
    if redact(text) == text:
        return kept
    result = _RESULT.validate_json(kept.body)
    plain = replace(
        result,
        reason=redact(result.reason),
        traceback=redact(result.traceback),
        output=redact(result.output),
    )
    if plain == result:
        return kept
    return kept._replace(sha256=plain.sha256, body=result_json(plain))
