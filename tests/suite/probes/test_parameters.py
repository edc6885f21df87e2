"""Parameters, counted by hand."""

from __future__ import annotations

from suite.planning.plan import plan
from suite.probes.parameters import Parameters
from suite.schema import Measurement, Trial
from suite.spec import Ablation, Model, Scale, vary

DIM, DEPTH = 8, 3


def trial(task: str, **model: str) -> Trial:
    ablation = Ablation(
        question="?", baseline=Model(mixer="attention", **model), axes=[vary("depth", [DEPTH, 4])],
        tasks=[task], probes=["parameters"],
        scales={"quick": Scale(dim=DIM, depth=DEPTH, length=20, steps=1, batch=1)},
    )  # fmt: skip
    return plan(ablation).trials[0]


def count(trial: Trial) -> float | None:
    (found,) = Parameters().measure(trial, "cpu")
    assert isinstance(found, Measurement)
    assert (found.metric, found.unit, found.better) == ("num_parameters", "1", "none")
    return found.value


# Attention without biases, an MLP of width 4 dim with biases, two norms with gain and bias.
BLOCK = 4 * DIM**2 + (DIM * 4 * DIM + 4 * DIM) + (4 * DIM * DIM + DIM) + 2 * 2 * DIM
FINAL_NORM = 2 * DIM


def test_a_language_model_counts_its_tied_matrix_once() -> None:
    assert count(trial("shakespeare_characters")) == 81 * DIM + DEPTH * BLOCK + FINAL_NORM


def test_learned_positions_count() -> None:
    fixed = count(trial("shakespeare_characters"))
    learned = count(trial("shakespeare_characters", position="learned"))
    assert fixed is not None
    assert learned == fixed + 20 * DIM


def test_a_classifier_counts_its_maps_in_and_out() -> None:
    maps = (16 * DIM + DIM) + (DIM * 10 + 10)
    assert count(trial("fashion_mnist_patches")) == maps + DEPTH * BLOCK + FINAL_NORM


def test_what_is_measured_is_what_was_announced() -> None:
    from suite.tasks.registry import task_class

    (spec,) = Parameters().metrics(task_class("shakespeare_characters"), 20)
    (found,) = Parameters().measure(trial("shakespeare_characters"), "cpu")
    assert isinstance(found, Measurement)
    assert (spec.name, spec.unit, spec.better, spec.at) == (
        found.metric, found.unit, found.better, found.at,
    )  # fmt: skip
