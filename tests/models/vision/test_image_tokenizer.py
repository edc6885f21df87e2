"""Check a discrete autoencoder: its codes, its costs, and its gradients."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import Input
from bakeoff.models.vision.image_tokenizer import (
    ImageTokenizer,
    ImageTokenizerConfig,
    check_image_tokenizer,
)

IMAGE = Input(kind="image", size=3, length=16 * 24, grid=(16, 24))


def built(**knobs: Any) -> ImageTokenizer:
    torch.manual_seed(0)
    config = ImageTokenizerConfig(**{"codes": 12, "tokenizer_width": 8, "code_dim": 4, **knobs})
    return ImageTokenizer(IMAGE, 3, config, PartSeeds(), "discrete_vae").double()


def images(batch: int = 3) -> Tensor:
    drawn = torch.Generator().manual_seed(1)
    return torch.randn(batch, 16, 24, 3, generator=drawn, dtype=torch.float64)


def vectors_of(tokenizer: ImageTokenizer, given: Tensor) -> Tensor:
    """Return the vectors of the encoder, `[batch, places, code_dim]`."""
    found: Tensor = tokenizer.encoder(given.movedim(-1, 1))
    return found.flatten(2).transpose(1, 2)


@pytest.mark.parametrize("cell", [2, 4, 8])
@pytest.mark.parametrize("quantiser", ["straight_through", "gumbel"])
def test_a_token_stands_for_a_square_of_pixels(cell: int, quantiser: str) -> None:
    tokenizer = built(cell=cell, quantiser=quantiser).eval()
    found = tokenizer(images())
    assert tokenizer.grid == (16 // cell, 24 // cell)
    assert found.tokens.shape == (3, tokenizer.num_places)
    assert 0 <= found.tokens.min() <= found.tokens.max() < 12
    assert found.images.shape == (3, 16, 24, 3)
    assert found.penalty.shape == (3,)


@pytest.mark.parametrize("quantiser", ["straight_through", "gumbel"])
def test_what_comes_back_depends_on_the_tokens_alone(quantiser: str) -> None:
    tokenizer = built(quantiser=quantiser).eval()
    found = tokenizer(images())
    assert torch.equal(tokenizer.tokens(images()), found.tokens)
    torch.testing.assert_close(tokenizer.images(found.tokens), found.images)


@pytest.mark.parametrize("quantiser", ["straight_through", "gumbel"])
def test_tokens_are_the_same_in_mixed_precision(quantiser: str) -> None:
    tokenizer, given = built(quantiser=quantiser, codes=512).float(), 30 * images(8).float()
    expected = tokenizer.tokens(given)
    assert len(expected.unique()) > 5
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(tokenizer.tokens(given), expected)


@pytest.mark.parametrize("is_unit", [True, False])
def test_each_place_has_the_nearest_code(is_unit: bool) -> None:
    tokenizer = built(has_unit_codes=is_unit).eval()
    given = 30 * images()  # far apart, so that several codes are the nearest
    vectors, codes = vectors_of(tokenizer, given), tokenizer.codes.weight
    if is_unit:
        vectors, codes = (functional.normalize(each, dim=-1) for each in (vectors, codes))
    nearest = torch.cdist(vectors.flatten(0, 1), codes).argmin(dim=-1).view(3, -1)
    assert torch.equal(tokenizer.tokens(given), nearest)
    assert len(nearest.unique()) > 1


def test_the_gradient_of_a_code_is_handed_on_to_the_vector() -> None:
    """Check the straight-through gradient: the encoder's vector gets the gradient of the code."""
    tokenizer = built(commitment=0.0, has_unit_codes=False)
    found = tokenizer(images())
    found.images.square().sum().backward()
    last = tokenizer.encoder[-1].bias
    assert last.grad is not None
    codes = tokenizer.codes.weight[found.tokens].detach().requires_grad_()
    laid = codes.transpose(1, 2).reshape(3, -1, *tokenizer.grid)
    (by_hand,) = torch.autograd.grad(tokenizer.decoder(laid).square().sum(), codes)
    torch.testing.assert_close(last.grad, by_hand.sum(dim=(0, 1)))
    assert tokenizer.codes.weight.grad is None or not tokenizer.codes.weight.grad.any()


def test_codes_follow_vectors_and_vectors_stay_near_by_the_commitment() -> None:
    """Check the second and third term of equation 3, each with the gradient of one side."""
    tokenizer = built(commitment=0.5, has_unit_codes=False)
    vectors = vectors_of(tokenizer, images())
    codes = tokenizer.codes(tokenizer.tokens(images()))
    apart = (codes - vectors).square().mean(dim=(1, 2))
    penalty = tokenizer(images()).penalty
    torch.testing.assert_close(penalty, 1.5 * apart)
    sides = [tokenizer.codes.weight, tokenizer.encoder[-1].bias]
    ours = torch.autograd.grad(penalty.sum(), sides)
    whole = torch.autograd.grad(apart.sum(), sides)
    torch.testing.assert_close(ours[0], whole[0])
    torch.testing.assert_close(ours[1], 0.5 * whole[1])


def test_in_training_shares_of_codes_are_drawn_and_in_use_the_likeliest_stands() -> None:
    tokenizer = built(quantiser="gumbel", kl_weight=0.0)
    one, other = tokenizer(images()), tokenizer(images())
    assert not torch.equal(one.images, other.images)
    tokenizer.eval()
    likeliest = tokenizer.shares(vectors_of(tokenizer, images())).argmax(dim=-1)
    assert torch.equal(tokenizer.tokens(images()), likeliest)
    assert torch.equal(tokenizer(images()).images, tokenizer(images()).images)


def test_drawn_shares_are_those_of_the_gumbel_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a temperature near 0: the frequency of a code equals its probability."""
    tokenizer = built(quantiser="gumbel", final_temperature=1e-4, anneal_steps=1)
    tokenizer.num_passes.fill_(1)
    tokenizer.shares.bias.data = torch.linspace(-3, 1, 12).double()
    drawn: list[Tensor] = []
    monkeypatch.setattr(tokenizer, "_decoded", lambda vectors: drawn.append(vectors) or vectors)
    many = images(1).expand(4_000, -1, -1, -1)
    with torch.no_grad():
        tokenizer(many)
        wanted = tokenizer.shares(vectors_of(tokenizer, images(1)))[0].softmax(dim=-1)
        nearest = torch.cdist(drawn[0], tokenizer.codes.weight).argmin(dim=-1)
    counted = functional.one_hot(nearest, 12).double().mean(dim=0)
    torch.testing.assert_close(counted, wanted, atol=0.03, rtol=0)


def test_the_temperature_falls_along_a_cosine_and_stays() -> None:
    tokenizer = built(quantiser="gumbel", final_temperature=0.25, anneal_steps=4)
    found = [tokenizer._temperature().item() for _ in range(6)]
    shares = [0, 0.25, 0.5, 0.75, 1, 1]
    wanted = [0.25 + 0.75 * (1 + math.cos(math.pi * share)) / 2 for share in shares]
    assert found == pytest.approx(wanted)
    tokenizer.eval()(images())
    assert tokenizer.num_passes.item() == 6, "a pass in use is none of training"


def test_codes_that_are_used_alike_cost_nothing() -> None:
    """Check the KL divergence to the uniform distribution, in nats per token."""
    tokenizer = built(quantiser="gumbel", kl_weight=2.0).eval()
    with torch.no_grad():
        nn.init.zeros_(tokenizer.shares.weight)
        tokenizer.shares.bias.zero_()
    assert tokenizer(images()).penalty.abs().max() < 1e-12
    with torch.no_grad():
        tokenizer.shares.bias[3] = 100.0
    torch.testing.assert_close(
        tokenizer(images()).penalty, torch.full((3,), 2 * math.log(12)).double()
    )


def test_weight_decay_leaves_codes_alone() -> None:
    assert "codes.weight" in ImageTokenizer.no_weight_decay
    assert "codes.weight" in dict(built().named_parameters())


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"cell": 6}, "discrete_vae: cell=6 is not a power of two"),
        ({"cell": 1}, "discrete_vae: cell=1 is not at least 2"),
        ({"codes": 1}, "discrete_vae: codes=1 is not at least 2"),
        ({"kl_weight": 0.5}, "discrete_vae: kl_weight=0.5 is of quantiser='gumbel'"),
        (
            {"quantiser": "gumbel", "commitment": 1.0},
            "discrete_vae: commitment=1.0 is of quantiser='straight_through'",
        ),
        (
            {"quantiser": "gumbel", "final_temperature": 0.0},
            "discrete_vae: final_temperature=0.0 is not above 0",
        ),
    ],
)
def test_a_code_that_cannot_be_is_refused(knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError) as refused:
        check_image_tokenizer(ImageTokenizerConfig(**knobs), "discrete_vae")
    assert str(refused.value) == said


def test_squares_must_fill_the_image() -> None:
    with pytest.raises(ModelError) as refused:
        built(cell=16)
    assert str(refused.value) == (
        "discrete_vae: cell=16 does not divide an image of 16 x 24 pixels"
    )
