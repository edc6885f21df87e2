"""Which mixers remember a symbol for some steps?

This file defines a task, and an ablation that trains on it. The next commands are

    bakeoff plan my_task.py                   # what would run, and how long it takes
    bakeoff run my_task.py --scale smoke      # a quick check that everything runs
    bakeoff run my_task.py                    # the answer, with a report
"""

from __future__ import annotations

import torch

from bakeoff import Ablation, Model, Recipe, Scale, vary
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import UNSCORED, Batch

DELAY = 4
NUM_SYMBOLS = 8


class MyTask(GeneratedTask):
    """Repeat each symbol some steps later: the target is the input of `DELAY` steps ago.

    Examples are drawn from a seed, so that all variants see the same ones. A task with examples of
    its own derives from `bakeoff.suite.tasks.task.Task` and defines `training_batch` and
    `held_out` in place of `draw`.
    """

    name = "my_task"
    architecture = "language_model"  # trained unless a model names another one
    # One answer for each token from the tokens up to it. Others: "class", "number", "symbols",
    # "sequence", "pair".
    asks_for = "next_symbols"
    input_size = NUM_SYMBOLS  # number of symbols, or features of each vector
    output_size = NUM_SYMBOLS
    lengths = (DELAY + 1, 4_096)  # the shortest and the longest sequence
    source = definition_source(
        name="my_task",
        title="Uniform symbols, repeated after a delay",
        origin="this file",
        # Everything that determines the examples: another value gives another task.
        definition={"symbols": NUM_SYMBOLS, "delay": DELAY},
        version=1,
    )

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw examples; use only this stream of random numbers, so that they can be repeated."""
        symbols = torch.from_numpy(stream.integers(count, self.length, low=0, high=NUM_SYMBOLS))
        targets = torch.full_like(symbols, UNSCORED)  # the first targets do not count
        targets[:, DELAY:] = symbols[:, :-DELAY]
        return Batch(inputs={"inputs": symbols}, targets=targets)

    # The score is the accuracy; `metric` replaces it. `floors` names simple predictors to beat,
    # by default a guess and the most frequent answer.


ABLATION = Ablation(
    question="Which mixers remember a symbol for some steps?",
    baseline=Model(mixer="attention", heads=4, position="sinusoidal"),
    # A shipped task has a name (`bakeoff list --tasks`), a task of yours is "file:Class".
    axes=[vary("mixer", ["attention", "linear_transformer", "gru"])],
    tasks=["my_task:MyTask"],
    probes=["quality", "floors", "parameters"],
    recipe=Recipe(learning_rate=3e-3),  # or "tuned": each variant at its own best rate
    scales={"quick": Scale(dim=32, depth=2, length=32, steps=300, batch=32, seeds=3)},
)
