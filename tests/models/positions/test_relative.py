"""Check positions that act on scores, and the numbers in their papers."""

import pytest
import torch

from bakeoff.models import build_mixer
from bakeoff.models.positions.relative import (
    ALiBiPosition,
    RotaryPosition,
    ShawPosition,
    T5Position,
)


def vectors(length: int, width: int = 8, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 4, length, width, generator=generator, dtype=torch.float64)


def test_rope_scores_depend_on_the_distance_alone() -> None:
    rope, queries, keys = _rope(), vectors(6), vectors(6, seed=2)
    places = torch.arange(6)

    def scores(shift: int) -> torch.Tensor:
        turned = rope.rotate(queries, places + shift), rope.rotate(keys, places + shift)
        return turned[0] @ turned[1].transpose(-1, -2)

    torch.testing.assert_close(scores(0), scores(1000), rtol=1e-9, atol=1e-9)
    assert not torch.allclose(scores(0), queries @ keys.transpose(-1, -2))


def test_rope_keeps_lengths_and_leaves_the_first_place_alone() -> None:
    rope, x = _rope(), vectors(6)
    turned = rope.rotate(x, torch.arange(6))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(turned[:, :, 0], x[:, :, 0])


def _rope() -> RotaryPosition:
    return RotaryPosition(heads=4, head_dim=8, is_causal=False)


def test_alibi_slopes_are_the_papers() -> None:
    """Check section 3: 8 heads have 1/2, 1/4, ..., 1/256."""
    alibi = ALiBiPosition(heads=8, head_dim=4, is_causal=True)
    bias = alibi.bias(torch.tensor([[0, -1, -5]]), torch.float64)
    slopes = torch.tensor([2.0**-h for h in range(1, 9)], dtype=torch.float64)
    torch.testing.assert_close(bias[:, 0], -slopes[:, None] * torch.tensor([0.0, 1.0, 5.0]))


@pytest.mark.parametrize(
    ("is_causal", "distances", "rows"),
    [
        (True, [0, -1, -15, -16, -32, -64, -127, -128, -9999], [0, 1, 15, 16, 21, 26, 31, 31, 31]),
        (False, [0, -1, -7, -8, -127, -9999, 1, 7, 8, 9999], [0, 1, 7, 8, 15, 15, 17, 23, 24, 31]),
    ],
)
def test_t5_buckets_are_the_papers(is_causal: bool, distances: list[int], rows: list[int]) -> None:
    t5 = T5Position(heads=4, head_dim=8, is_causal=is_causal)
    assert t5.bucket(torch.tensor(distances)).tolist() == rows


def test_shaw_clips_distances_and_starts_without_a_preference() -> None:
    shaw = ShawPosition(heads=4, head_dim=8, is_causal=False).double()
    far = torch.full((6, 6), 16)
    same = shaw.added_to_scores(vectors(6), far)
    torch.testing.assert_close(same, shaw.added_to_scores(vectors(6), 1000 * far))
    assert shaw.added_to_scores(vectors(6), far).abs().max() < 0.5


@pytest.mark.parametrize("position", ["rope", "alibi", "t5", "shaw"])
def test_a_shift_of_the_whole_sequence_changes_nothing(position: str) -> None:
    """Check that padding on the left, which moves every token, does not change distances."""
    mixer = build_mixer("attention", dim=32, position=position).double().eval()
    x, mask = vectors(9, 32)[0, :2], torch.arange(9) >= 4
    torch.testing.assert_close(mixer(x, mask.expand(2, 9))[:, 4:], mixer(x[:, 4:]))


@pytest.mark.parametrize("position", ["rope", "alibi", "t5", "shaw"])
def test_between_two_sequences_distances_mean_nothing(position: str) -> None:
    mixer = build_mixer("attention", dim=32, position=position).double()
    x, context = vectors(9, 32)[0, :2], vectors(5, 32, seed=2)[0, :2]
    torch.testing.assert_close(mixer(x, context=context), mixer(x, context=context.flip(1)))
    weights = mixer.attention_weights(x, context=context)
    flipped = mixer.attention_weights(x, context=context.flip(1))
    torch.testing.assert_close(weights, flipped.flip(-1))


def test_rope_keeps_its_digits_far_away() -> None:
    """Check precision: a float32 position of 4,000 times an angle would keep three digits."""
    rope, x = _rope(), vectors(1)
    place = torch.tensor([4001])
    truth = rope.rotate(x, place)
    torch.testing.assert_close(rope.rotate(x.float(), place).double(), truth, rtol=0, atol=1e-6)
    low = rope.rotate(x.bfloat16(), place).double()
    torch.testing.assert_close(low, truth, rtol=0, atol=0.05)
