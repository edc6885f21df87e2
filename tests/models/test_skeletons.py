"""What holds for every skeleton with every mixer that it can hold."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from models import (
    MIXERS,
    POSITIONS,
    SKELETONS,
    ModelError,
    ModelSpec,
    Skeleton,
    build_model,
    mixer_class,
    skeleton_class,
)

LENGTH = 9


def spec(skeleton: str, mixer: str, input_kind: str, position: str = "learned") -> ModelSpec:
    return ModelSpec(
        skeleton=skeleton,
        mixer=mixer,
        knobs={},
        position=position,
        dim=16,
        depth=2,
        length=LENGTH,
        input_kind=input_kind,
        input_size=11,
        output_size=11,
    )


SPECS = [
    spec(skeleton, mixer, input_kind)
    for skeleton in SKELETONS
    for mixer in MIXERS
    for input_kind in skeleton_class(skeleton).input_kinds
    if mixer_class(mixer).supports_causal or not skeleton_class(skeleton).is_causal
]
every_model = pytest.mark.parametrize(
    "model_spec", SPECS, ids=lambda s: f"{s.skeleton}-{s.mixer}-{s.input_kind}"
)


def build(model_spec: ModelSpec, seed: int = 0) -> Skeleton:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return build_model(model_spec)


def inputs(model_spec: ModelSpec, batch: int = 3, length: int = LENGTH) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if model_spec.input_kind == "tokens":
        return torch.randint(11, (batch, length), generator=generator)
    return torch.randn(batch, length, 11, generator=generator)


@every_model
def test_every_parameter_gets_a_gradient_and_logits_start_small(model_spec: ModelSpec) -> None:
    model = build(model_spec)
    logits = model(inputs(model_spec))
    assert logits.shape == ((3, 11) if model.name == "classifier" else (3, LENGTH, 11))
    assert logits.std() < 2
    cross_entropy(logits.flatten(0, -2), torch.arange(logits[..., 0].numel()) % 11).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@every_model
def test_a_block_adds_mixer_and_feed_forward_to_its_input(model_spec: ModelSpec) -> None:
    block, x = build(model_spec).trunk.blocks[0], torch.randn(2, LENGTH, 16)
    mixed = x + block.mixer(block.mixer_norm(x))
    torch.testing.assert_close(block(x), mixed + block.mlp(block.mlp_norm(mixed)))


@every_model
def test_num_parameters_is_the_sum_over_parts(model_spec: ModelSpec) -> None:
    model = build(model_spec)
    mixer = sum(p.numel() for p in model.trunk.blocks[0].mixer.parameters())
    mlp, norms = 2 * 4 * 16 * 16 + 4 * 16 + 16, 2 * 2 * 16
    outside = {
        "language_model": 11 * 16,
        "classifier": 11 * 16 + 16 * 11 + 11 + (16 if model_spec.input_kind == "vectors" else 0),
    }
    blocks = 2 * (mixer + mlp + norms)
    assert model.num_parameters() == outside[model.name] + LENGTH * 16 + blocks + 2 * 16


@every_model
def test_flops_are_counted_by_hand(model_spec: ModelSpec) -> None:
    model = build(model_spec)
    mixer = model.trunk.blocks[0].mixer.flops(LENGTH, 3)
    mlp = 3 * LENGTH * 2 * (2 * 16 * 64)
    head = 2 * 16 * 11 * 3 * (LENGTH if model.name == "language_model" else 1)
    embedding = 3 * LENGTH * 2 * 11 * 16 if model_spec.input_kind == "vectors" else 0
    assert model.flops(LENGTH, 3) == 2 * (mixer + mlp) + head + embedding


@every_model
def test_what_stands_at_padded_positions_is_never_read(model_spec: ModelSpec) -> None:
    model, x = build(model_spec).double(), inputs(model_spec)
    mask = torch.tensor([[True] * 9, [True] * 5 + [False] * 4, [False] * 9])
    if model_spec.input_kind == "vectors":
        garbage = x.double().masked_fill(~mask.unsqueeze(-1), math.nan)
        x = x.double()
    else:
        garbage = x.masked_fill(~mask, -1)
    outputs, gradients = [], []
    for given in (x, garbage):
        logits = model(given, mask)
        kept = logits[mask] if model.name == "language_model" else logits
        outputs.append(kept)
        gradients.append(torch.autograd.grad(kept.square().sum(), list(model.parameters())))
    assert outputs[0].isfinite().all()
    assert torch.equal(*outputs)
    for a, b in zip(*gradients, strict=True):
        assert torch.equal(a, b)
        assert a.isfinite().all()
    if mixer_class(model_spec.mixer).mask_mode == "exact":
        shorter = model(x[1:2, :5])
        same = model(x, mask)[1:2, :5] if model.name == "language_model" else model(x, mask)[1:2]
        torch.testing.assert_close(same, shorter)


@every_model
def test_variants_of_a_seed_start_alike_outside_the_mixer(model_spec: ModelSpec) -> None:
    other = replace(model_spec, mixer="lstm" if model_spec.mixer != "lstm" else "conv")
    ours, theirs = build(model_spec).state_dict(), build(other).state_dict()
    shared = [key for key in ours if ".mixer." not in key]
    assert len(shared) >= 14
    assert all(torch.equal(ours[key], theirs[key]) for key in shared)
    assert any(
        not torch.equal(ours[key], value)
        for key, value in build(model_spec, 1).state_dict().items()
    )


@every_model
def test_deeper_models_start_with_the_same_first_blocks(model_spec: ModelSpec) -> None:
    shallow = build(model_spec).state_dict()
    deep = build(replace(model_spec, depth=3)).state_dict()
    assert all(torch.equal(value, deep[key]) for key, value in shallow.items())
    first, second = (deep[f"trunk.blocks.{i}.mlp.expand.weight"] for i in (0, 1))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("mixer", [m for m in MIXERS if mixer_class(m).supports_causal])
def test_a_language_model_never_sees_the_token_it_predicts(mixer: str) -> None:
    model_spec = spec("language_model", mixer, "tokens")
    model, tokens = build(model_spec), inputs(model_spec)
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 11
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0, atol=1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_the_output_matrix_is_the_embedding() -> None:
    model = build(spec("language_model", "conv", "tokens"))
    table = model.embedding.table.weight
    assert sum(p is table for p in model.parameters()) == 1
    assert not [p for p in model.parameters() if p.shape == (11, 16) and p is not table]
    only_zeros = torch.zeros(1, LENGTH, dtype=torch.long)
    (as_output,) = torch.autograd.grad(model(only_zeros)[..., 3].sum(), table)
    assert as_output[3].abs().max() > 0  # token 3 was never read
    assert as_output[0].abs().max() > 0


def test_tokens_and_sinusoids_enter_with_like_variance() -> None:
    """Drowned by the sinusoids, 300 steps of width 64 end a bit per character worse."""
    wide = replace(spec("language_model", "conv", "tokens"), dim=256)
    model = build(wide)
    assert model.embedding(inputs(wide)).var().item() == pytest.approx(1, rel=0.15)


def test_a_classifier_averages_over_real_tokens() -> None:
    model_spec = spec("classifier", "attention", "vectors", position="none")
    model, x = build(model_spec).double(), inputs(model_spec).double()
    hidden = model.trunk(model.embedding(x))
    torch.testing.assert_close(model(x), model.head(hidden.mean(dim=1)))
    first = torch.zeros(3, LENGTH, dtype=torch.bool)
    first[:, 0] = True
    torch.testing.assert_close(model(x, first), model(x[:, :1]))
    nothing = model(x, torch.zeros(3, LENGTH, dtype=torch.bool))
    torch.testing.assert_close(nothing, model.head.bias.expand(3, 11))


@pytest.mark.parametrize("position", list(POSITIONS))
def test_position_decides_whether_attention_can_tell_orders_apart(position: str) -> None:
    model_spec = spec("classifier", "attention", "vectors", position=position)
    model, x = build(model_spec).double(), inputs(model_spec).double()
    is_blind = torch.allclose(model(x), model(x.flip(1)), rtol=0, atol=1e-10)
    assert is_blind == (position == "none")


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_a_sequence_longer_than_planned_is_refused(position: str) -> None:
    model_spec = spec("language_model", "attention", "tokens", position=position)
    with pytest.raises(ModelError, match="has positions for 9 tokens, not 10"):
        build(model_spec)(inputs(model_spec, length=10))
