"""Compare the noise of pairs with the Gumbel distribution and with independent samples."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from bakeoff.models.kernels.pair_noise import draw_pairs, gumbel_of_pairs


def noise(batch: int, queries: int, keys: int, *, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    shapes = (torch.empty(batch, 1, each, 1) for each in (queries, keys))
    return gumbel_of_pairs(*draw_pairs(*shapes))[:, 0]


@pytest.mark.parametrize(("queries", "keys"), [(1, 400_000), (400_000, 1), (600, 600)])
def test_it_has_the_distribution_of_gumbel(queries: int, keys: int) -> None:
    found = noise(1, queries, keys).flatten()
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    assert (
        stats.kstest(found.numpy()[:: max(1, found.numel() // 100_000)], "gumbel_r").pvalue > 0.01
    )
    assert found.mean().item() == pytest.approx(0.5772, abs=4 * 1.2826 / math.sqrt(found.numel()))
    for level in (5.0, 8.0):  # the largest noises decide which key is sampled
        expected = -math.expm1(-math.exp(-level))
        share = (found > level).double().mean().item()
        assert share == pytest.approx(expected, abs=4 * math.sqrt(expected / found.numel()))


def test_samples_of_two_and_three_queries_are_independent() -> None:
    keys, num = 5, 200_000
    samples = noise(num, 3, keys).argmax(dim=-1)  # of the same keys, in each of many sequences
    for order in (2, 3):
        places = sum(samples[:, i] * keys**i for i in range(order))
        counts = torch.bincount(places, minlength=keys**order).numpy()
        assert stats.chisquare(counts).pvalue > 0.001


def test_queries_of_one_sequence_sample_independently() -> None:
    """Check how often each key is sampled, and how often two neighbours sample the same one."""
    queries, keys = 2000, 50
    samples = noise(1, queries, keys)[0].argmax(dim=-1)
    counts = torch.bincount(samples, minlength=keys)
    assert stats.chisquare(counts.numpy()).pvalue > 0.001
    same = (samples[1:] == samples[:-1]).double().mean().item()
    assert same == pytest.approx(1 / keys, abs=4 * math.sqrt(1 / keys / queries))


def test_it_is_a_function_of_the_seed_and_of_the_pair_alone() -> None:
    whole = noise(2, 7, 9)
    torch.manual_seed(0)
    rows, columns = draw_pairs(torch.empty(2, 1, 7, 1), torch.empty(2, 1, 9, 1))
    part = gumbel_of_pairs(rows[:, :, 3:5], columns[:, :, :4])[:, 0]
    assert torch.equal(part, whole[:, 3:5, :4])
    assert not torch.equal(whole, noise(2, 7, 9, seed=1))


@pytest.mark.gpu
def test_a_gpu_computes_the_noise_that_the_cpu_computes() -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    torch.manual_seed(0)
    numbers = draw_pairs(torch.empty(2, 3, 40, 1), torch.empty(2, 3, 50, 1))
    found = gumbel_of_pairs(*(each.cuda() for each in numbers)).cpu()
    torch.testing.assert_close(found, gumbel_of_pairs(*numbers))
