"""Which learning rate suits a mixer on a task? What the ablation `learning_rate` found, as a file.

The file is committed, and its numbers are part of the trials that use them: nothing adapts while
a sweep runs. It was chosen on validation data, with the same number of rates tried for each mixer.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from suite.nearest import unknown_name
from suite.spec import SpecError

FILE = "ablations/learning_rates.csv"
ANY_MIXER = "*"  # the row for a mixer that was not tried, as a user's own


def tuned_rate(scale: str, task: str, mixer: str) -> float:
    """The peak of the schedule.

    Raises:
        SpecError: where no rate was tried on the task at that scale.
    """
    table = _table()
    known = [name for at, name, _ in table if at == scale]
    if task not in known:
        raise SpecError(
            f"learning_rate='tuned': {FILE} has no rate for scale={scale}: "
            f"{unknown_name('task', task, dict.fromkeys(known))} Give a number instead."
        )
    rows = {name: rate for (at, on, name), rate in table.items() if (at, on) == (scale, task)}
    return rows.get(mixer, rows[ANY_MIXER])


@cache
def _table() -> dict[tuple[str, str, str], float]:
    """(scale, task, mixer) -> rate; a task that is there has a row for any mixer."""
    with (resources.files("ablations") / "learning_rates.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row["scale"], row["task"], row["mixer"]): float(row["learning_rate"]) for row in rows}
