"""The committed table of rates: what the committed results yield, each mixer tried alike."""

from __future__ import annotations

import contextlib
import io
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import ablations
from reports.results.best_learning_rates import main
from suite.planning.learning_rates import read_rates
from suite.planning.loader import find
from suite.planning.plan import plan
from suite.schema import Training

ROOT = Path(str(ablations.__file__)).parents[1]
RESULTS = ROOT / "docs" / "results" / "learning_rate" / "results.csv"


def test_the_committed_table_is_what_the_committed_results_yield() -> None:
    """`make learning-rates` writes it; whoever commits other results must commit its rates too."""
    assert RESULTS.is_file(), "the results of the ablation learning_rate belong under docs/results"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([str(RESULTS)]) == 0
    assert (ROOT / "ablations" / "learning_rates.csv").read_text() == printed.getvalue()


def test_the_committed_table_is_well_formed() -> None:
    assert read_rates((ROOT / "ablations" / "learning_rates.csv").read_text())


def test_each_mixer_is_tried_alike_on_each_task() -> None:
    """The same rates, and all else of the training the same, seed by seed."""
    tried: dict[tuple[str, str], list[tuple[Training, int, int]]] = defaultdict(list)
    for trial in plan("learning_rate").trials:
        if trial.training is not None:
            key = (trial.task, trial.subjects[0].mixer)
            tried[key].append((trial.training, trial.batch, trial.seed))
    budgets = {key: set(some) for key, some in tried.items()}
    assert len({frozenset(budget) for budget in budgets.values()}) == 1
    budget = next(iter(budgets.values()))
    rates = {training.learning_rate for training, _, _ in budget}
    assert len(rates) >= 3
    assert len({replace(training, learning_rate=1.0) for training, _, _ in budget}) == 1


def test_no_rate_is_chosen_by_a_test_split() -> None:
    """Of its probes, `quality` alone reads one."""
    assert "quality" not in find("learning_rate").ablation.probes
