"""Check that heads are mixed before and after the softmax, and that masked tokens stay hidden."""

from __future__ import annotations

import pytest
import torch

from bakeoff.models import build_mixer
from tests.models.small_models import tokens

HEADS, DIM = 4, 8


def test_without_both_maps_it_is_attention() -> None:
    torch.manual_seed(0)
    ours = build_mixer("talking_heads", dim=DIM, has_map_before=False, has_map_after=False)
    attention = build_mixer("attention", dim=DIM)
    attention.load_state_dict(ours.state_dict())
    x = tokens(7, DIM)
    torch.testing.assert_close(ours.double()(x), attention.double()(x))


def test_maps_that_change_nothing_are_attention() -> None:
    ours = build_mixer("talking_heads", dim=DIM)
    attention = build_mixer("attention", dim=DIM)
    for each in (ours.before, ours.after):
        each.weight.data, each.bias.data = torch.eye(HEADS), torch.zeros(HEADS)
    attention.load_state_dict(ours.state_dict(), strict=False)
    x = tokens(7, DIM)
    torch.testing.assert_close(ours.double()(x), attention.double()(x))


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_bias_after_the_softmax_is_a_sum_over_what_is_seen(is_causal: bool) -> None:
    """Check a map of zeros: each head adds its bias times all values that it may attend to."""
    mixer = build_mixer("talking_heads", dim=DIM, is_causal=is_causal).double()
    mixer.after.weight.data.zero_()
    x, length = tokens(6, DIM), torch.tensor([6, 4])
    mask = torch.arange(6) < length[:, None]
    values = mixer.value(x) * mask.unsqueeze(-1)
    summed = values.cumsum(dim=1) if is_causal else values.sum(dim=1, keepdim=True).expand_as(x)
    expected = mixer.output(summed * mixer.after.bias.repeat_interleave(DIM // HEADS))
    torch.testing.assert_close(mixer(x, mask)[mask], expected[mask])


def test_the_bias_before_the_softmax_moves_nothing() -> None:
    mixer, x = build_mixer("talking_heads", dim=DIM).double(), tokens(6, DIM)
    before = mixer(x)
    mixer.before.bias.data += torch.randn(HEADS).double()
    torch.testing.assert_close(mixer(x), before)
