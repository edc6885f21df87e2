"""Compare norms, sums, feed-forwards and patterns with their formulas, in whole models."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import Mixer, ModelError, mixer_class
from bakeoff.models.sublayers import FeedForward, MaskedBatchNorm, Residual, StackConfig
from tests.models.small_models import DIM, LENGTH, build, inputs, spec


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


MASK = torch.tensor([[True] * 7, [True] * 3 + [False] * 4, [False] * 7])


def test_batch_norm_counts_real_tokens_only() -> None:
    ours, theirs = MaskedBatchNorm(5, eps=1e-3), nn.BatchNorm1d(5, eps=1e-3)
    for seed in (1, 2):  # two steps, so that running statistics change twice
        x = numbers(3, 7, 5, seed=seed) + 2
        garbage = x.masked_fill(~MASK.unsqueeze(-1), torch.nan)
        expected = theirs(x[MASK])
        torch.testing.assert_close(ours(garbage, MASK)[MASK], expected)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)
        torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(garbage, MASK)[MASK], theirs.eval()(x[MASK]))
    assert ours.num_batches_tracked == theirs.num_batches_tracked
    whole = numbers(3, 7, 5)
    all_real = torch.ones_like(MASK)
    torch.testing.assert_close(ours.train()(whole, all_real), ours(whole))


@pytest.mark.parametrize("norm", ["layer", "rms", "batch"])
def test_norms_are_their_formulas(norm: str) -> None:
    model, x = build(spec("tagger", norm_kind=norm, norm_eps=0.3)), numbers(2, LENGTH, DIM)
    axes = (0, 1) if norm == "batch" else -1
    centred = x if norm == "rms" else x - x.mean(dim=axes, keepdim=True)
    expected = centred / (centred.square().mean(dim=axes, keepdim=True) + 0.3).sqrt()
    norms = [m for m in model.modules() if type(m).__name__ in NORMS[norm]]
    assert len(norms) == 5
    for each in norms:
        torch.testing.assert_close(each(x), expected)


NORMS = {"layer": ["LayerNorm"], "rms": ["RMSNorm"], "batch": ["MaskedBatchNorm"]}


def test_no_causal_stack_has_batch_norm() -> None:
    with pytest.raises(
        ModelError, match="language_model is causal, and norm_kind='batch' lets a token"
    ):
        build(spec("language_model", norm_kind="batch"))


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh", "relu", "glu", "swiglu"])
def test_feed_forwards_are_their_formulas(kind: Any, has_bias: bool) -> None:
    config = StackConfig(feed_forward=kind, feed_forward_ratio=2.6, has_feed_forward_bias=has_bias)
    mlp = FeedForward(8, config)
    assert (mlp.contract.bias is not None) == (mlp.expand.bias is not None) == has_bias
    x, hidden = numbers(2, 3, 8), 21
    up = x @ mlp.expand.weight.T
    if has_bias:
        mlp.expand.bias.data = numbers(len(mlp.expand.bias))
        up = up + mlp.expand.bias
    first, second = up[..., :hidden], up[..., hidden:]
    activated = {
        "gelu": lambda: first * 0.5 * (1 + torch.erf(first / 2**0.5)),
        "gelu_tanh": lambda: (
            first * 0.5 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (first + 0.044715 * first**3)))
        ),
        "relu": lambda: first.clamp(min=0),
        "glu": lambda: first * torch.sigmoid(second),
        "swiglu": lambda: first * (second / (1 + (-second).exp())),
    }[kind]()
    assert second.shape[-1] == (hidden if "glu" in kind else 0)
    expected = functional.linear(activated, mlp.contract.weight, mlp.contract.bias)
    torch.testing.assert_close(mlp(x), expected)


def test_without_a_feed_forward_a_block_is_its_mixer() -> None:
    block = build(spec("tagger", feed_forward="none")).trunk.blocks[0]
    x = numbers(2, LENGTH, DIM)
    torch.testing.assert_close(block(x), x + block.mixer(block.mixer_norm(x)))
    assert not [name for name, _ in block.named_parameters() if "mlp" in name]


@pytest.mark.parametrize("placement", ["pre", "post", "res_post"])
def test_sums_are_their_formulas(placement: str) -> None:
    residual = "sum" if placement == "post" else "scaled"
    model = build(spec("tagger", norm_placement=placement, residual=residual, layer_scale=0.1))
    block, x = model.trunk.blocks[1], numbers(2, LENGTH, DIM)
    block.mlp_sum.scale.data = numbers(DIM)
    expected = x
    for layer, norm, scale in (
        (block.mixer, block.mixer_norm, torch.full((DIM,), 0.1)),
        (block.mlp, block.mlp_norm, block.mlp_sum.scale),
    ):
        if placement == "pre":
            expected = (expected + scale * layer(norm(expected))) * 0.5**0.5
        elif placement == "post":
            expected = norm(expected + scale * layer(expected))
        else:
            expected = (expected + scale * norm(layer(expected))) * 0.5**0.5
    torch.testing.assert_close(block(x), expected)
    assert isinstance(model.trunk.norm, nn.Identity) == (placement == "post")


def test_stochastic_depth_leaves_out_whole_sequences_more_often_higher_up() -> None:
    blocks = build(spec("tagger", depth=4, stochastic_depth=0.4)).trunk.blocks
    assert [block.mlp_sum.rate for block in blocks] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    add, x, change = blocks[3].mixer_sum, numbers(4000, 2, DIM), numbers(4000, 2, DIM, seed=2)
    added = add(x, change) - x
    left_out = (added == 0).all(dim=(1, 2))
    assert left_out.float().mean().item() == pytest.approx(0.4, abs=0.03)
    torch.testing.assert_close(added[~left_out], change[~left_out] / 0.6, rtol=1e-4, atol=1e-5)
    assert torch.equal(add.eval()(x, change), x + change)


def test_stochastic_depth_may_be_constant_over_depth() -> None:
    model = build(spec("tagger", depth=3, stochastic_depth=0.4, stochastic_depth_rule="constant"))
    rates = [[b.mixer_sum.rate, b.mlp_sum.rate] for b in model.trunk.blocks]
    assert rates == [[0.4, 0.4]] * 3


def test_a_sum_draws_nothing_that_is_not_asked_for() -> None:
    add = Residual(DIM, StackConfig(layer_scale=0.5, residual="scaled"), share=1.0)
    before = torch.get_rng_state()
    add(numbers(2, 3, DIM), numbers(2, 3, DIM))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "settings",
    [
        {"norm_kind": "rms", "norm_placement": "res_post"},
        {"residual": "scaled", "layer_scale": 0.3},
        {"feed_forward": "swiglu", "stochastic_depth": 0.5},
        {"feed_forward": "none"},
    ],
    ids=str,
)
def test_steps_equal_the_parallel_form(settings: dict[str, Any]) -> None:
    model = build(spec("language_model", "attention*2+gru", depth=3, **settings)).double().eval()
    x, state, logits = inputs(model.spec), model.initial_state(3), []
    for tokens in x.unbind(dim=1):
        found, state = model.step(tokens, state)
        logits.append(found)
    torch.testing.assert_close(torch.stack(logits, dim=1), model(x))


def test_parameters_have_the_names_that_checkpoints_have() -> None:
    names = {name for name, _ in build(spec("tagger", "conv")).trunk.blocks[0].named_parameters()}
    parts = {f"{part}.{of}" for part in PARTS for of in ("weight", "bias")}
    assert {name for name in names if not name.startswith("mixer.")} == parts


PARTS = ("mixer_norm", "mlp_norm", "mlp.expand", "mlp.contract")


def mixers(pattern: str, **changes: Any) -> list[Mixer]:
    return [block.mixer for block in build(spec("tagger", pattern, **changes)).trunk.blocks]


def test_a_pattern_repeats_over_the_layers() -> None:
    names = [mixer.name for mixer in mixers("fnet*2+attention", depth=7)]
    assert names == ["fnet", "fnet", "attention"] * 2 + ["fnet"]


def test_layers_of_one_name_take_places_among_themselves() -> None:
    dilated = [m for m in mixers("dilated_conv+fnet", depth=6) if m.name == "dilated_conv"]
    alone = mixers("dilated_conv", depth=3)
    assert [m.dilation for m in dilated] == [m.dilation for m in alone]
    shared = mixers("fnet+linformer", depth=4, knobs={"sharing": "layerwise"})
    assert shared[1].projections is shared[3].projections


def test_knobs_go_to_the_mixers_of_a_pattern_that_have_them() -> None:
    found = mixers("attention+conv", knobs={"heads": 2})
    assert found[0].config.heads == 2
    with pytest.raises(ModelError, match="attention has no knob 'layers'"):
        mixers("attention+conv", knobs={"layers": 2})


def test_a_pattern_of_one_is_that_mixer() -> None:
    x = inputs(spec("tagger"))
    ours, theirs = (build(spec("tagger", each, depth=2))(x) for each in ("gru*2", "gru"))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("pattern", ["gru+", "+gru", "gru*0", "gru*", "gru*x", "*2", "gru * 2"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ModelError, match="is neither a name nor NAME"):
        mixers(pattern)


def test_each_mixer_of_a_causal_stack_must_be_causal() -> None:
    why = mixer_class("fnet").why_not_causal
    with pytest.raises(ModelError) as refused:
        build(spec("language_model", "attention+fnet"))
    assert str(refused.value) == f"fnet cannot stand in language_model, which is causal: {why}"
