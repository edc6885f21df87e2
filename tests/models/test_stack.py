"""Compare the block, the trunk and the embeddings with their formulas."""

from typing import Any

import pytest
import torch
from torch import nn

from bakeoff.models import POSITIONS, Mixer, ModelError, mixer_class
from bakeoff.models.positions.absolute import NoPosition
from bakeoff.models.registry import relative_position
from tests.models.small_models import BATCH, DIM, LENGTH, SYMBOLS, build, inputs, spec

RELATIVE = [name for name in POSITIONS if relative_position(name)]


@pytest.mark.parametrize("has_residual", [True, False])
@pytest.mark.parametrize("norm_placement", ["pre", "post"])
def test_a_block_is_its_formula(norm_placement: str, has_residual: bool) -> None:
    model = build(spec("tagger", norm_placement=norm_placement, has_residual=has_residual))
    block, x = model.trunk.blocks[0], torch.randn(2, LENGTH, DIM)
    kept = float(has_residual)
    if norm_placement == "pre":
        mixed = kept * x + block.mixer(block.mixer_norm(x))
        expected = kept * mixed + block.mlp(block.mlp_norm(mixed))
    else:
        mixed = block.mixer_norm(kept * x + block.mixer(x))
        expected = block.mlp_norm(kept * mixed + block.mlp(mixed))
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("norm_placement", ["pre", "post"])
def test_a_trunk_ends_normalised_once(norm_placement: str) -> None:
    """Check the final norm: its own for pre-norm, that of the last block for post-norm."""
    model = build(spec("tagger", norm_placement=norm_placement))
    hidden = model.trunk(model.embedding(inputs(model.spec)))
    torch.testing.assert_close(hidden.mean(dim=-1), torch.zeros(BATCH, LENGTH), atol=1e-5, rtol=0)
    num_norms = sum(isinstance(module, nn.LayerNorm) for module in model.modules())
    assert num_norms == {"pre": 5, "post": 4}[norm_placement]


def test_dropout_is_on_embeddings_and_sub_layers_and_only_while_training() -> None:
    model_spec = spec("tagger", "conv", dropout=0.25, length=113)
    model, x = build(model_spec), inputs(model_spec, batch=8, length=113)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(lambda _, given, put: seen.append((given[0], put)))
    model(x)
    trunk, first = model.trunk, model.trunk.blocks[0]
    assert len(seen) == 1 + 2 * 2  # the embeddings; mixer and feed-forward of two blocks
    torch.testing.assert_close(seen[0][0], trunk.position(model.embedding(x)))
    torch.testing.assert_close(seen[1][0], first.mixer(first.mixer_norm(seen[0][1])))
    for given, put in seen:
        dropped = put == 0
        assert dropped.float().mean().item() == pytest.approx(0.25, abs=0.02)
        torch.testing.assert_close(put[~dropped], given[~dropped] / 0.75)
    without = build(spec("tagger", "conv", length=113))
    assert not torch.allclose(model(x), without(x))
    assert torch.equal(model.eval()(x), without(x))


def test_without_dropout_no_random_number_is_drawn() -> None:
    model = build(spec("tagger"))
    before = torch.get_rng_state()
    model(inputs(model.spec))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_adding_is_concatenation_with_two_identity_blocks(position: str) -> None:
    added = build(spec("tagger", position=position))
    joined = build(spec("tagger", position=position, position_mode="concatenated"))
    x = inputs(added.spec)
    assert not torch.allclose(joined(x), added(x))
    with torch.no_grad():
        joined.trunk.position.join.weight.copy_(torch.eye(DIM).repeat(1, 2))
    torch.testing.assert_close(joined(x), added(x))
    assert joined.num_parameters() - added.num_parameters() == 2 * DIM * DIM


@pytest.mark.parametrize("position", ["none", *RELATIVE])
def test_there_is_nothing_to_concatenate_without_vectors(position: str) -> None:
    why = "has no vectors" if position == "none" else "acts inside the mixer"
    with pytest.raises(ModelError, match=f"position='{position}' {why}: there is nothing to"):
        build(spec("tagger", position=position, position_mode="concatenated"))


@pytest.mark.parametrize("initialisation", ["scaled_normal", "truncated_normal"])
@pytest.mark.parametrize("mode", ["added", "concatenated"])
def test_positions_start_as_small_as_asked_and_all_else_as_it_was(
    mode: str, initialisation: str
) -> None:
    """Check that no rule of linear maps draws the positions again."""
    settings = {"position_mode": mode, "initialisation": initialisation}
    usual, small = (
        dict(build(spec("tagger", position_std=std, **settings)).named_parameters())
        for std in (1.0, 0.02)
    )
    (table,) = (name for name in usual if name.endswith("position.table"))
    for name, parameter in usual.items():
        share = 0.02 if name == table else 1.0
        torch.testing.assert_close(small[name], share * parameter)
    assert usual[table].std().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("std", [0, -0.5])
def test_a_deviation_is_above_0(std: float) -> None:
    with pytest.raises(ModelError, match=f"^vit: position_std={float(std)} is not above 0$"):
        build(spec("vit", position_std=std))


@pytest.mark.parametrize("position", ["none", "sinusoidal", "sinusoidal_2d", *RELATIVE])
def test_what_is_not_drawn_has_no_deviation(position: str) -> None:
    with pytest.raises(ModelError, match=f"position_std=0.02 is .*: position='{position}' draws"):
        build(spec("tagger", position=position, position_std=0.02))
    build(spec("tagger", position=position, position_std=1))


@pytest.mark.parametrize("position", RELATIVE)
def test_a_relative_position_acts_in_every_mixer_and_not_before(position: str) -> None:
    model = build(spec("tagger", position=position))
    assert type(model.trunk.position) is NoPosition
    kind = relative_position(position)
    for block in model.trunk.blocks:
        assert any(isinstance(module, kind) for module in block.mixer.modules())


def test_layers_take_their_places_from_the_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Mixer, int, Mixer]] = []
    monkeypatch.setattr(mixer_class("conv"), "take_place", lambda *given: calls.append(given))
    blocks = build(spec("tagger", "conv", depth=3)).trunk.blocks
    assert calls == [(block.mixer, layer, blocks[0].mixer) for layer, block in enumerate(blocks)]


def test_what_layers_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = build(spec("tagger", "conv", depth=3))
    of_one = sum(p.numel() for p in apart.trunk.blocks[0].mixer.parameters())

    def share(self: Any, layer: int, first: Any) -> None:
        for name, module in first.named_children():
            setattr(self, name, module)

    monkeypatch.setattr(mixer_class("conv"), "take_place", share)
    shared = build(spec("tagger", "conv", depth=3))
    assert shared.num_parameters() == apart.num_parameters() - 2 * of_one
    assert shared.flops(LENGTH) == apart.flops(LENGTH)


def test_tokens_and_sinusoids_enter_with_like_variance() -> None:
    """Check equal variances: larger sinusoids cost a bit per character (300 steps, width 64)."""
    wide = spec("language_model", "conv", dim=256)
    model = build(wide)
    assert model.embedding(inputs(wide)).var().item() == pytest.approx(1, rel=0.15)


def test_vectors_enter_by_a_linear_map_and_padding_as_zeros() -> None:
    model_spec = spec("tagger", input_kind="vectors")
    embedding, x = build(model_spec).embedding, inputs(model_spec)
    torch.testing.assert_close(embedding(x), x @ embedding.map.weight.T + embedding.map.bias)
    mask = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    mask[:, 3] = False
    torch.testing.assert_close(embedding(x, mask)[:, 3], embedding.map.bias.expand(BATCH, -1))
    assert x.shape[-1] == SYMBOLS
