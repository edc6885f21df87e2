"""Status messages that a driver on a cluster writes into its log, for other programs.

A message is one line, ``bakeoff-status {json}``; the last complete one in the log counts. Clients
read the log through Ray's Jobs API, so that no further port or file is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bakeoff.suite.text import redact

STATUS_LINES = "BAKEOFF_STATUS_LINES"  # set if a program reads the log of the driver

_PREFIX = "bakeoff-status "
# Limit for running and for failed trials, because a message is written every few seconds.
_MAX_TRIALS = 100
_MAX_REASON = 300


@dataclass(frozen=True, kw_only=True)
class SweepStatus:
    """The progress of one sweep, or of all sweeps of an output folder.

    Attributes:
        counts: Number of trials by state: ``running``, ``missing``, or the status of the result;
            ``done_before`` counts those of an earlier run.
        running: trial_id -> the place where it runs.
        waiting: ``num_trials`` of the missing trials that cannot be placed, and the ``reason``, or
            None if there are none.
        failed: trial_id -> status and reason.
        labels: trial_id -> a readable name, for trials that run or have failed.
        eta_seconds: Estimated remaining seconds; 0 if nothing is left, and None if the time cannot
            be estimated yet.
        out: The output folder, as the driver knows it.
        by_ablation: ``ablation, scale`` -> its own counts; a trial that two sweeps share is in
            both.
        editions: Ablation -> the number of its edition in the output folder; empty if unknown.
        throughput_per_minute: Recent rate of trials with a result, or None if there was no result
            yet. The rate and the hours are also None if they were not computed.
        cpu_hours_spent: All known CPU hours, including running trials.
        cpu_hours_wasted: The part of them that was spent on failures and on late results.
        cpu_hours_left: Estimated CPU hours that remain, or None if they cannot be estimated yet.
        gpu_hours_spent, gpu_hours_wasted, gpu_hours_left: The same for GPUs.
        joules_spent: Energy of the GPUs in attempts that have ended, or None if none was measured.
        money_spent: The cost of the GPU hours at a stated price, or of the CPU hours if no GPU is
            used, or None without a price.
        money_left: The estimated cost of the remaining hours, or None in the same case.
        currency: The currency of the price, if it is stated.
        num_lost: Number of attempts that ended with their driver or node and left no time; they are
            not part of the hours.
        lost_cpu_hours_at_most: Upper bound on the CPU hours of the lost attempts, since each had
            ended when the next attempt at its trial started, or None if one has not been retried
            yet.
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
    """Return the message as a line without a newline; long lists are truncated, counts are not."""
    content = asdict(status)
    for name in ("running", "failed"):
        first = list(content[name].items())[:_MAX_TRIALS]
        content[name] = {key: redact(reason)[:_MAX_REASON] for key, reason in first}
    shown = {*content["running"], *content["failed"]}
    content["labels"] = {key: label for key, label in content["labels"].items() if key in shown}
    return _PREFIX + json.dumps(content, separators=(",", ":"))


def last_status(log: str) -> SweepStatus | None:
    """Return the last complete message in a log, or None if there is none."""
    messages = (_parsed(line) for line in reversed(log.splitlines()) if is_status_line(line))
    return next((found for found in messages if found is not None), None)


def is_status_line(line: str) -> bool:
    """Return True if the line is a message for programs, not for people."""
    return line.startswith(_PREFIX)


def _parsed(line: str) -> SweepStatus | None:
    """Return the message, or None if it is incomplete so far, or was written by another version."""
    try:
        return SweepStatus(**json.loads(line.removeprefix(_PREFIX)))
    except (ValueError, TypeError):
        return None
