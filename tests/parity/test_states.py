"""Check that mixers with a matrix state equal `transformers`, or their authors' package.

The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import build_mixer
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.state_chunks import chunked
from tests.benchmarks import state_peers
from tests.benchmarks.duels import SAME, farthest
from tests.benchmarks.places import Shape

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]


def test_the_gated_delta_rule_is_that_of_qwen3_next() -> None:
    """Compare with theirs, which scales queries and has the time axis before the heads."""
    from transformers.models.qwen3_next import modeling_qwen3_next as theirs

    generator = torch.Generator().manual_seed(0)

    def draw(*width: int) -> Tensor:
        return torch.randn(2, 70, 3, *width, generator=generator)

    queries, keys = (torch.nn.functional.normalize(draw(8), dim=-1) for _ in range(2))
    values, log_decay, strength = draw(16), -draw().exp(), draw().sigmoid()
    streams = Streams(
        queries=queries * 8**-0.5,
        keys=keys,
        values=values,
        log_decay=log_decay.unsqueeze(-1),
        strength=strength.unsqueeze(-1),
    ).each(lambda x: x.transpose(1, 2))
    ours = chunked(streams, has_delta=True, size=16).transpose(1, 2)
    for rule in (theirs.torch_chunk_gated_delta_rule, theirs.torch_recurrent_gated_delta_rule):
        expected, _ = rule(queries, keys, values, g=log_decay, beta=strength)
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("name", ["gated_delta", "kimi_delta", "mamba2", "delta_net", "retention"])
def test_a_whole_mixer_is_the_public_module(name: str, is_causal: bool) -> None:
    """Compare outputs and input gradients in float64, with our parameters."""
    torch.manual_seed(0)
    shape = Shape(batch=1, length=70, dim=32, heads=4)
    ours = build_mixer(name, dim=32, heads=4, max_length=70, is_causal=is_causal)
    theirs = getattr(state_peers, name)(ours)
    with state_peers.in_double():
        assert farthest(ours, theirs, shape, "cpu") <= SAME


@pytest.mark.parametrize("bonus", [True, False])
def test_rwkv7_is_that_of_its_authors(monkeypatch: pytest.MonkeyPatch, bonus: bool) -> None:
    """Compare outputs and input gradients in float32, to which their loop casts the state."""
    monkeypatch.setenv("RWKV_V7_ON", "1")
    from rwkv.model import RWKV_x070_TMix_seq as theirs

    torch.manual_seed(0)
    ours = build_mixer("rwkv7", dim=32, heads=4, max_length=70, is_causal=True, bonus=bonus)
    for parameter in ours.parameters():  # no map may be zero, and no gain one
        parameter.data += 0.1 * torch.randn_like(parameter)
    x = torch.randn(1, 70, 32, requires_grad=True)
    expected = theirs(**_as_rwkv_names(ours.requires_grad_(False), x[0]))[0]
    weights = torch.randn_like(expected)
    outputs = [ours(x)[0], expected]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-5)
    gradients = [torch.autograd.grad((each * weights).sum(), x)[0] for each in outputs]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


def _as_rwkv_names(ours: Any, x: Tensor) -> dict[str, Any]:
    """Return our parameters as those of their bottom layer, which mixes in no earlier values."""
    (reading,) = ours.directions
    shares = dict(zip(("x_r", "x_w", "x_k", "x_v", "x_a", "x_g"), reading.shift, strict=True))
    low_ranks = {"w": reading.decay, "a": reading.rate, "g": reading.gate}
    maps = {f"{key}1": pair.down.weight.T for key, pair in low_ranks.items()}
    maps |= {f"{key}2": pair.up.weight.T for key, pair in low_ranks.items()}
    squares = {"R_": reading.receptance, "K_": reading.key, "V_": reading.value, "O_": ours.output}
    nothing, heads, width = torch.zeros(0), reading.heads, reading.key_width
    bonus = torch.zeros(heads * width) if reading.bonus is None else reading.bonus
    return {
        "layer_id": 0,
        "H": heads,
        "N": width,
        "x": x,
        "x_prev": torch.zeros_like(x[0]),
        "v_first": nothing,
        "state": torch.zeros(heads, width, width),
        **shares,
        **maps,
        **{key: square.weight.T for key, square in squares.items()},
        **dict.fromkeys(("v0", "v1", "v2"), nothing),
        "w0": reading.decay_bias,
        "a0": reading.rate_bias,
        "k_k": reading.removal,
        "k_a": reading.replacement,
        "r_k": bonus,
        "ln_w": reading.gain,
        "ln_b": reading.offset,
    }
