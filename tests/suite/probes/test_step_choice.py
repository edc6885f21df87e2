"""Test how a trial's training steps are planned to run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import step_choice
from bakeoff.suite.schema import Trial
from bakeoff.suite.spec import Model, Recipe, vary
from tests.suite.small_ablation import make_ablation

LONG = 100_000_000


def trial(mixer: str = "attention", steps: int = LONG, **recipe: Any) -> Trial:
    made = make_ablation(
        baseline=Model(mixer=mixer),
        axes=[vary("batch", [2, 4])],
        recipe=Recipe(**recipe),
        scale={"steps": steps, "gpus": 1.0},
    )
    return plan(made).trials[0]


def chosen(found: Trial, *, on_gpu: bool = True) -> str:
    return step_choice(found, on_gpu=on_gpu).said


def test_a_long_training_is_compiled_and_a_short_one_is_not() -> None:
    assert chosen(trial()) == "compiled; each one CUDA graph"
    assert chosen(trial(steps=500)) == "each one CUDA graph"


def test_all_seeds_and_rates_choose_alike() -> None:
    found = trial()
    for other in (replace(found, seed=5), replace(found, found_rate=0.5)):
        assert step_choice(other, on_gpu=True) == step_choice(found, on_gpu=True)


def test_on_a_cpu_steps_are_eager_unless_they_are_to_be_compiled() -> None:
    assert step_choice(trial(), on_gpu=False).runtime == "eager"
    assert step_choice(trial(runtime="compiled"), on_gpu=False).runtime == "compiled"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("eager", "eagerly: runtime='eager'"),
        ("graph", "each one CUDA graph"),
        ("compiled", "compiled; each one CUDA graph"),
    ],
)
def test_what_is_asked_for_is_chosen(asked: str, said: str) -> None:
    assert chosen(trial(steps=9, runtime=asked)) == said


def test_what_no_graph_can_hold_is_eager_and_says_why() -> None:
    for asked in ("auto", "compiled"):
        found = chosen(trial("performer", runtime=asked))
        assert found == "eagerly: Performer draws random numbers during training"


def test_a_loop_over_tokens_is_compiled_only_if_it_is_asked_for() -> None:
    assert chosen(trial("lstm")) == "each one CUDA graph"
    assert chosen(trial("lstm", runtime="compiled")) == "compiled; each one CUDA graph"
