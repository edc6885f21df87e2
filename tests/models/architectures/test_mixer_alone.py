"""Check the bare mixer: the same mixers, positions and initial values as in a whole model."""

import pytest
import torch

from bakeoff.models import (
    MIXERS,
    ModelError,
    ModelSpec,
    architecture_class,
    build_model,
    mixer_class,
)
from bakeoff.models.architectures.mixer_alone import CausalMixerAlone, MixerAlone
from bakeoff.models.registry import ARCHITECTURES, BARE_ARCHITECTURES
from tests.models.small_models import build, sees, spec

DIM, LENGTH = 16, 33


def alone(mixer: str = "attention", *, depth: int = 1, is_causal: bool = False) -> ModelSpec:
    return ModelSpec(
        architecture="causal_mixer_alone" if is_causal else "mixer_alone",
        mixer=mixer,
        knobs={},
        position="none",
        dim=DIM,
        depth=depth,
        length=LENGTH,
        input_kind="vectors",
        input_size=DIM,
        output_size=DIM,
    )


@pytest.mark.parametrize("mixer", MIXERS)
def test_it_computes_what_the_mixer_computes(mixer: str) -> None:
    model = build(alone(mixer)).eval()
    x = torch.randn(2, LENGTH, DIM)
    torch.testing.assert_close(model(x), model.mixers[0](x), rtol=0, atol=0)
    assert model.flops(LENGTH, batch=2) == model.mixers[0].flops(LENGTH, 2)
    assert model.num_parameters() == sum(p.numel() for p in model.mixers[0].parameters())


def test_a_layer_is_that_of_a_whole_model_of_the_same_seed() -> None:
    whole = build(spec("classifier", mixer="conv"))
    found = dict(whole.named_parameters())
    for name, parameter in build(alone("conv", depth=2)).named_parameters():
        _, layer, rest = name.split(".", 2)
        twin = found[f"trunk.blocks.{layer}.mixer.{rest}"]
        torch.testing.assert_close(parameter, twin, rtol=0, atol=0)


def test_layers_are_given_their_places() -> None:
    model = build(alone("dilated_conv", depth=3))
    assert isinstance(model, MixerAlone)
    reached = [int(sees(m.double(), LENGTH)[LENGTH // 2].nonzero().max()) for m in model.mixers]
    assert len(set(reached)) == 3, "dilation grows from layer to layer"


@pytest.mark.parametrize("mixer", MIXERS)
def test_the_causal_twin_is_built_where_the_mixer_has_one(mixer: str) -> None:
    if not mixer_class(mixer).supports_causal:
        with pytest.raises(ModelError, match=r"causal_mixer_alone.*causal"):
            build(alone(mixer, is_causal=True))
        return
    model = build(alone(mixer, is_causal=True))
    assert isinstance(model, CausalMixerAlone)
    assert model.mixers[0].is_causal


def test_vectors_must_have_the_models_width() -> None:
    wrong = ModelSpec(**{**vars(alone()), "input_size": 3})
    with pytest.raises(ModelError, match=r"dim=16.*input_size=3"):
        build_model(wrong)


def test_it_is_no_architecture_that_a_task_or_an_ablation_could_ask_for() -> None:
    assert not set(BARE_ARCHITECTURES) & set(ARCHITECTURES)
    assert architecture_class("mixer_alone") is MixerAlone
