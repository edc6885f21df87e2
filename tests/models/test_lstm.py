"""Laws of the LSTM that the reference does not settle."""

import torch
from torch import Tensor

from models import build_mixer


def tokens(batch: int = 2, length: int = 7, dim: int = 8, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)


def test_padded_tokens_are_as_if_they_were_not_there() -> None:
    mask = torch.tensor([[False, True, True, False, True, False, True]])
    for is_causal in (False, True):
        mixer, x = build_mixer("lstm", dim=8, is_causal=is_causal).double(), tokens(batch=1)
        torch.testing.assert_close(mixer(x, mask)[mask], mixer(x[:, mask[0]])[0])
        assert torch.all(mixer(x, mask)[~mask] == 0)


def test_flipping_time_swaps_the_two_directions() -> None:
    mixer, x = build_mixer("lstm", dim=8).double(), tokens()
    flipped = build_mixer("lstm", dim=8).double()
    swapped = {
        (key.removesuffix("_reverse") if key.endswith("_reverse") else f"{key}_reverse"): value
        for key, value in mixer.state_dict().items()
    }
    flipped.load_state_dict(swapped)
    expected = mixer(x).roll(4, dims=-1)  # the halves change places
    torch.testing.assert_close(flipped(x.flip(1)).flip(1), expected)


def test_each_direction_is_half_as_wide_so_that_the_output_keeps_its_width() -> None:
    full, causal = build_mixer("lstm", dim=64), build_mixer("lstm", dim=64, is_causal=True)
    count = [sum(p.numel() for p in mixer.parameters()) for mixer in (full, causal)]
    assert count == [2 * 4 * (64 * 32 + 32 * 32 + 2 * 32), 4 * (64 * 64 + 64 * 64 + 2 * 64)]
    assert causal.state_bytes(1) == causal.state_bytes(10_000) == 2 * 64 * 4


def test_state_carries_over_from_a_prefix() -> None:
    mixer, x = build_mixer("lstm", dim=8, is_causal=True).double(), tokens()
    whole, (hidden, cell) = mixer.lstm(x)
    state = mixer.initial_state(2)
    for t in range(7):
        _, state = mixer.step(x[:, t], state)
    torch.testing.assert_close(state, (hidden[0], cell[0]))
    torch.testing.assert_close(state[0], whole[:, -1])
