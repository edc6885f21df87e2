"""Check properties of Mamba-2 that the reference does not cover."""

import pytest
import torch

from bakeoff.models import ModelError, build_mixer
from tests.models.small_models import tokens


def test_with_steps_of_zero_only_the_skip_is_left() -> None:
    """Check that without writes the norm gets D x silu(G u) only."""
    torch.manual_seed(0)
    mixer = build_mixer("mamba2", dim=8, is_causal=True, short_conv=0).double()
    one, x = mixer.directions[0], tokens()
    one.decay.dt_bias.data.fill_(-1e3)
    values = torch.nn.functional.silu(one.mixed(x))[..., -16:]
    gated = values * torch.nn.functional.silu(one.let_through(x))
    normed = gated / (gated.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(mixer(x), mixer.output(normed))


def test_a_state_of_nothing_is_refused() -> None:
    with pytest.raises(ModelError, match="mamba2: state=0 is below 1"):
        build_mixer("mamba2", dim=8, state=0)
