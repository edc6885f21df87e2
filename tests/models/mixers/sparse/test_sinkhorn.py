"""Check properties of Sinkhorn attention that the reference does not cover."""

from functools import partial
from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.mixers.sparse.sinkhorn import sinkhorn
from tests.models import small_models

tokens = partial(small_models.tokens, 20)


def build(**knobs: Any) -> Mixer:
    torch.manual_seed(0)
    knobs = {"heads": 2, "max_length": 32, "block": 4, **knobs}
    return build_mixer("sinkhorn", dim=8, **knobs).double()


def test_many_divisions_make_rows_and_columns_sum_to_one() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(2, 5, 5, generator=generator).double()
    shown = torch.ones(5, 5, dtype=torch.bool)
    shown[3], shown[:, 3] = False, False
    p = sinkhorn(logits, shown, 300)
    ones = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0]).double().expand(2, 5)
    torch.testing.assert_close(p.sum(dim=-1), ones)
    torch.testing.assert_close(p.sum(dim=-2), ones)
    assert torch.all(p[:, ~shown] == 0)


def test_a_low_temperature_finds_the_permutation() -> None:
    """Check huge logits that favour one permutation: they neither overflow nor lose it."""
    order = torch.tensor([2, 0, 3, 1])
    logits = torch.nn.functional.one_hot(order).float() * 1e5
    p = sinkhorn(logits, torch.ones(4, 4, dtype=torch.bool), 5)
    torch.testing.assert_close(p, torch.nn.functional.one_hot(order).float())


@pytest.mark.parametrize("length", [20, 32])
def test_within_a_single_block_it_is_attention(length: int) -> None:
    """Check that each key occurs twice, which does not change a softmax."""
    mixer, x = build(block=length, max_length=length), small_models.tokens(length)
    attention = build_mixer("attention", dim=8, heads=2).double()
    attention.load_state_dict(mixer.state_dict(), strict=False)
    torch.testing.assert_close(mixer(x), attention(x))


def test_equal_logits_give_every_block_the_mean_of_all() -> None:
    """Check P = 1 / blocks everywhere: keys of the mean block follow each block's own keys."""
    mixer, x = build(), tokens()[:1]
    mixer.columns.data.zero_()
    split = (each(x).reshape(5, 4, 2, 4) for each in (mixer.query, mixer.key, mixer.value))
    queries, keys, values = split
    keys, values = (
        torch.cat([each, each.mean(dim=0, keepdim=True).expand_as(each)], dim=1)
        for each in (keys, values)
    )
    weights = (torch.einsum("nqhd,nkhd->nhqk", queries, keys) / 2).softmax(dim=-1)
    expected = torch.einsum("nhqk,nkhd->nqhd", weights, values).reshape(1, 20, 8)
    torch.testing.assert_close(mixer(x), mixer.output(expected))


def test_no_temperature_is_refused() -> None:
    with pytest.raises(ModelError, match=r"sinkhorn: temperature=0\.0 is not above 0"):
        build(temperature=0.0)
