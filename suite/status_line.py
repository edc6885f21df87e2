"""How does a driver on a cluster tell a program elsewhere how far it is? By lines in its log.

One line is ``bakeoff-status {json}``; the last one in the log holds. Job logs are what the Jobs
API of Ray gives to whoever asks, with no port or file of ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from suite.tracking_uri import redact

STATUS_LINES = "BAKEOFF_STATUS_LINES"  # set where a program reads the log of the driver
_MARK = "bakeoff-status "
_MOST_TOLD = 100  # of running and of failed trials: a line is written every few seconds
_LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far one sweep is, or all sweeps of an output folder.

    Attributes:
        counts: Trials by state, each once: ``running``, ``missing``, or the status of its result;
            ``done_before`` are those of an earlier run.
        running: trial_id -> the place where it runs.
        waiting: ``num_trials`` of the missing ones, and the ``reason`` why they have no place;
            None where nothing waits for one.
        failed: trial_id -> status and reason.
        labels: trial_id -> a name for people, of those that run or have failed.
        eta_seconds: None where there is nothing to go by.
        out: The output folder, as the driver knows it.
        by_ablation: ``ablation, scale`` -> its own counts; a trial that two share is in both.
        throughput_per_minute: For this and the following fields see
            `suite.commands.resource_usage.ResourceUsage`; None where it was not asked for.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, Any] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    eta_seconds: float | None = None
    out: str = ""
    by_ablation: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    throughput_per_minute: float | None = None
    cpu_hours_spent: float | None = None
    cpu_hours_wasted: float | None = None
    cpu_hours_left: float | None = None
    gpu_hours_spent: float | None = None
    gpu_hours_wasted: float | None = None
    gpu_hours_left: float | None = None
    num_lost: int = 0
    lost_cpu_hours_at_most: float | None = None


def are_wanted() -> bool:
    """Whether somebody reads them."""
    return os.environ.get(STATUS_LINES) == "1"


def line_of(standing: Standing) -> str:
    """The line, without its end; long lists are cut, since the counts tell the whole."""
    told = asdict(standing)
    for name in ("running", "failed"):
        told[name] = {
            key: redact(reason)[:_LONGEST_REASON]
            for key, reason in list(told[name].items())[:_MOST_TOLD]
        }
    shown = {*told["running"], *told["failed"]}
    told["labels"] = {key: label for key, label in told["labels"].items() if key in shown}
    return _MARK + json.dumps(told, separators=(",", ":"))


def last_standing(log: str) -> Standing | None:
    """What the last complete line in a log says; None where there is none."""
    for line in reversed(log.splitlines()):
        if line.startswith(_MARK):
            found = _read(line)
            if found is not None:
                return found
    return None


def is_status_line(line: str) -> bool:
    """Whether it is for programs only."""
    return line.startswith(_MARK)


def _read(line: str) -> Standing | None:
    """None for a line that is not written to its end yet, or by another version."""
    try:
        return Standing(**json.loads(line.removeprefix(_MARK)))
    except (ValueError, TypeError):
        return None
