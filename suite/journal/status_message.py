"""Status messages that a driver on a cluster writes into its log, for programs elsewhere.

A message is one line, ``bakeoff-status {json}``; the last complete one in the log counts. The Jobs
API of Ray gives job logs to whoever asks, so no port or file of ours is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from suite.text import redact

STATUS_LINES = "BAKEOFF_STATUS_LINES"  # set where a program reads the log of the driver

_PREFIX = "bakeoff-status "
_MAX_TRIALS = 100  # running, and failed: a message is written every few seconds
_MAX_REASON = 300


@dataclass(frozen=True, kw_only=True)
class SweepStatus:
    """How far one sweep is, or all sweeps of an output folder.

    Attributes:
        counts: Trials by state, each once: ``running``, ``missing``, or the status of its result;
            ``done_before`` are those of an earlier run.
        running: trial_id -> the place where it runs.
        waiting: ``num_trials`` of the missing ones, and the ``reason`` why they have no place;
            None where nothing waits for one.
        failed: trial_id -> status and reason.
        labels: trial_id -> a readable name, of those that run or have failed.
        eta_seconds: None where it cannot be estimated yet; 0 where nothing is left.
        out: The output folder, as the driver knows it.
        by_ablation: ``ablation, scale`` -> its own counts; a trial that two share is in both.
        editions: Ablation -> the number of its edition in the output folder; empty where unknown.
        throughput_per_minute: Trials that left a result, recently; None where none ever did. This
            and the hours are None, too, where they were not computed.
        cpu_hours_spent: All that is known, what runs now included.
        cpu_hours_wasted: The part of it that went into failures and results that came too late.
        cpu_hours_left: None where it cannot be estimated yet.
        joules_spent: Of GPUs, by the attempts that have ended; None where none of them told.
        money_spent: What the hours of GPUs cost at a stated price, or those of CPUs where no GPU
            is used; so is `money_left`. None without a price, which may name a `currency`.
        num_lost: Attempts that ended with their driver or node and left no time: they are in none
            of the hours.
        lost_cpu_hours_at_most: What those can have taken, since each had ended when the next
            attempt at its trial began; None where one has not been tried again yet.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, Any] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    eta_seconds: float | None = None
    out: str = ""
    by_ablation: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    editions: Mapping[str, int] = field(default_factory=dict)
    throughput_per_minute: float | None = None
    cpu_hours_spent: float | None = None
    cpu_hours_wasted: float | None = None
    cpu_hours_left: float | None = None
    gpu_hours_spent: float | None = None
    gpu_hours_wasted: float | None = None
    gpu_hours_left: float | None = None
    joules_spent: float | None = None
    money_spent: float | None = None
    money_left: float | None = None
    currency: str = ""
    num_lost: int = 0
    lost_cpu_hours_at_most: float | None = None


def line_of(status: SweepStatus) -> str:
    """The message as a line, without its end; long lists are cut, since the counts are complete."""
    content = asdict(status)
    for name in ("running", "failed"):
        first = list(content[name].items())[:_MAX_TRIALS]
        content[name] = {key: redact(reason)[:_MAX_REASON] for key, reason in first}
    shown = {*content["running"], *content["failed"]}
    content["labels"] = {key: label for key, label in content["labels"].items() if key in shown}
    return _PREFIX + json.dumps(content, separators=(",", ":"))


def last_status(log: str) -> SweepStatus | None:
    """The last complete message in a log; None where there is none."""
    messages = (_parsed(line) for line in reversed(log.splitlines()) if is_status_line(line))
    return next((found for found in messages if found is not None), None)


def is_status_line(line: str) -> bool:
    """Whether the line is a message for programs, not for people."""
    return line.startswith(_PREFIX)


def _parsed(line: str) -> SweepStatus | None:
    """None for a line that is incomplete so far, or was written by another version."""
    try:
        return SweepStatus(**json.loads(line.removeprefix(_PREFIX)))
    except (ValueError, TypeError):
        return None
