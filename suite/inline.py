"""Trials -> events, one after the other in this process: neither Ray nor MLflow is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from suite.events import Event
from suite.schema import Resources, Trial
from suite.trial import run_trial


class InlineExecutor:
    """Runs trials here. Timings are alone anyway, though not in a process of their own."""

    def __init__(self, source_paths: Sequence[str]) -> None:
        sys.path[:0] = [path for path in source_paths if path not in sys.path]

    def execute(self, work: Sequence[tuple[Trial, Resources]]) -> Iterator[Event]:
        """Run the trials in the order given."""
        for trial, resources in work:
            yield from run_trial(trial, resources, f"process {os.getpid()}")

    execute_alone = execute
