"""Check properties of local attention that the reference does not cover."""

import pytest
import torch

from bakeoff.models import build_mixer
from tests.models.small_models import tokens


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("position", [None, "rope", "alibi", "t5"])
def test_a_window_over_everything_is_attention(position: str | None, is_causal: bool) -> None:
    settings = {"dim": 8, "is_causal": is_causal, "position": position}
    local = build_mixer("local_attention", window=40, **settings).double()
    attention = build_mixer("attention", **settings).double()
    attention.load_state_dict(local.state_dict())
    x = tokens(40)
    torch.testing.assert_close(local(x), attention(x))
    torch.testing.assert_close(local.attention_weights(x), attention.attention_weights(x))


@pytest.mark.parametrize("window", [1, 7, 32, 33])
def test_blocks_do_not_show(window: int) -> None:
    """Check that a query attends to the same window in whichever block it lies."""
    mixer, x = build_mixer("local_attention", dim=8, window=window).double(), tokens(150)
    shifted = mixer(x[:, 11:])[:, window : -window or None]
    torch.testing.assert_close(mixer(x)[:, 11:][:, window : -window or None], shifted)


def test_time_and_memory_grow_with_the_length_alone() -> None:
    mixer = build_mixer("local_attention", dim=8, window=16)
    assert mixer.flops(2**20) == 16 * mixer.flops(2**16)
    with torch.profiler.profile(profile_memory=True) as profile, torch.no_grad():
        mixer(tokens(2048).float())
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert largest < 2 * 4 * 2048 * 2048 * 4 / 10  # a tenth of all scores
