"""Check properties of the Performer that the reference does not cover."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, build_mixer
from bakeoff.models.mixers.performer import draw_directions
from tests.models.small_models import stepped, tokens

WIDTH = 8


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(seed: int = 0, is_causal: bool = False, **knobs: Any) -> Mixer:
    torch.manual_seed(seed)
    return build_mixer("performer", dim=16, is_causal=is_causal, **{"heads": 2, **knobs}).double()


@pytest.mark.parametrize("is_orthogonal", [False, True])
def test_products_of_features_are_unbiased(is_orthogonal: bool) -> None:
    """Check Lemma 1: the mean over draws is exp(q.k), within four standard errors."""
    num_draws, width = 20_000, 4
    q = torch.tensor([-0.9, 0.2, 0.4, 0.1], dtype=torch.float64)
    k = torch.tensor([-0.8, 0.5, -0.1, 0.3], dtype=torch.float64)
    w = draw_directions(num_draws * width, width, is_orthogonal, generator())
    products = torch.exp(w @ (q + k) - (q @ q + k @ k) / 2)
    estimates = products.unflatten(0, (num_draws, width)).mean(dim=1)  # one per block
    error = (estimates.mean() - torch.exp(q @ k)).abs()
    assert error < 4 * estimates.std() / math.sqrt(num_draws)
    assert estimates.std() / math.sqrt(num_draws) < 0.02 * torch.exp(q @ k)


@pytest.mark.parametrize("is_orthogonal", [False, True])
def test_each_row_is_a_standard_normal_vector(is_orthogonal: bool) -> None:
    """Check random signs: a QR decomposition alone gives a first row that points to one side."""
    num_draws, width = 20_000, 4
    w = draw_directions(num_draws * width, width, is_orthogonal, generator())
    rows = w.unflatten(0, (num_draws, width))
    assert rows.mean(dim=0).abs().max() < 5 / math.sqrt(num_draws)
    for row in range(width):
        covariance = rows[:, row].T @ rows[:, row] / num_draws
        torch.testing.assert_close(covariance, torch.eye(width).double(), rtol=0, atol=0.05)
    fourth = w.square().sum(dim=1).square().mean().item()
    assert math.isclose(fourth, width * (width + 2), rel_tol=0.05)  # chi-squared, not a constant


def test_rows_are_orthogonal_in_blocks_with_norms_of_their_own() -> None:
    w = draw_directions(20, WIDTH, True, generator())
    for block in w.split(WIDTH):
        norms = block.norm(dim=1)
        torch.testing.assert_close(block @ block.T, norms.square().diag())
        assert len(norms.unique()) == len(block)
    assert (w[:WIDTH] @ w[WIDTH : 2 * WIDTH].T).abs().max() > 0.1


def error(num_features: int, is_orthogonal: bool, num_draws: int = 30) -> float:
    """Return the root mean square distance to softmax attention with equal projections, over draws.

    Inputs are short enough for the variance of a feature, of the order of exp(|q + k|^2 / sqrt(d)),
    to be below the number of features.
    """
    torch.manual_seed(0)
    exact, x = build_mixer("attention", dim=16, heads=2).double(), 0.3 * tokens(24, 16)
    mixer = build(num_features=num_features)
    mixer.load_state_dict(exact.state_dict(), strict=False)
    draws, squares = generator(), []
    with torch.no_grad():
        for _ in range(num_draws):
            mixer.directions = draw_directions(num_features, WIDTH, is_orthogonal, draws)
            squares.append((mixer(x) - exact(x)).square().mean())
    return torch.stack(squares).mean().sqrt().item()


@pytest.mark.parametrize("is_orthogonal", [False, True])
def test_the_error_falls_as_one_over_the_root_of_the_features(is_orthogonal: bool) -> None:
    sizes = [32, 64, 128, 256, 512]
    y = torch.tensor([error(size, is_orthogonal) for size in sizes]).log()
    x = torch.tensor(sizes).log()
    x = x - x.mean()
    assert (x @ y / (x @ x)).item() == pytest.approx(-0.5, abs=0.1)


@pytest.mark.parametrize("num_features", [16, 64])
def test_orthogonal_features_err_less_than_independent_ones(num_features: int) -> None:
    assert error(num_features, True, 200) < 0.97 * error(num_features, False, 200)


@pytest.mark.parametrize("is_causal", [False, True])
def test_is_the_product_of_features_normalised(is_causal: bool) -> None:
    mixer, x = build(is_causal=is_causal, heads=1), tokens(70, 16)
    queries, keys = mixer.query(x), mixer.key(x)
    phi = [torch.stack([mixer.feature(sequence) for sequence in each]) for each in (queries, keys)]
    weights = phi[0] @ phi[1].transpose(1, 2)
    weights = weights.tril() if is_causal else weights
    expected = weights / weights.sum(dim=-1, keepdim=True) @ mixer.value(x)
    torch.testing.assert_close(mixer(x), mixer.output(expected))


@torch.no_grad()
def test_keys_of_very_different_size_keep_the_past_alive() -> None:
    """Check that a key far larger than all before it does not erase them, parallel or stepped."""
    mixer, x = build(is_causal=True).float(), tokens(80, 16).float()
    x[:, :40] *= 30  # exponents near -500
    mixed = mixer(x)
    torch.testing.assert_close(mixed, stepped(mixer, x), rtol=1e-3, atol=1e-3)
    assert mixed[:, :40].abs().mean() > 1
    torch.testing.assert_close(mixed[:, :40], mixer(x[:, :40]), rtol=1e-3, atol=1e-3)


def drawn_in_training(mixer: Mixer, calls: int) -> list[Tensor]:
    """Return the features of each call."""
    mixer.train()
    found = []
    for _ in range(calls):
        mixer(tokens(24, 16))
        found.append(mixer.directions)
    return found


def test_the_call_in_training_after_every_n_draws_anew_and_no_other_does() -> None:
    mixer = build(redraw_interval=3)
    first = mixer.directions
    mixer.eval()
    for _ in range(5):
        mixer(tokens(24, 16))
    assert mixer.directions is first
    draws = drawn_in_training(mixer, 8)
    assert [draw is first for draw in draws] == [True, True, True] + 5 * [False]
    assert torch.equal(draws[3], draws[5])
    assert torch.equal(draws[6], draws[7])
    assert not torch.equal(draws[5], draws[6])
    assert len({round(draw.sum().item(), 9) for draw in draws}) == 3


def test_a_resumed_training_sees_the_same_draws(tmp_path: Any) -> None:
    mixer = build(redraw_interval=2)
    drawn_in_training(mixer, 3)
    torch.save(mixer.state_dict(), tmp_path / "state.pt")
    resumed = build(seed=5, redraw_interval=2)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for a, b in zip(drawn_in_training(mixer, 4), drawn_in_training(resumed, 4), strict=True):
        assert torch.equal(a, b)


def test_a_draw_between_two_calls_leaves_the_gradient_of_the_first_alone() -> None:
    """Check two compared inputs, with both calls before the one backward pass."""
    mixer, x = build(redraw_interval=1).train(), tokens(24, 16)
    alone = torch.autograd.grad(mixer(x).sum(), mixer.key.weight)[0]
    mixer.load_state_dict(build(redraw_interval=1).state_dict())
    first = mixer(x)
    mixer(x)
    assert torch.equal(torch.autograd.grad(first.sum(), mixer.key.weight)[0], alone)


def test_features_are_in_float32_under_autocast() -> None:
    mixer, x = build(is_causal=True).float(), tokens(24, 16).float()
    seen: list[torch.dtype] = []
    products = mixer._products
    mixer._products = lambda x: _noted(products(x), seen)  # type: ignore[method-assign]
    exact = mixer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = mixer(x)
    assert seen == 4 * [torch.float32]
    assert mixed.dtype is torch.bfloat16
    assert (mixed - exact).norm() < 0.02 * exact.norm()


def _noted(x: Tensor, seen: list[torch.dtype]) -> Tensor:
    seen.append(x.dtype)
    return x


def test_is_built_without_memory_on_the_meta_device() -> None:
    with torch.device("meta"):
        mixer = build_mixer("performer", dim=64)
    assert all(part.is_meta for part in [*mixer.parameters(), *mixer.buffers()])
