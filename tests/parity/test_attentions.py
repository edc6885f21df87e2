"""Check that our latent and differential attention compute the outputs of `transformers`.

The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, build_mixer
from bakeoff.models.mixers.attentions.differential_attention import DifferentialAttention
from bakeoff.models.mixers.attentions.latent_attention import LatentAttention
from tests.models.small_models import tokens

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]

LENGTH, DIM = 11, 16


def built(name: str, **knobs: Any) -> Mixer:
    """Build a causal mixer with all parameters shifted, so that no gain is one."""
    torch.manual_seed(0)
    mixer = build_mixer(name, dim=DIM, is_causal=True, **knobs)
    for parameter in mixer.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return mixer


def causal() -> Tensor:
    """Return the causal mask that is added to the scores."""
    return torch.full((1, 1, LENGTH, LENGTH), -torch.inf).triu(1)


@pytest.mark.parametrize("query_rank", [None, 6])
def test_latent_attention_is_that_of_deepseek_v2(query_rank: int | None) -> None:
    from transformers import DeepseekV2Config
    from transformers.models.deepseek_v2 import modeling_deepseek_v2 as theirs

    ours = built("latent_attention", heads=2, latent_dim=6, rope_dim=4, query_rank=query_rank)
    assert isinstance(ours, LatentAttention)
    assert ours.norm is not None
    config = DeepseekV2Config(
        hidden_size=DIM,
        num_attention_heads=2,
        num_key_value_heads=2,
        q_lora_rank=query_rank,
        kv_lora_rank=6,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=8,
        head_dim=4,
    )
    config._attn_implementation = "eager"
    attention = theirs.DeepseekV2Attention(config, 0).eval()
    ups = [up.weight.data.view(2, 8, 6) for up in (ours.key, ours.value)]
    weights = {
        "kv_a_proj_with_mqa.weight": torch.cat([ours.down.weight, ours.rotary_key.weight]),
        "kv_a_layernorm.weight": ours.norm.weight,
        "kv_b_proj.weight": torch.cat(ups, dim=1).flatten(0, 1),
        "o_proj.weight": ours.output.weight,
    }
    if ours.query_down is None or ours.query_norm is None:
        weights["q_proj.weight"] = ours.query.weight
    else:
        weights["q_a_proj.weight"] = ours.query_down.weight
        weights["q_a_layernorm.weight"] = ours.query_norm.weight
        weights["q_b_proj.weight"] = ours.query.weight
    attention.load_state_dict(weights)
    x = tokens(LENGTH, DIM).float()
    angles = theirs.DeepseekV2RotaryEmbedding(config)(x, torch.arange(LENGTH)[None])
    with torch.no_grad():
        found, expected = ours(x), attention(x, causal(), None, angles)[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layer", [0, 3])
def test_differential_attention_is_that_of_diffllama(layer: int) -> None:
    """Compare without a position, since theirs pairs other numbers, and without a gain."""
    from transformers import DiffLlamaConfig
    from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

    ours = built("differential_attention", heads=2)
    assert isinstance(ours, DifferentialAttention)
    ours.take_place(layer, ours)
    assert ours.head_norm is not None
    ours.head_norm.weight.data.fill_(1.0)
    config = DiffLlamaConfig(
        hidden_size=DIM,
        num_attention_heads=4,
        num_key_value_heads=4,
        rms_norm_eps=1e-5,
    )
    config._attn_implementation = "eager"
    attention = DiffLlamaAttention(config, layer).eval()
    # Theirs has the first halves of all heads first; ours has the two halves of a head side by
    # side.
    halves_first = [
        linear.weight.data.view(2, 2, 4, DIM).transpose(0, 1).flatten(0, 2)
        for linear in (ours.query, ours.key, ours.value)
    ]
    maps = {f"{key}_proj.weight": w for key, w in zip("qkv", halves_first, strict=True)}
    lambdas = {name: w for name, w in ours.state_dict().items() if "lambda" in name}
    attention.load_state_dict(maps | lambdas | {"o_proj.weight": ours.output.weight})
    x = tokens(LENGTH, DIM).float()
    unturned = torch.ones(1, LENGTH, 4), torch.zeros(1, LENGTH, 4)
    with torch.no_grad():
        found, expected = ours(x), attention(x, unturned, causal())[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
