"""Marks of entries in tables; each is explained below a table that has it."""

from __future__ import annotations

from bakeoff.reports.document import Mark
from bakeoff.reports.results.reading import NOISY_MEANING

PARTIAL = Mark(sign="†", name="partial", meaning="This is the mean over the successful seeds only.")
NOISY = Mark(sign="‡", name="noisy", meaning=NOISY_MEANING)
UNTOLD = Mark(
    sign="§",
    name="no significant difference",
    meaning=(
        "This machine could not resolve the difference from the baseline: the interval of the "
        "ratio is not conclusive, or the ratio is no larger than that between repeated "
        "measurements of the baseline."
    ),
)
