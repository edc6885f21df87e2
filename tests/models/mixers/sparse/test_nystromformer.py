"""Check properties of the Nystromformer that the reference does not cover."""

from functools import partial
from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.mixers.sparse.nystromformer import pseudo_inverse
from tests.models import small_models

tokens = partial(small_models.tokens, 12)


def build(**knobs: Any) -> Mixer:
    torch.manual_seed(0)
    knobs = {"heads": 2, "kernel_size": 0, **knobs}
    return build_mixer("nystromformer", dim=8, **knobs).double()


def test_with_a_landmark_for_each_token_it_is_attention() -> None:
    """Check that A times its inverse times A is A, once the iteration has converged."""
    mixer, x = build(landmarks=12, inverse_steps=40), tokens()
    attention = build_mixer("attention", dim=8, heads=2).double()
    attention.load_state_dict(mixer.state_dict())
    mask = torch.arange(12) < torch.tensor([[12], [7]])
    torch.testing.assert_close(mixer(x), attention(x), rtol=1e-4, atol=1e-4)
    found, wanted = mixer(x, mask)[mask], attention(x, mask)[mask]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_more_landmarks_come_nearer_to_attention() -> None:
    attention = build_mixer("attention", dim=8, heads=2).double()
    attention.load_state_dict(build().state_dict())
    x = small_models.tokens(64).cumsum(dim=1) / 8  # neighbours are alike
    wanted = attention(x)
    errors = [(build(landmarks=m, inverse_steps=40)(x) - wanted).norm() for m in (2, 8, 32)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_the_iteration_finds_the_pseudo_inverse() -> None:
    a = torch.rand(3, 5, 5, dtype=torch.float64).softmax(dim=-1) + torch.eye(5).double()
    a[1, 4], a[1, :, 4] = 0, 0  # like a missing landmark
    torch.testing.assert_close(pseudo_inverse(a, 20), torch.linalg.pinv(a))
    assert torch.equal(pseudo_inverse(torch.zeros(2, 2), 6), torch.zeros(2, 2))


def test_padding_has_no_part_in_any_landmark() -> None:
    """Check holes too: segments consist of the real tokens."""
    mixer, x = build(landmarks=3), tokens(batch=1)
    mask = torch.tensor([5 * [False, True] + [True, False]])
    torch.testing.assert_close(mixer(x, mask)[mask], mixer(x[mask].unsqueeze(0))[0])


def test_the_convolution_adds_each_head_its_own_sum_of_values() -> None:
    mixer, plain, x = build(kernel_size=3), build(), tokens()
    plain.load_state_dict(mixer.state_dict(), strict=False)
    with torch.no_grad():
        mixer.taps.copy_(torch.tensor([[1.0, 0, 0], [0, 0, 2]]))
        mixer.output.weight.copy_(torch.eye(8))
        plain.output.weight.copy_(torch.eye(8))
    values, added = mixer.value(x), mixer(x) - plain(x)
    torch.testing.assert_close(added[:, 1:, :4], values[:, :-1, :4])
    torch.testing.assert_close(added[:, :-1, 4:], 2 * values[:, 1:, 4:])


@pytest.mark.parametrize("size", [-1, 4])
def test_a_kernel_without_a_centre_is_refused(size: int) -> None:
    with pytest.raises(ModelError, match=f"kernel_size={size} is neither 0 nor an odd number"):
        build(kernel_size=size)
