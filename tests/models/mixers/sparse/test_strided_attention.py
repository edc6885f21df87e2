"""Check properties of strided attention that the reference does not cover."""

from functools import partial
from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from tests.models import small_models

tokens = partial(small_models.tokens, 21)


def build(**knobs: Any) -> Mixer:
    torch.manual_seed(0)
    return build_mixer("strided_attention", dim=8, **{"heads": 2, "stride": 4, **knobs}).double()


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize(
    "everything",
    [
        {"stride": 32},
        {"pattern": "strided", "stride": 32},
        {"summaries": 4},
        {"pattern": "strided", "stride": 1},
    ],
    ids=str,
)
def test_where_both_sets_hold_everything_it_is_attention(
    everything: dict[str, Any], is_causal: bool
) -> None:
    mixer = build(joined="merged", is_causal=is_causal, **everything)
    x, mask = tokens(), torch.arange(21) < torch.tensor([[21], [13]])
    attention = build_mixer("attention", dim=8, heads=2, is_causal=is_causal).double()
    attention.load_state_dict(mixer.state_dict())
    torch.testing.assert_close(mixer(x), attention(x))
    torch.testing.assert_close(mixer(x, mask)[mask], attention(x, mask)[mask])


def test_each_head_of_two_sees_its_own_set() -> None:
    """Find the inputs of each causal head by gradients: the first four channels, the last four."""
    sets = {
        "strided": ([16, 17, 18, 19, 20], [0, 4, 8, 12, 16, 20]),
        "fixed": ([20], [3, 7, 11, 15, 19]),
    }
    for pattern, (near, far) in sets.items():
        mixer, x = build(pattern=pattern, summaries=None, is_causal=True), tokens()[:1]
        mixer.output.weight.data = torch.eye(8).double()
        slopes = torch.autograd.functional.jacobian(lambda x, m=mixer: m(x)[0, 20], x)[:, 0]
        is_moved = (slopes.reshape(2, 4, 21, 8) != 0).any(dim=-1).any(dim=1)
        # A query token has no effect on its weights over a single key, but a large one over
        # several.
        assert is_moved[0].nonzero().flatten().tolist() == near
        assert is_moved[1].nonzero().flatten().tolist() == sorted({*far, 20})


def test_keys_that_are_compared_grow_with_the_root_of_the_length() -> None:
    """Check the strided pattern with a stride of n^.5, without the projections."""
    pairs = []
    for length in (256, 4096):
        mixer = build(pattern="strided", stride=int(length**0.5), is_causal=True)
        pairs.append(mixer.flops(length) - 4 * 2 * length * 8**2)
    assert pairs[1] / pairs[0] == 16**1.5


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ModelError, match="heads=1 is odd; give even ones, or joined='merged'"):
        build(heads=1)
    with pytest.raises(ModelError, match="summaries=2 is refused by pattern='strided'"):
        build(pattern="strided", summaries=2)
    for wrong in (0, 5):
        with pytest.raises(ModelError, match=f"summaries={wrong} is not within 1 and stride=4"):
            build(summaries=wrong)
