"""The resources that trials took, and the price that a user states for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Expense:
    """The resources that some trials of a sweep took.

    Attributes:
        name: Their variant; of those that belong to no single one, what they are.
        num_trials: With a result; one that ran in two environments counts twice.
        cpu_hours: For which they held CPUs, by what they ask for; so are `gpu_hours`.
        joules: See `Result.joules`, of those that tell; None where none does.
        num_told: How many trials that is.
    """

    name: str
    num_trials: int
    cpu_hours: float
    gpu_hours: float
    joules: float | None = None
    num_told: int = 0


@dataclass(frozen=True, kw_only=True)
class Price:
    """The price of one hour of a GPU; if no trial takes a GPU, of a CPU."""

    amount: float
    currency: str = ""
