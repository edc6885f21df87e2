"""Compare published speed and memory with measured ones, at the same length.

Both are shown as ratios to the Transformer of the same table, since seconds of two machines are not
comparable. Strictly, ratios are not comparable either: each row gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bakeoff.reports.analysis.time_comparison import compare
from bakeoff.reports.document import NO_ENTRY, Column, Entry, ReportTable, column_rows
from bakeoff.reports.literature.csv import CONDITIONS, rows_of
from bakeoff.reports.results.length_sweep import Growth, find, is_written_out
from bakeoff.reports.stats.intervals import Estimate, as_interval, as_ratio
from bakeoff.suite.schema import MIXER_ALONE, About

_FILES = ("lra_speed.csv", "linformer.csv", "fnet.csv")
_REFERENCE = "Transformer"  # its row is the denominator of the ratios of a table
_RATES, _RATIOS = ("steps_per_second",), ("speedup", "memory_saving")
_OF_MEMORY = ("peak_memory", "memory_saving")
_LINEAR_IN_K = "n * k * d"  # the time formula of a mixer whose k follows from its operations
INTRODUCTION = (
    "This table compares the published speed-up and memory reduction relative to a Transformer "
    "with those measured here, on the mixers alone and at the same length. The papers predate "
    "fused kernels, so the written-out attention is the fairer baseline; the fused kernel is the "
    "usual choice today."
)
_OURS = (
    "The measurements here are for one layer and one sequence on {}; the last column gives the "
    "setting of the paper."
)


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One ratio that a paper prints, or that follows from two numbers of one table.

    Attributes:
        system: The paper's name of the system.
        ratio: The ratio; above 1 the system is faster, or needs less memory, than the paper's
            Transformer.
        length: The number of tokens.
        projected_length: Linformer's k; 0 if there is none.
        is_memory: Whether it is a ratio of memory; else of speed.
        is_training: Whether it is a ratio for training; else for inference.
        batch: Sequences per step; empty if the paper does not give it.
        hardware: The hardware, as ``4x4 TPU v3``; empty if the paper does not name it.
        source: The paper, and where in it the number is printed.
    """

    system: str
    ratio: float
    length: int
    projected_length: int
    is_memory: bool
    is_training: bool
    batch: str
    hardware: str
    source: str

    @property
    def mixer(self) -> str:
        """The name of the mixer in our registry, if it is registered."""
        return self.system.lower().replace(" ", "_")


@cache
def printed() -> tuple[Printed, ...]:
    """Return every ratio that was checked against its paper, in the order of the files."""
    return tuple(ratio for name in _FILES for ratio in _ratios(name))


def published_table(
    about: About, growths: Sequence[Growth], environment_id: str
) -> ReportTable | None:
    """Return a table of the printed ratios that were measured here, too, or None if there are none.

    Args:
        about: The description of the sweep, with the mixers and the machine.
        growths: The growths of one sweep.
        environment_id: The environment from which our numbers are taken.
    """
    rivals = _rivals(about)
    ours = _Ours(about, growths, environment_id)
    known = [one for one in printed() if rivals and ours.variant(one.mixer) and ours.has(one)]
    together: dict[tuple[str, int, str], list[Printed]] = {}
    for one in known:
        if one.projected_length == _nearest_k(known, one, ours):
            together.setdefault((one.system, one.length, one.source), []).append(one)
    if not together:
        return None
    kept = {_name(some[0]): some for some in together.values()}
    columns = tuple(_columns(kept, rivals, ours))
    sources = {name: some[0].source for name, some in kept.items()}
    return ReportTable(
        name=f"{MIXER_ALONE}-published",
        title="Published and measured speed",
        task=MIXER_ALONE,
        introduction=f"{INTRODUCTION} {_OURS.format(ours.device)}",
        row_title="system",
        columns=columns,
        rows=column_rows(columns, kept, sources),
    )


def _ratios(name: str) -> Iterator[Printed]:
    rows = rows_of(name)
    reference = {
        (row["condition"], row["metric"]): float(row["value"])
        for row in rows
        if row["system"] == _REFERENCE
    }
    conditions = {row["condition"]: row for row in rows_of(CONDITIONS) if row["file"] == name}
    for row in rows:
        condition = conditions.get(row["condition"])
        beside = reference.get((row["condition"], row["metric"]))
        if row["checked"] != "yes" or row["system"] == _REFERENCE or condition is None:
            continue
        if row["metric"] not in _RATIOS and beside is None:
            continue
        value = float(row["value"])
        ratio = value if beside is None else value / beside
        yield Printed(
            system=row["system"],
            ratio=ratio if row["metric"] in (*_RATIOS, *_RATES) else 1 / ratio,
            length=int(condition["length"]),
            projected_length=int(condition["projected_length"] or 0),
            is_memory=row["metric"] in _OF_MEMORY,
            is_training=condition["phase"] == "training",
            batch=condition["batch"],
            hardware=condition["hardware"],
            source=f"{row['source']}, {row['where']}",
        )


def _rivals(about: About) -> dict[str, str]:
    """Return name -> variant of the rivals of our mixers: attention, written out and fused."""
    attention = [
        v for v in about.variants if v in about.subjects and about.subjects[v].mixer == "attention"
    ]
    written_out = [v for v in attention if is_written_out(about, v)]
    others = [v for v in attention if v not in written_out]
    first = about.baseline if about.baseline in others else next(iter(others), "")
    if written_out and first:
        return {"written-out attention": written_out[0], "fused attention": first}
    only = first or next(iter(written_out), "")  # the kernels need not be distinguished
    return {"attention": only} if only else {}


@dataclass(frozen=True)
class _Ours:
    """The measurements of the sweep."""

    about: About
    growths: Sequence[Growth]
    environment_id: str

    def variant(self, mixer: str) -> str:
        """Return the first variant with that mixer; empty if there is none."""
        return next((v for v, facts in self.about.subjects.items() if facts.mixer == mixer), "")

    def growth(self, one: Printed) -> Growth | None:
        """Return the growth of the quantity of the paper's ratio, or None if there is none."""
        kind = "forward_backward" if one.is_training else "forward"
        metric = f"{kind}_peak_bytes" if one.is_memory else f"{kind}_seconds"
        return find(self.growths, metric, "length", self.environment_id)

    def has(self, one: Printed) -> bool:
        """Return True if there is a number at the length of the paper's ratio."""
        growth, variant = self.growth(one), self.variant(one.mixer)
        return growth is not None and growth.point(variant, one.length) is not None

    def ratio(self, one: Printed, rival: str) -> Estimate:
        """Return the rival's time or memory over the mixer's, paired by process."""
        growth, variant = self.growth(one), self.variant(one.mixer)
        assert growth is not None, "only what has a growth is shown"
        mine, theirs = growth.of(variant, one.length), growth.of(rival, one.length)
        return compare(theirs, mine).ratio

    def projected_length(self, one: Printed) -> int:
        """Return our k if it follows from the operations by theory's formula; else 0."""
        variant = self.variant(one.mixer)
        operations = find(self.growths, "theory_operations", "length", self.environment_id)
        dim = self.about.settings.get("dim")
        if operations is None or self.about.subjects[variant].time != _LINEAR_IN_K:
            return 0
        count = operations.point(variant, one.length)
        return round(count / (one.length * dim)) if count and isinstance(dim, int) else 0

    @property
    def device(self) -> str:
        """The device of our measurements."""
        made = self.about.provenances.get(self.environment_id)
        return made.device if made else "an unknown device"


def _nearest_k(known: Sequence[Printed], one: Printed, ours: _Ours) -> int:
    """Return the printed k of that system and length that is nearest to ours."""
    mine, place = ours.projected_length(one), (one.system, one.length, one.source)
    there = [p.projected_length for p in known if (p.system, p.length, p.source) == place]
    return min(there, key=lambda k: (abs(k - mine), k))


def _name(one: Printed) -> str:
    k = f", k={one.projected_length}" if one.projected_length else ""
    kind = "training" if one.is_training else "inference"
    return f"{one.system}, {one.length:,} tokens{k}, {kind}"


def _columns(
    kept: Mapping[str, Sequence[Printed]], rivals: Mapping[str, str], ours: _Ours
) -> Iterator[Column]:
    """Yield speed and memory, as printed and against each of our rivals; then the differences."""
    for is_memory, title in ((False, "times as fast"), (True, "times less memory")):
        of_kind = {n: next((p for p in kept[n] if p.is_memory == is_memory), None) for n in kept}
        if not any(of_kind.values()):
            continue
        what = "memory" if is_memory else "speed"
        theirs = {
            n: _number(Estimate(n=1, point=p.ratio) if p else None) for n, p in of_kind.items()
        }
        key, note = f"published_{what}", "published"
        yield Column(key=key, title=title, measured_unit="1", note=note, entries=theirs)
        for rival, variant in rivals.items():
            mine = {n: _number(ours.ratio(p, variant) if p else None) for n, p in of_kind.items()}
            key = f"ours_{what}_against_{rival.replace(' ', '_').replace('-', '_')}"
            note = f"measured here, against {rival}"
            yield Column(key=key, title=title, measured_unit="1", note=note, entries=mine)
    differences = {name: ", ".join(_differences(some[0], ours)) for name, some in kept.items()}
    entries = {name: Entry(text=f"no: {text}") for name, text in differences.items()}
    yield Column(key="comparable", title="comparable?", entries=entries)


def _number(estimate: Estimate | None) -> Entry:
    if estimate is None or estimate.point is None:
        return NO_ENTRY
    interval = as_interval(estimate, as_ratio)
    return Entry(estimate=estimate, text=as_ratio(estimate.point), interval=interval)


def _differences(one: Printed, ours: _Ours) -> Iterator[str]:
    """Yield the differences of the paper's setting from ours."""
    yield "whole model"  # our measurements are of the mixer alone
    if not one.hardware:
        yield "device not noted"
    elif one.hardware not in ours.device:
        yield one.hardware
    if one.batch not in ("", "1"):
        yield f"batch {one.batch}"
    k = ours.projected_length(one)
    if one.projected_length and k != one.projected_length:
        yield f"k={one.projected_length} (here {k or 'unknown'})"
