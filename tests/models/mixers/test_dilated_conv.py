"""Check properties of the dilated convolution that the reference does not cover."""

from functools import partial
from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from tests.models import small_models
from tests.models.small_models import sees

tokens = partial(small_models.tokens, 17, batch=5)


def dilated(layer: int, is_causal: bool = False, **knobs: Any) -> Mixer:
    """Build the mixer as it stands in this layer of a stack."""
    mixer = build_mixer("dilated_conv", dim=8, is_causal=is_causal, **knobs).double()
    mixer.take_place(layer, mixer)
    return mixer


def test_taps_stand_twice_as_far_apart_in_every_layer_until_they_start_again() -> None:
    layers = [dilated(layer, num_dilations=5).dilation for layer in range(7)]
    assert layers == [1, 2, 4, 8, 16, 1, 2]
    assert dilated(3, is_causal=True, dilation_base=3).dilation == 27


@pytest.mark.parametrize("is_causal", [False, True])
def test_dilation_one_is_the_plain_convolution(is_causal: bool) -> None:
    plain = build_mixer("conv", dim=8, is_causal=is_causal).double()
    for mixer in (dilated(0, is_causal), dilated(3, is_causal, dilation_base=1)):
        mixer.load_state_dict(plain.state_dict())
        assert torch.equal(mixer(tokens()), plain(tokens()))


@pytest.mark.parametrize("is_causal", [False, True])
def test_is_a_plain_convolution_of_every_second_token(is_causal: bool) -> None:
    plain, mixer = build_mixer("conv", dim=8, is_causal=is_causal).double(), dilated(1, is_causal)
    mixer.load_state_dict(plain.state_dict())
    x = tokens()
    for first in (0, 1):
        torch.testing.assert_close(mixer(x)[:, first::2], plain(x[:, first::2]))


@pytest.mark.parametrize("layer", [1, 2, 4, 5, 100])
@pytest.mark.parametrize("is_causal", [False, True])
def test_every_layer_equals_its_reference_under_padding(is_causal: bool, layer: int) -> None:
    mixer, x = dilated(layer, is_causal, num_dilations=100), tokens()
    mask = torch.rand(5, 17, generator=torch.Generator().manual_seed(2)) < 0.7
    torch.testing.assert_close(mixer(x, mask), mixer.reference(x, mask))


@pytest.mark.parametrize("layer", [1, 2, 3, 5, 100])
def test_every_layer_steps_as_it_runs_and_holds_what_it_says(layer: int) -> None:
    mixer, x = dilated(layer, is_causal=True, num_dilations=101), tokens()
    state, outputs = mixer.initial_state(5), []
    for t in range(17):
        output, state = mixer.step(x[:, t], state)
        outputs.append(output)
        assert mixer.state_bytes(t + 1) == 4 * state[0][0].numel()
    torch.testing.assert_close(torch.stack(outputs, dim=1), mixer(x))


@pytest.mark.parametrize(
    ("depth", "is_causal", "knobs"),
    [
        (4, True, {"kernel_size": 3, "dilation_base": 3}),  # 2 + 6 + 18 + 54 tokens
        (3, True, {"kernel_size": 4, "dilation_base": 3}),  # 3 + 9 + 27
        (20, True, {"kernel_size": 2, "num_dilations": 2}),  # 1 + 2, ten times
        (4, False, {"kernel_size": 5, "dilation_base": 3}),
        (14, False, {"kernel_size": 3, "num_dilations": 3}),  # 1 + 2 + 4 four times, 1 + 2
    ],
)
def test_layers_see_everything_after_so_many_and_not_before(
    depth: int, is_causal: bool, knobs: dict[str, int]
) -> None:
    length = 31
    seen, everything = torch.eye(length), torch.ones(length, length).bool()
    everything = everything.tril() if is_causal else everything
    for layer in range(depth):
        assert not torch.equal(seen > 0, everything)
        seen = sees(dilated(layer, is_causal, **knobs), length).float() @ seen
    assert torch.equal(seen > 0, everything)


@pytest.mark.parametrize(
    ("is_causal", "kernel_size", "limit"),
    [(True, 3, 3), (True, 2, 2), (False, 3, 2), (False, 7, 4)],
)
def test_a_base_that_would_leave_tokens_unseen_is_refused(
    is_causal: bool, kernel_size: int, limit: int
) -> None:
    dilated(1, is_causal, kernel_size=kernel_size, dilation_base=limit)
    with pytest.raises(
        ModelError, match=f"dilation_base={limit + 1} is above {limit}, the largest"
    ):
        dilated(1, is_causal, kernel_size=kernel_size, dilation_base=limit + 1)
