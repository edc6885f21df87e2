"""The recurrence of a matrix state is what `transformers` computes without its kernels.

Marked as benchmarks are, since it needs their packages: `make bench` installs them and runs it.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models import build_mixer
from models.kernels.matrix_state import Streams
from models.kernels.state_chunks import chunked
from tests.benchmarks import state_peers
from tests.benchmarks.duels import SAME, farthest
from tests.benchmarks.places import Shape

pytestmark = [
    pytest.mark.bench,
    pytest.mark.filterwarnings("default"),  # the package warns of its own parts
]


def test_the_gated_delta_rule_is_that_of_qwen3_next() -> None:
    """Theirs scales queries, and has time before heads."""
    from transformers.models.qwen3_next import modeling_qwen3_next as theirs

    generator = torch.Generator().manual_seed(0)

    def draw(*width: int) -> Tensor:
        return torch.randn(2, 70, 3, *width, generator=generator)

    queries, keys = (torch.nn.functional.normalize(draw(8), dim=-1) for _ in range(2))
    values, log_decay, strength = draw(16), -draw().exp(), draw().sigmoid()
    streams = Streams(
        queries=queries * 8**-0.5, keys=keys, values=values, log_decay=log_decay.unsqueeze(-1),
        strength=strength.unsqueeze(-1),
    ).each(lambda x: x.transpose(1, 2))  # fmt: skip
    ours = chunked(streams, has_delta=True, size=16).transpose(1, 2)
    for rule in (theirs.torch_chunk_gated_delta_rule, theirs.torch_recurrent_gated_delta_rule):
        expected, _ = rule(queries, keys, values, g=log_decay, beta=strength)
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("name", ["gated_delta", "kimi_delta", "mamba2", "delta_net", "retention"])
def test_a_whole_mixer_is_the_public_module(name: str, is_causal: bool) -> None:
    """Outputs and gradients of the input, in float64, with our parameters."""
    torch.manual_seed(0)
    shape = Shape(batch=1, length=70, dim=32, heads=4)
    ours = build_mixer(name, dim=32, heads=4, max_length=70, is_causal=is_causal)
    theirs = getattr(state_peers, name)(ours)
    with state_peers.in_double():
        assert farthest(ours, theirs, shape, "cpu") <= SAME
