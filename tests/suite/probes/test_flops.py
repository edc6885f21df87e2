"""FLOPs, counted by hand: 2 per multiply-add, elementwise work 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models import ModelError
from suite.planning.plan import plan
from suite.probes.flops import ForwardFlops
from suite.schema import Measurement, Trial
from suite.spec import Ablation, Model, Scale, vary
from suite.tasks.registry import task_class

DIM, DEPTH, LENGTH = 8, 3, 20


def trial(task: str, mixer: str = "attention") -> Trial:
    ablation = Ablation(
        question="?", baseline=Model(mixer=mixer), axes=[vary("depth", [DEPTH, 4])],
        tasks=[task], probes=["flops"],
        scales={"quick": Scale(dim=DIM, depth=DEPTH, length=LENGTH, steps=1, batch=7)},
    )  # fmt: skip
    return plan(ablation).trials[0]


def measured(trial: Trial) -> Measurement:
    (found,) = ForwardFlops().measure(trial, "cpu")
    assert isinstance(found, Measurement)
    return found


def block(n: int) -> int:
    projections = 4 * 2 * n * DIM * DIM
    scores_and_sum = 2 * 2 * n * n * DIM
    mlp = 2 * 2 * n * DIM * 4 * DIM
    return projections + scores_and_sum + mlp


def test_a_language_model_of_one_sequence() -> None:
    found = measured(trial("shakespeare_characters"))
    assert found.value == DEPTH * block(LENGTH) + 2 * LENGTH * DIM * 81
    assert (found.unit, found.better, found.at) == ("FLOP", "lower", "length=20")


def test_a_classifier_of_one_sequence_at_the_length_of_its_data() -> None:
    found = measured(trial("fashion_mnist_patches"))
    assert found.value == 2 * 49 * 16 * DIM + DEPTH * block(49) + 2 * DIM * 10
    assert found.at == "length=49"


def test_what_is_measured_is_what_was_announced() -> None:
    (spec,) = ForwardFlops().metrics(task_class("shakespeare_characters"), LENGTH)
    found = measured(trial("shakespeare_characters"))
    assert (spec.name, spec.unit, spec.better, spec.at) == (
        found.metric, found.unit, found.better, found.at,
    )  # fmt: skip


def test_a_mixer_without_a_formula_is_no_zero() -> None:
    silent = "tests.suite.probes.no_formula:Silent"
    shipped = trial("fashion_mnist_patches")
    without = replace(shipped.subjects[0], mixer=silent, knobs={})
    with pytest.raises(ModelError, match="no FLOPs formula"):
        measured(replace(shipped, subjects=(without,)))


def test_a_mixer_without_a_formula_is_a_skipped_row_that_says_so() -> None:
    silent = "tests.suite.probes.no_formula:Silent"
    ablation = Ablation(
        question="?", baseline=Model(mixer="conv"), axes=[vary("mixer", ["conv", silent])],
        tasks=["fashion_mnist_patches"], probes=["flops", "parameters"],
        scales={"quick": Scale(dim=DIM, depth=1, length=49, steps=1, batch=7)},
    )  # fmt: skip
    reasons = {(cell.probe, cell.variant): cell.reason for cell in plan(ablation).cells}
    assert reasons["flops", f"mixer={silent}"] == f"{silent} defines no flops(length, batch)"
    assert [reason for reason in reasons.values() if reason] == [
        reasons["flops", f"mixer={silent}"]
    ]
