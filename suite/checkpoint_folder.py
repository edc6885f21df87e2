"""Where do the checkpoints of one trial lie, and which of them can be trusted?

`<out>/checkpoints/<trial_id>/generation-000012/` holds files, and a manifest, written last, with
the size and the SHA-256 of each. Its folder has another name until all of it is on the disk, so
that a generation is whole or not there. Whatever happens to it later is seen when it is looked for:
then the one before is taken. The newest two are kept.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from suite import durable
from suite.checkpoints import Checkpoints, Found, Keeper
from suite.manifest import MANIFEST, manifest_of, why_not_whole
from suite.schema import Trial

_NUM_KEPT = 2
_GENERATION = re.compile(r"generation-(\d{6,12})")


def keeper_for(trial: Trial, checkpoints: Checkpoints | None) -> Keeper | None:
    """For `run_trial(trial, resources, place, keeper)`, in the process that runs the trial.

    Returns:
        None where no checkpoints are asked for, or where the folder `checkpoints.folder` does not
        exist on this host: whoever runs the sweep makes it before the first trial.
    """
    if checkpoints is None or not checkpoints.folder.is_dir():
        return None
    folder = checkpoints.folder / trial.trial_id
    return FolderKeeper(folder, checkpoints.seconds_between)


def remove(checkpoints: Checkpoints, trial_id: str) -> None:
    """For the driver, after the trial's result is committed; no error whatever lies there."""
    with suppress(OSError):
        durable.remove_folder(checkpoints.folder / trial_id)


class FolderKeeper:
    """Checkpoints in a folder that bears the trial's id; see `Keeper`."""

    def __init__(
        self,
        folder: Path,
        seconds_between: float,
        *,
        is_first: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Of several workers one alone `is_first`, and tidies up.

        Args:
            folder: Made with the first checkpoint.
            seconds_between: From the start to the first, and from the end of one to the next.
            is_first: Whether what a killed process has left half done is cleared here.
            clock: Seconds, of which only differences count.
        """
        self._folder, self._seconds_between, self._clock = folder, seconds_between, clock
        self._has_leftovers = is_first
        self._aside: set[int] = set()
        self._has_given_up = False
        self._last = clock()

    def latest(self) -> Found:
        """See `Keeper.latest`."""
        remarks: list[str] = []
        try:
            self._clear_leftovers()
            for number in sorted(self._numbers() - self._aside, reverse=True):
                why = why_not_whole(self._path(number), self._folder.name)
                if not why:
                    return Found(number, self._path(number), tuple(remarks))
                remarks.append(self.set_aside(Found(number), why))
        except OSError as error:
            remarks.append(f"its checkpoints cannot be looked for ({error})")
        if remarks or self._aside:
            remarks.append("no checkpoint is left that it could go on from, and it begins anew")
        return Found(remarks=tuple(remarks))

    def set_aside(self, found: Found, why: str) -> str:
        """See `Keeper.set_aside`; it is removed when two newer ones stand."""
        self._aside.add(found.generation)
        return f"its checkpoint {found.generation} is left aside: {why}"

    def is_due(self) -> bool:
        """See `Keeper.is_due`."""
        return self._clock() - self._last >= self._seconds_between

    def draft(self, token: int) -> Path:
        """See `Keeper.draft`."""
        return self._folder / durable.unfinished_name("generation", token)

    def publish(self, draft: Path, step: int) -> None:
        """See `Keeper.publish`; older ones go when the new one stands."""
        try:
            durable.write(draft / MANIFEST, manifest_of(draft, self._folder.name, step))
            number = max(self._numbers(), default=0) + 1
            durable.move_folder(draft, self._path(number))
        finally:
            self._last = self._clock()
        self._prune()

    def give_up(self, draft: Path, why: str) -> str:
        """See `Keeper.give_up`."""
        with suppress(OSError):
            durable.remove_folder(draft)
        self._last = self._clock()
        is_news, self._has_given_up = not self._has_given_up, True
        return f"a checkpoint could not be written, and it goes on without: {why}" * is_news

    def _path(self, number: int) -> Path:
        return self._folder / f"generation-{number:06d}"

    def _numbers(self) -> set[int]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return set()
        return {int(match[1]) for match in map(_GENERATION.fullmatch, names) if match}

    def _clear_leftovers(self) -> None:
        """Once: what a process that was killed has left half written."""
        if not self._has_leftovers or not self._folder.is_dir():
            return
        for name in filter(durable.is_unfinished, os.listdir(self._folder)):
            with suppress(OSError):
                durable.remove_folder(self._folder / name)
        self._has_leftovers = False

    def _prune(self) -> None:
        """Keep the newest that can be trusted; what cannot be removed now is tried again."""
        with suppress(OSError):
            numbers = self._numbers()
            kept = sorted(numbers - self._aside)[-_NUM_KEPT:]
            for number in sorted(numbers.difference(kept)):
                durable.remove_folder(self._path(number))
