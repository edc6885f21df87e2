"""Check properties of latent attention that the reference does not cover."""

from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.mixers.attentions.latent_attention import LatentAttention
from tests.models.small_models import tokens


def build(**knobs: Any) -> Mixer:
    torch.manual_seed(0)
    return build_mixer("latent_attention", dim=8, **knobs).double()


def test_without_norm_and_rotary_query_it_is_attention_with_keys_of_low_rank() -> None:
    mixer = build(heads=2, latent_dim=3, rope_dim=2, has_norm=False)
    assert isinstance(mixer, LatentAttention)
    attention = build_mixer("attention", dim=8, heads=2).double()
    per_head = mixer.query.weight.data.reshape(2, 6, 8)
    per_head[:, 4:] = 0.0  # disables the rotary key
    attention.load_state_dict(
        {
            # Scores are divided by sqrt(6) here, by sqrt(4) there.
            "query.weight": per_head[:, :4].flatten(0, 1) * (4 / 6) ** 0.5,
            "key.weight": mixer.key.weight @ mixer.down.weight,
            "value.weight": mixer.value.weight @ mixer.down.weight,
            "output.weight": mixer.output.weight,
        }
    )
    x = tokens(20)
    torch.testing.assert_close(mixer(x), attention(x))


def test_only_distances_count() -> None:
    """Check that tokens after some masked ones are mixed alike."""
    mixer, x = build(), tokens(20)
    later = torch.cat([tokens(7, seed=2), x], dim=1)
    mask = torch.arange(27).expand(2, -1) >= 7
    torch.testing.assert_close(mixer(later, mask)[:, 7:], mixer(x))


def test_a_step_makes_no_key_and_no_value() -> None:
    """Check that a step reads only the latents of 30 cached tokens, without the maps up."""
    mixer, x = build(is_causal=True), tokens(30)
    state = mixer.initial_state(2)
    for t in range(29):
        _, state = mixer.step(x[:, t], state)
    assert isinstance(mixer, LatentAttention)
    called: list[str] = []
    for name in ("key", "value"):
        getattr(mixer, name).register_forward_hook(lambda *_: called.append("up"))
    mixer.step(x[:, 29], state)
    assert not called
    assert [part.shape for part in state] == [(2, 29, 8), (2, 29, 2)]


def test_the_cache_does_not_grow_with_heads() -> None:
    """Check the paper's sizes, 4 d and d / 2: the cache of grouped_query with 2.25 heads."""
    mixer = build_mixer(
        "latent_attention", dim=1024, heads=16, latent_dim=256, rope_dim=32, is_causal=True
    )
    grouped = build_mixer("grouped_query", dim=1024, heads=16, key_value_heads=1, is_causal=True)
    assert mixer.state_bytes(10) == 2.25 * grouped.state_bytes(10)
    assert build_mixer("latent_attention", dim=1024, heads=16, is_causal=True).state_bytes(
        10
    ) == mixer.state_bytes(10)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"heads": 3}, "heads=3 does not divide dim=8"),
        ({"latent_dim": 0}, "latent_dim=0 is below 1"),
        ({"query_rank": 0}, "query_rank=0 is below 1"),
        ({"rope_dim": 3}, "rope_dim=3 is not an even number of at least 2"),
        ({"rope_dim": 0}, "rope_dim=0 is not an even number of at least 2"),
    ],
)
def test_a_knob_without_sense_is_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"latent_attention: {message}"):
        build(**knobs)
