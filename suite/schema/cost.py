"""The resources that trials took, and the price that a user states for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Expense:
    """The resources that some trials of a sweep took.

    Attributes:
        name: The trials' variant, or a description of trials that belong to no single variant.
        num_trials: The number of trials with a result; a trial that ran in two environments counts
            twice.
        cpu_hours: The hours for which the trials held CPUs, by the number of CPUs they request.
        gpu_hours: The same for GPUs.
        joules: The sum of `Result.joules` over the trials that have it, or None if none has.
        num_told: The number of trials that have `Result.joules`.
    """

    name: str
    num_trials: int
    cpu_hours: float
    gpu_hours: float
    joules: float | None = None
    num_told: int = 0


@dataclass(frozen=True, kw_only=True)
class Price:
    """The price of one GPU hour or, if no trial uses a GPU, of one CPU hour."""

    amount: float
    currency: str = ""
