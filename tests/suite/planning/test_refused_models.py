"""Tests for impossible models: refused as a baseline, a row with its reason in a cross."""

import re
from itertools import product

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import Model, SpecError, vary
from tests.suite.small_ablation import make_ablation

TEXT, IMAGES = "shakespeare_characters", "fashion_mnist_patches"
NO_ROPE = "fnet takes no relative position (rope): it computes no score of one token for another"
IMPOSSIBLE = {
    "rope on fnet": (Model(mixer="fnet", position="rope"), NO_ROPE),
    "rope beside the embeddings": (
        Model(mixer="attention", position="rope", position_mode="concatenated"),
        "position='rope' acts inside the mixer: there is nothing to concatenate with",
    ),
    "a linformer beyond its length": (
        Model(mixer="linformer", projected_length=50),
        "linformer: projected_length=50 is more than the 49 tokens of the sequence",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_baseline_is_refused_by_name(case: str) -> None:
    model, reason = IMPOSSIBLE[case]
    with pytest.raises(SpecError, match=f"the baseline is impossible.*{re.escape(reason)}"):
        plan(make_ablation(baseline=model, tasks=[IMAGES], axes=[vary("depth", [1, 2])]))


@pytest.mark.parametrize(
    ("knob", "scale", "reason"),
    [
        ({"norm_kind": "batch"}, {"workers": 2}, "a whole batch, which would be cut into 2"),
        ({"norm_kind": "batch"}, {"accumulation": 2}, "which would be cut into 2"),
        ({"norm_kind": "batch"}, {"zero": 3}, ""),
        ({"residual": "reversible"}, {"zero": 3}, "reversible' needs all parameters in its"),
        ({"residual": "reversible"}, {"zero": 2, "workers": 2}, ""),
    ],
    ids=str,
)
def test_what_cannot_be_trained_in_parts_is_a_row(
    knob: dict[str, str], scale: dict[str, int], reason: str
) -> None:
    (name, value), *_ = knob.items()
    axes = [vary(name, [{"norm_kind": "layer", "residual": "sum"}[name], value])]
    found = plan(make_ablation(tasks=[IMAGES], axes=axes, probes=["quality"], scale=scale))
    reasons = {cell.variant: cell.reason for cell in found.cells}
    assert reason in reasons.pop(f"{name}={value}")
    assert not any(reasons.values())
    assert len(found.trials) == found.about.num_seeds * (1 if reason else 2)


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        ({"workers": 2}, "one average cost of whole batches, and each would be cut into 2"),
        ({"accumulation": 2}, "and each would be cut into 2"),
        ({"distillation": "soft"}, "learns from the task's own loss alone, without distillation"),
        ({"zero": 3}, ""),
    ],
    ids=str,
)
def test_what_a_choice_cannot_learn_from_is_a_row(scale: dict[str, int | str], reason: str) -> None:
    """Check that only REINFORCE, which needs the cost of each example, is refused."""
    values = ["soft", "straight_through", "reinforce"]
    found = plan(
        make_ablation(
            tasks=[IMAGES],
            baseline=Model(mixer="hard_attention", estimator="soft"),
            scale=scale,
            axes=[vary("estimator", values)],
            probes=["quality"],
            teacher=Model(mixer="attention") if "distillation" in scale else None,
        )
    )
    reasons = {cell.variant: cell.reason for cell in found.cells}
    assert reason in reasons.pop("estimator=reinforce")
    assert not any(reasons.values())


def _reason(task: str, mixer: str, position: str, pooling: str) -> str:
    if task == IMAGES:
        return NO_ROPE if (mixer, position) == ("fnet", "rope") else ""
    if mixer == "fnet":
        return "fnet cannot be causal, and a language_model must be"
    return "language_model has no knob 'pooling'" if pooling == "class_token" else ""


def test_impossible_cells_of_a_cross_are_skipped_rows_with_their_reason() -> None:
    values = {
        "mixer": ["attention", "fnet"],
        "position": ["sinusoidal", "rope"],
        "pooling": ["mean", "class_token"],
    }
    found = plan(
        make_ablation(
            tasks=[TEXT, IMAGES],
            axes=[vary(*axis) for axis in values.items()],
            combine="cross",
            probes=["parameters"],
        )
    )
    assert {(cell.task, cell.variant): cell.reason for cell in found.cells} == {
        (task, f"mixer={mixer}, position={position}, pooling={pooling}"): _reason(
            task, mixer, position, pooling
        )
        for task, mixer, position, pooling in product([TEXT, IMAGES], *values.values())
    }
