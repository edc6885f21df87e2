"""Check properties of RWKV-7 that the reference does not cover, and the paper's formulas."""

import math

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, ModelError, build_mixer
from tests.models.small_models import tokens


def stirred(**knobs: object) -> Mixer:
    """Build a mixer with all parameters moved, since some maps start at zero."""
    torch.manual_seed(0)
    mixer = build_mixer("rwkv7", dim=8, heads=2, rank=3, gate_rank=3, **knobs).double()
    for parameter in mixer.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return mixer


def lerped(x: Tensor, share: Tensor) -> Tensor:
    before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
    return torch.lerp(x, before, share)


def by_the_paper(mixer: Mixer, x: Tensor) -> Tensor:
    """Compute the paper's row form: S is values by keys, with one transition matrix per token."""
    one = mixer.directions[0]
    r, w, k, v, a, g = (lerped(x, share) for share in one.shift)
    decay_logit = one.decay_bias + torch.tanh(w @ one.decay.down.weight.T) @ one.decay.up.weight.T
    decay = torch.exp(-math.exp(-0.5) * torch.sigmoid(decay_logit))
    rate = torch.sigmoid(one.rate_bias + a @ one.rate.down.weight.T @ one.rate.up.weight.T)
    gate = torch.sigmoid(g @ one.gate.down.weight.T) @ one.gate.up.weight.T
    r, k, v = r @ one.receptance.weight.T, k @ one.key.weight.T, v @ one.value.weight.T
    removal = torch.nn.functional.normalize((k * one.removal).reshape(-1, 2, 4), dim=-1).flatten(1)
    replacement = k * torch.lerp(torch.ones_like(rate), rate, one.replacement)
    heads = []
    for h in (slice(0, 4), slice(4, 8)):
        state, outputs = torch.zeros(4, 4, dtype=x.dtype), []
        for t in range(len(x)):
            gone = torch.outer(removal[t, h], rate[t, h] * removal[t, h])
            state = state @ (torch.diag(decay[t, h]) - gone)
            state = state + torch.outer(v[t, h], replacement[t, h])
            outputs.append(state @ r[t, h])
        bonus = (r * one.bonus * replacement)[:, h].sum(dim=1, keepdim=True) * v[:, h]
        heads.append((torch.stack(outputs), bonus))
    read, bonus = (torch.cat(parts, dim=1) for parts in zip(*heads, strict=True))
    normed = torch.nn.functional.group_norm(read, 2, one.gain, one.offset, eps=64e-5)
    return ((normed + bonus) * gate) @ mixer.output.weight.T


def test_it_is_the_papers_formula() -> None:
    mixer, x = stirred(is_causal=True), tokens()
    expected = torch.stack([by_the_paper(mixer, each) for each in x])
    torch.testing.assert_close(mixer(x), expected)


@pytest.mark.parametrize("is_causal", [True, False])
def test_fast_form_equals_reference_where_no_map_is_zero(is_causal: bool) -> None:
    mixer, x = stirred(is_causal=is_causal), tokens()
    mask = torch.ones(x.shape[:2], dtype=torch.bool)
    mask[0, 2], mask[1, -1] = False, False
    torch.testing.assert_close(mixer(x), mixer.reference(x))
    fast, slow = mixer(x, mask), mixer.reference(x, mask)
    torch.testing.assert_close(fast[mask], slow[mask])


def test_vectors_start_as_the_authors_bottom_layer() -> None:
    """Check that decays range from slow to fast, with a ramp within each head."""
    one = build_mixer("rwkv7", dim=64, heads=4, is_causal=True).directions[0]
    assert one.decay_bias[0].item() == pytest.approx(-6 + 0.5 - 2.5)
    assert one.decay_bias[-1].item() == pytest.approx(0.5 + 2.5)
    assert one.rate_bias[-1].item() == pytest.approx(-0.19 + 0.3 + 0.2)
    assert one.shift[:, 0].tolist() == 6 * [1.0]
    assert one.shift[1, 32].item() == pytest.approx(1 - 0.5**0.9)
    assert not one.decay.down.weight.any()


def test_heads_of_one_channel_and_chunks_that_overflow_are_refused() -> None:
    with pytest.raises(ModelError, match="heads=8 leaves a head of dim=8 one channel"):
        build_mixer("rwkv7", dim=8, heads=8)
    with pytest.raises(ModelError, match="rwkv7: chunk=65 is above 64"):
        build_mixer("rwkv7", dim=8, chunk=65)
