"""Check properties of grouped-query attention that the reference does not cover."""

from typing import Any

import pytest
import torch

from bakeoff.models import ModelError, build_mixer
from tests.models.small_models import tokens


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("position", [None, "rope", "alibi", "t5"])
def test_a_head_of_keys_for_each_of_queries_is_attention(
    position: str | None, is_causal: bool
) -> None:
    settings: dict[str, Any] = {"dim": 8, "is_causal": is_causal, "position": position}
    grouped = build_mixer("grouped_query", key_value_heads=4, **settings).double()
    attention = build_mixer("attention", **settings).double()
    attention.load_state_dict(grouped.state_dict())
    x = tokens(20)
    torch.testing.assert_close(grouped(x), attention(x))
    torch.testing.assert_close(grouped.attention_weights(x), attention.attention_weights(x))


@pytest.mark.parametrize("shared", [1, 2])
def test_is_attention_whose_keys_and_values_repeat(shared: int) -> None:
    grouped = build_mixer("grouped_query", dim=16, heads=4, key_value_heads=shared).double()
    attention = build_mixer("attention", dim=16, heads=4).double()
    weights = {
        name: weight
        if len(weight) == 16
        else weight.reshape(shared, 4, 16).repeat_interleave(4 // shared, dim=0).flatten(0, 1)
        for name, weight in grouped.state_dict().items()
    }
    attention.load_state_dict(weights)
    x = tokens(20, 16)
    torch.testing.assert_close(grouped(x), attention(x))


def test_the_cache_shrinks_as_heads_are_shared() -> None:
    sizes = [
        build_mixer(
            "grouped_query", dim=64, heads=8, key_value_heads=shared, is_causal=True
        ).state_bytes(100)
        for shared in (1, 2, 8)
    ]
    assert sizes == [4 * 2 * 8 * 100, 2 * 4 * 2 * 8 * 100, 4 * 2 * 64 * 100]


@pytest.mark.parametrize("shared", [0, 3, 8])
def test_heads_that_cannot_be_shared_evenly_are_refused(shared: int) -> None:
    with pytest.raises(ModelError, match=f"key_value_heads={shared} does not divide heads=4"):
        build_mixer("grouped_query", dim=8, heads=4, key_value_heads=shared)


def test_shaw_is_refused() -> None:
    with pytest.raises(ModelError, match="shaw needs the weights in memory; take attention"):
        build_mixer("grouped_query", dim=8, position="shaw")
