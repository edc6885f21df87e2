"""Compare the fast forms of sums of feature products with the products themselves."""

import math

import pytest
import torch
from torch import Tensor

from bakeoff.models.kernels.kernel_attention import Features, over_all, over_past, sums_before
from tests.models.small_models import OperationNames

CHUNKS = (1, 2, 7, 64, 1000)


def features(
    length: int, width: int = 3, num_features: int = 5, spread: float | None = 1.0, seed: int = 0
) -> Features:
    """Draw two sequences with two heads; log scales lie within `spread`, or are absent."""
    generator = torch.Generator().manual_seed(seed)
    shape = (2, 2, length)

    def draw(*more: int) -> Tensor:
        return torch.rand(*shape, *more, generator=generator, dtype=torch.float64)

    values = torch.cat([draw(width) - 0.5, torch.ones(*shape, 1, dtype=torch.float64)], dim=-1)
    return Features(
        queries=draw(num_features),
        keys=draw(num_features),
        values=values,
        log_scale=None if spread is None else spread * (draw() - 0.5),
    )


def masked_product(given: Features, is_causal: bool) -> Tensor:
    """Compute all products of two tokens, in a matrix of length by length."""
    products = (given.queries @ given.keys.transpose(-1, -2)).log()
    if given.log_scale is not None:
        products = products + given.log_scale.unsqueeze(-2)
    if is_causal:
        length = products.shape[-1]
        future = torch.ones(length, length).triu(1).bool()
        products = products.masked_fill(future, -torch.inf)
    return products.softmax(dim=-1) @ given.values[..., :-1]


@pytest.mark.parametrize("spread", [None, 1.0, 1000.0])
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 130, 200])
def test_sums_over_chunks_are_the_masked_product(length: int, spread: float | None) -> None:
    given = features(length, spread=spread)
    torch.testing.assert_close(over_all(given), masked_product(given, is_causal=False))
    expected = masked_product(given, is_causal=True)
    for chunk in CHUNKS:
        torch.testing.assert_close(over_past(given, chunk), expected)


@pytest.mark.parametrize("num_chunks", [1, 2, 3, 4, 5, 8, 13, 16])
def test_sums_before_a_chunk_are_those_of_all_earlier_ones(num_chunks: int) -> None:
    generator = torch.Generator().manual_seed(0)
    sums = torch.randn(2, 3, num_chunks, 4, 5, generator=generator, dtype=torch.float64)
    peaks = 3 * torch.randn(2, 3, num_chunks, generator=generator, dtype=torch.float64)
    before = sums_before(sums, peaks)
    assert torch.all(before[:, :, 0] == 0)
    whole = sums * peaks.exp()[..., None, None]
    for c in range(1, num_chunks):
        peak = peaks[:, :, :c].amax(dim=2).exp()[..., None, None]
        torch.testing.assert_close(before[:, :, c] * peak, whole[:, :, :c].sum(dim=2))


def test_what_is_to_come_changes_no_bit_of_what_was() -> None:
    given = features(100, spread=1.0)
    later = features(100, spread=1.0, seed=1)
    keys, values, scale = given.keys.clone(), given.values.clone(), given.log_scale.clone()
    keys[:, :, 50:], values[:, :, 50:] = later.keys[:, :, 50:], later.values[:, :, 50:]
    scale[:, :, 50:] = 1e4  # a maximum over all keys would erase the past
    changed = Features(queries=given.queries, keys=keys, values=values, log_scale=scale)
    for chunk in CHUNKS:
        past, same = over_past(given, chunk), over_past(changed, chunk)
        assert torch.equal(past[:, :, :50], same[:, :, :50])
        assert not torch.equal(past[:, :, 50:], same[:, :, 50:])


@pytest.mark.parametrize("overlap", [0.0, 1e-35, 1e-20])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_denominator_that_underflows_gives_finite_numbers(
    overlap: float, is_causal: bool
) -> None:
    queries = torch.tensor([1.0, overlap]).expand(1, 1, 8, 2).clone().requires_grad_()
    keys = torch.tensor([0.0, 1.0]).expand(1, 1, 8, 2).clone().requires_grad_()
    values = torch.full((1, 1, 8, 3), 2.0)
    values[..., -1] = 1.0
    given = Features(queries=queries, keys=keys, values=values, log_scale=torch.zeros(1, 1, 8))
    mixed = over_past(given, 4) if is_causal else over_all(given)
    expected = 2.0 if overlap > 1e-28 else 0.0
    torch.testing.assert_close(mixed, torch.full_like(mixed, expected))
    mixed.sum().backward()
    assert queries.grad.isfinite().all()
    assert keys.grad.isfinite().all()


def operations_and_kept_bytes(length: int) -> tuple[int, int]:
    """Return the operations of one causal pass, and the bytes kept from forward to backward."""
    given = features(length, width=16, num_features=16)
    inputs = [given.queries.requires_grad_(), given.keys.requires_grad_()]
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with OperationNames() as noted, torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        torch.autograd.grad(over_past(given, 64).sum(), inputs)
    return len(noted.names), sum(kept.values())


def test_operations_do_not_grow_with_the_length_and_memory_grows_with_it_alone() -> None:
    """Check that no loop over tokens or chunks runs: twice the length adds one round of pairs."""
    (few, little), (more, much), (most, huge) = (
        operations_and_kept_bytes(length) for length in (1024, 2048, 4096)
    )
    assert most - more == more - few < 100
    assert math.isclose(much / little, 2, rel_tol=0.05)
    assert math.isclose(huge / much, 2, rel_tol=0.05)
