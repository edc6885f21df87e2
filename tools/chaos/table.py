"""The figures as a person reads them: one table, a row for each scenario, and what broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.chaos.figures import Figures, percentile, total

HEAD = (
    "scenario", "faults", "submitted", "acknowledged", "lost", "doubled", "resumed equal",
    "orphans", "ran twice: differ", "recovery p50 / p95 / max", "safety",
)  # fmt: skip


def rows(figures: Mapping[str, Figures]) -> list[tuple[str, ...]]:
    """A row for each scenario, by its title, and one for all."""
    return [
        *(_row(title, of_one) for title, of_one in figures.items()),
        _row("all", total(figures.values())),
    ]


def markdown(figures: Mapping[str, Figures]) -> str:
    """The table, what was injected, and the notes."""
    lines = [_line(HEAD), _line(["---"] + ["---:"] * (len(HEAD) - 1))]
    lines += [_line(row) for row in rows(figures)]
    everything = total(figures.values())
    injected = ", ".join(f"{what} {number}" for what, number in sorted(everything.faults.items()))
    notes = [f"- {title}: {note}" for title, of_one in figures.items() for note in of_one.notes]
    return "\n".join([*lines, "", f"Faults: {injected}.", "", *notes])


def plain(figures: Mapping[str, Figures]) -> str:
    """The same table for a terminal."""
    lines = [HEAD, *rows(figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if not column else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _row(title: str, of: Figures) -> tuple[str, ...]:
    return (
        title, str(sum(of.faults.values())), str(of.num_submitted), str(of.num_acknowledged),
        str(of.num_lost), str(of.num_doubled),
        f"{of.num_resumed_equal} of {of.num_resumed}" if of.num_resumed else "",
        str(of.num_orphans),
        f"{of.num_repeated}: {of.num_alarms}" if of.num_repeated else "",
        _recovery(of.recovery_seconds),
        f"{of.share_of_safety:.2%}" if of.safety_of_seconds else "",
    )  # fmt: skip


def _recovery(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    found = (percentile(seconds, 0.5), percentile(seconds, 0.95), max(seconds))
    return " / ".join(f"{one:.1f}" for one in found) + " s"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
