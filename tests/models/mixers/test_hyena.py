"""Check properties of Hyena that the reference does not cover."""

import math

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.initialisation import declared


def mixer(is_causal: bool = True, max_length: int = 100, **knobs: object) -> Mixer:
    torch.manual_seed(0)
    built = build_mixer("hyena", dim=4, max_length=max_length, is_causal=is_causal, **knobs)
    return built.double().eval()


def tokens(length: int = 71) -> Tensor:
    return torch.randn(2, length, 4, dtype=torch.float64)


def test_without_filters_only_gates_and_d_are_left() -> None:
    hyena, x = mixer(short_conv=1), tokens()
    hyena.filters.last.weight.data.zero_()
    v, first, second = hyena.conv(hyena.streams(x)).chunk(3, dim=-1)
    expected = second * hyena.skip[1] * first * hyena.skip[0] * v
    torch.testing.assert_close(hyena(x), hyena.output(expected))


def test_steps_equal_the_parallel_form_over_many_tokens() -> None:
    hyena, x = mixer(), tokens()
    state, outputs = hyena.initial_state(2), []
    for x_t in x.unbind(dim=1):
        output, state = hyena.step(x_t, state)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, dim=1), hyena(x), rtol=0, atol=1e-11)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_windows_fall_to_a_hundredth_within_parts_of_the_length(shift: float) -> None:
    """Check the slowest channel's window after 1.5 lengths, and the fastest's after .3 of one."""
    filters = mixer(shift=shift, max_length=1001).filters
    flat = mixer(shift=shift, max_length=1001).filters
    flat.rates.zero_()
    places = torch.tensor([0, 300, 1000])
    windows = filters(places, torch.float64) / flat(places, torch.float64) * (1 + shift) - shift
    torch.testing.assert_close(windows[:, :, 0], torch.ones(2, 4, dtype=torch.float64))
    assert windows[:, -1, 1].tolist() == pytest.approx([0.01, 0.01], rel=1e-4)
    assert windows[:, 0, 2].tolist() == pytest.approx([0.01 ** (1 / 1.5)] * 2, rel=1e-4)


def test_a_filter_is_the_same_at_any_length_of_sequence() -> None:
    filters = mixer().filters
    long, short = (filters(torch.arange(length), torch.float64) for length in (90, 40))
    torch.testing.assert_close(long[..., :40], short)


def test_features_of_a_place_are_waves_of_whole_periods() -> None:
    filters = mixer(filter_bands=3).filters
    found = filters._features(torch.tensor([0.25], dtype=torch.float64), torch.tensor([25]))
    angles = [2 * math.pi * k * 25 / 100 for k in range(3)]
    assert found[0].tolist() == pytest.approx(
        [0.25, *map(math.cos, angles), *map(math.sin, angles)]
    )


def test_a_direction_that_is_turned_reads_from_the_end() -> None:
    """Check that swapped halves of all weights map a reversed sequence to the reversed output."""
    hyena, x = mixer(is_causal=False), tokens()
    expected = hyena(x).flip(1)
    swap = torch.tensor([2, 3, 0, 1])
    for owner in (hyena.streams.weight, hyena.conv.conv.weight, hyena.conv.conv.bias):
        owner.data = owner.data.unflatten(0, (3, 4))[:, swap].flatten(0, 1)
    last = hyena.filters.last.weight
    last.data = last.data.unflatten(0, (2, 4))[:, swap].flatten(0, 1)
    hyena.skip.data = hyena.skip.data[:, swap]
    hyena.output.weight.data = hyena.output.weight.data[:, swap]
    torch.testing.assert_close(hyena(x.flip(1)), expected)


def test_filters_keep_their_draw_and_do_not_decay() -> None:
    hyena = mixer()
    for kind in ("no_weight_decay", "keeps_own_draw"):
        assert set(hyena.filters.parameters()) <= declared(hyena, kind)
    assert hyena.filters.frequency.tolist() == [14.0] * 32


def test_a_step_beyond_the_filters_is_refused() -> None:
    hyena, x = mixer(max_length=1), tokens(2)
    _, state = hyena.step(x[:, 0], hyena.initial_state(2))
    with pytest.raises(ModelError, match="hyena takes at most max_length=1 tokens, not 2"):
        hyena.step(x[:, 1], state)


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ModelError, match="hyena: order=5 is above 4"):
        build_mixer("hyena", dim=8, order=5)
    with pytest.raises(ModelError, match="needs an even dim for its two directions, not dim=7"):
        build_mixer("hyena", dim=7)
    with pytest.raises(ModelError, match="hyena: filter_bands=0 is below 1"):
        build_mixer("hyena", dim=8, filter_bands=0)


def test_autocast_leaves_the_convolutions_in_float32() -> None:
    hyena, x = mixer().float(), tokens().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = hyena(x)
    error = (low - hyena(x)).square().mean().sqrt() / hyena(x).square().mean().sqrt()
    assert error < 0.03
