"""Tests for models with their own sizes, and for presets."""

from typing import Any

import pytest

from bakeoff.models import ModelSpec
from bakeoff.suite.planning.overrides import parsed
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import Ablation, Model, SpecError, vary
from tests.suite.small_ablation import make_ablation

IMAGES = ["fashion_mnist_images"]
SMALL_VIT = Model(preset="vit_tiny", patch=7, dim=48)


def _of(ablation: Ablation, *options: str) -> dict[str, ModelSpec]:
    """Return the model that is built for each variant."""
    found = plan(ablation, settings=parsed(options) if options else None)
    trials = {trial.trial_id: trial for trial in found.trials}
    return {c.variant: trials[c.trial_id].subjects[0] for c in found.cells if c.trial_id}


def _images(baseline: Model, **fields: Any) -> Ablation:
    return make_ablation(baseline=baseline, tasks=IMAGES, axes=[vary("bias", [True])], **fields)


def test_a_preset_is_what_it_stands_for_but_for_what_stands_beside_it() -> None:
    written = Model(
        "vit",
        mixer="attention",
        position="learned",
        dim=48,
        depth=12,
        heads=3,
        bias=True,
        patch=7,
        norm_eps=1e-6,
    )
    (found,) = _of(_images(SMALL_VIT)).values()
    assert found == next(iter(_of(_images(written)).values()))
    assert (found.architecture, found.dim, found.depth) == ("vit", 48, 12)
    assert found.knobs["heads"] == 3
    assert found.settings["patch"] == 7


def test_its_label_says_what_stands_beside_the_preset() -> None:
    models = [SMALL_VIT, Model("vit", mixer="fnet", pooling="mean", depth=1, patch=4)]
    ablation = make_ablation(baseline=SMALL_VIT, tasks=IMAGES, axes=[vary("model", models)])
    assert list(_of(ablation)) == [
        "model=vit_tiny (dim 48; patch 7)",
        "model=fnet (architecture vit; depth 1; pooling mean; patch 4)",
    ]


def test_a_size_of_its_own_comes_before_the_scale_s_and_after_an_axis() -> None:
    own = Model(mixer="attention", dim=24, heads=4)
    (found,) = _of(make_ablation(baseline=own, axes=[vary("heads", [4])])).values()
    assert (found.dim, found.depth) == (24, 1)
    varied = _of(make_ablation(baseline=own, axes=[vary("dim", [24, 32])]))
    assert {label: each.dim for label, each in varied.items()} == {"dim=24": 24, "dim=32": 32}
    models = [own, Model(mixer="attention", heads=4)]
    of_models = _of(make_ablation(baseline=own, axes=[vary("model", models)]))
    assert [each.dim for each in of_models.values()] == [24, 16]


def test_an_option_sets_the_size_where_it_stands() -> None:
    own = make_ablation(baseline=Model(mixer="attention", dim=24, heads=4))
    assert {each.dim for each in _of(own, "dim=32").values()} == {32}
    assert {each.depth for each in _of(own, "depth=2").values()} == {2}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"preset": "vit_tini"}, "unknown preset 'vit_tini'; did you mean 'vit_tiny'"),
        ({"architecture": "classifier", "preset": "vit_tiny"}, "is of vit, not of classifier"),
        ({"mixer": "attention", "dim": 0}, "dim=0"),
        ({"mixer": "attention", "depth": 1.5}, "depth=1.5"),
        ({"preset": "vit_tiny", "patches": 4}, "is called 'patches'; did you mean 'patch'"),
    ],
)
def test_what_is_no_preset_and_no_size_is_refused(model: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(_images(Model(**model)))
    assert said in str(caught.value)
