"""Tests for recipes in a plan: fields of the training, axes, ids, and skipped rows."""

from __future__ import annotations

from typing import Any

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Training
from bakeoff.suite.spec import Recipe, SpecError, vary
from tests.suite.small_ablation import make_ablation


def _training(**changes: Any) -> Training:
    (found,) = {t.training for t in plan(make_ablation(**changes), seeds=1).trials}
    assert found is not None
    return found


def _ids(**changes: Any) -> set[str]:
    return {t.trial_id for t in plan(make_ablation(**changes), seeds=1).trials}


CHANGES: list[tuple[str, Any]] = [
    ("optimizer", "sgd"),
    ("schedule", "linear"),
    ("clip_norm", 0.5),
    ("clip_norm", None),
    ("precision", "bf16"),
    ("accumulation", 2),
    ("ema", 0.99),
    ("runtime", "compiled"),
    ("label_smoothing", 0.1),
    ("weight_decay", 0.5),
]


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_every_field_is_set_by_the_recipe_the_scale_an_axis_and_the_command(
    name: str, value: Any
) -> None:
    by_recipe = _ids(recipe=Recipe(**{name: value}))
    assert getattr(_training(recipe=Recipe(**{name: value})), name) == value
    assert by_recipe == _ids(scale={name: value})
    assert not by_recipe & _ids()
    typed = plan(make_ablation(), seeds=1, settings={name: value})
    assert {t.trial_id for t in typed.trials} == by_recipe
    assert typed.about.settings[name] == value
    before = getattr(Recipe(), name)
    varied = plan(make_ablation(axes=[vary(name, [before, value])]), seeds=1)
    assert {getattr(t.training, name) for t in varied.trials} == {before, value}


def test_a_field_at_its_default_leaves_the_ids() -> None:
    written_out = Recipe(optimizer="adamw", schedule="constant_with_cooldown", clip_norm=1.0)
    assert _ids(recipe=written_out) == _ids()


def test_momentum_is_of_sgd_alone() -> None:
    assert _ids(scale={"momentum": 0.5}) == _ids()
    assert _training(scale={"momentum": 0.5, "optimizer": "sgd"}).momentum == 0.5
    with pytest.raises(SpecError, match="'momentum' has no effect"):
        plan(make_ablation(axes=[vary("momentum", [0.5, 0.9])]))


def test_sgd_may_have_a_weight_decay_of_its_own() -> None:
    """Check the option; SGD adds the decay to the gradient, AdamW subtracts it from the weights."""
    assert _ids(scale={"sgd_weight_decay": 1e-4}) == _ids()
    own = {"optimizer": "sgd", "weight_decay": 0.05, "sgd_weight_decay": 1e-4}
    assert _training(scale=own).weight_decay == 1e-4
    assert _ids(scale=own) == _ids(scale={"optimizer": "sgd", "weight_decay": 1e-4})
    assert _training(scale=own | {"sgd_weight_decay": None}).weight_decay == 0.05
    assert _training(scale=own | {"optimizer": "adamw"}).weight_decay == 0.05


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        ({"precision": "tf32"}, "precision='tf32' needs a GPU"),
        ({"runtime": "graph"}, "runtime='graph' needs a GPU"),
        ({"runtime": "compiled", "workers": 2}, "runtime='compiled' is for trials of"),
        ({"workers": 2, "ema": 0.9}, "ema=0.9 is for trials of one process"),
        ({"zero": 1, "optimizer": "sgd"}, "optimizer='sgd' is for trials of one process"),
        ({"batch": 2, "accumulation": 3}, "a batch of 2 cannot be cut into 3 equal parts"),
    ],
)
def test_what_no_engine_can_do_is_refused(scale: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        plan(make_ablation(scale=scale))


def test_bf16_needs_no_deepspeed_and_workers_have_it_there() -> None:
    (alone,) = {t.parallel for t in plan(make_ablation(scale={"precision": "bf16"})).trials}
    assert alone is None
    spread = plan(make_ablation(scale={"precision": "bf16", "workers": 2})).trials[0]
    assert spread.parallel is not None
    assert spread.training is not None
    assert (spread.parallel.precision, spread.training.precision) == ("bf16", "float32")


@pytest.mark.parametrize(("optimizer", "rate"), [("adamw", 5e-3), ("sgd", 0.1)])
def test_the_search_of_a_trained_model_begins_at_a_tenth(optimizer: str, rate: float) -> None:
    """Check the first rate, which is not lowered if the reused part is not trained."""
    scale = {"learning_rate": "tuned", "optimizer": optimizer}
    found = plan(make_ablation(axes=[vary("start", ["none", "parity"])], scale=scale), seeds=1)
    first = {bool(t.start): t.search.training for t in found.trials if t.search}
    assert {of: training and training.learning_rate for of, training in first.items()} == {
        False: rate,
        True: rate / 10,
    }
    drawn = plan("image_tokens", seeds=1)
    searches = [t.search for t in drawn.trials if t.search and t.start]
    assert {t.training.learning_rate for t in searches if t.training} == {5e-3}


@pytest.mark.parametrize(
    ("search_steps", "wanted"),
    [(None, [10, 20, 200]), (31, [16, 31, 310]), (60, [30, 60, 600])],
)
def test_a_search_takes_the_same_share_of_the_steps_of_each_variant(
    search_steps: int | None, wanted: list[int]
) -> None:
    scale = {"learning_rate": "tuned", "steps": 60, "search_steps": search_steps}
    found = plan(make_ablation(axes=[vary("steps", [30, 60, 600])], scale=scale), seeds=1)
    searches = [t.search.training for t in found.trials if t.search and t.probe == "quality"]
    assert sorted(each.steps for each in searches if each) == wanted
