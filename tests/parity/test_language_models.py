"""Check that GPT-2 and a Llama with grouped queries equal those of `transformers`.

Every parameter of ours is moved away from its initial value and copied by name.
The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, ModelSpec, build_model
from bakeoff.models.presets import preset
from tests.models.full_size import full_size

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("default")]

DIM, DEPTH, HEADS, LENGTH, SYMBOLS = 24, 2, 3, 17, 29
OF_GPT2 = {
    r"^embedding\.table": "transformer.wte",
    r"^trunk\.position\.table$": "transformer.wpe.weight",
    r"^trunk\.blocks\.(\d+)\.": r"transformer.h.\1.",
    r"mixer_norm": "ln_1",
    r"mlp_norm": "ln_2",
    r"mixer\.output": "attn.c_proj",
    r"mlp\.expand": "mlp.c_fc",
    r"mlp\.contract": "mlp.c_proj",
    r"^trunk\.norm": "transformer.ln_f",
}
OF_LLAMA = {
    r"^embedding\.table": "model.embed_tokens",
    r"^trunk\.blocks\.(\d+)\.": r"model.layers.\1.",
    r"mixer_norm": "input_layernorm",
    r"mlp_norm": "post_attention_layernorm",
    r"mixer\.output": "self_attn.o_proj",
    r"mixer\.query": "self_attn.q_proj",
    r"mixer\.key": "self_attn.k_proj",
    r"mixer\.value": "self_attn.v_proj",
    r"mlp\.contract": "mlp.down_proj",
    r"^trunk\.norm": "model.norm",
}


def small(name: str, **changes: Any) -> Architecture:
    """Build a small form of the preset in float64 and evaluation mode, with moved parameters."""
    sizes = {"dim": DIM, "depth": DEPTH, "heads": HEADS, **changes}
    whole = full_size(name, **sizes)
    fields = {"length": LENGTH, "input_size": SYMBOLS, "output_size": SYMBOLS}
    torch.manual_seed(0)
    model = build_model(ModelSpec(**{**vars(whole), **fields}))
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.double().eval()


def renamed(model: nn.Module, names: Mapping[str, str]) -> dict[str, Tensor]:
    found = {}
    for name, parameter in model.named_parameters():
        theirs = name
        for ours, public in names.items():
            theirs = re.sub(ours, public, theirs)
        found[theirs] = parameter.detach()
    return found


def test_gpt2_is_that_of_transformers() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    ours = small("gpt2")
    config = GPT2Config(
        vocab_size=SYMBOLS, n_positions=LENGTH, n_embd=DIM, n_layer=DEPTH, n_head=HEADS
    )
    theirs = GPT2LMHeadModel(config).double().eval()
    weights = renamed(ours, OF_GPT2)
    for layer in range(DEPTH):
        block = f"transformer.h.{layer}."
        for kind in ("weight", "bias"):
            parts = [
                weights.pop(f"{block}mixer.{part}.{kind}") for part in ("query", "key", "value")
            ]
            weights[f"{block}attn.c_attn.{kind}"] = torch.cat(parts)
        for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            weights[f"{block}{part}.weight"] = weights[f"{block}{part}.weight"].T
    missing, unexpected = theirs.load_state_dict(weights, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])  # the head is the embedding
    assert theirs.lm_head.weight is theirs.transformer.wte.weight
    compare(ours, theirs, 1e-9)


def test_a_llama_with_grouped_queries_is_that_of_transformers() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    ours = small("smollm_135m", key_value_heads=1)
    config = LlamaConfig(
        vocab_size=SYMBOLS,
        hidden_size=DIM,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        intermediate_size=64,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        max_position_embeddings=LENGTH,
    )
    theirs = LlamaForCausalLM(config).double().eval()
    weights = renamed(ours, OF_LLAMA)
    for layer in range(DEPTH):
        block = f"model.layers.{layer}."
        # Our gates are the second half of the first map; a rotated pair of a key is two neighbours.
        values, gates = weights.pop(f"{block}mlp.expand.weight").chunk(2)
        weights |= {f"{block}mlp.up_proj.weight": values, f"{block}mlp.gate_proj.weight": gates}
        for part in ("q_proj", "k_proj"):
            name = f"{block}self_attn.{part}.weight"
            weights[name] = halves(weights[name])
    missing, unexpected = theirs.load_state_dict(weights, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    compare(ours, theirs, 1e-5)  # it rotates keys and queries by float32 angles


def halves(weight: Tensor) -> Tensor:
    """Return the rows of each head, even ones first: there a pair lies half a head apart."""
    heads = weight.unflatten(0, (-1, DIM // HEADS // 2, 2))
    return heads.transpose(1, 2).flatten(0, 2)


def compare(ours: Architecture, theirs: Any, tolerance: float) -> None:
    """Compare all logits, and the gradient of their squares with respect to the embedding."""
    tokens = torch.randint(SYMBOLS, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    found, wanted = ours(tokens), theirs(tokens).logits
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    found.square().mean().backward()
    wanted.square().mean().backward()
    own = dict(ours.named_parameters())["embedding.table.weight"].grad
    public = theirs.get_input_embeddings().weight.grad
    torch.testing.assert_close(own, public, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["gpt2_medium", "gpt2_large", "gpt2_xl"])
def test_sizes_of_gpt2_are_those_of_transformers(name: str) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    fields = preset(name).fields
    config = GPT2Config(n_embd=fields["dim"], n_layer=fields["depth"], n_head=fields["heads"])
    assert counted(GPT2LMHeadModel, config) == whole(name)


@pytest.mark.parametrize("name", ["smollm_135m", "smollm_360m"])
def test_sizes_of_smollm_are_those_of_transformers(name: str) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    named, fields = preset(name), preset(name).fields
    config = LlamaConfig(
        vocab_size=named.vocabulary,
        hidden_size=fields["dim"],
        num_hidden_layers=fields["depth"],
        num_attention_heads=fields["heads"],
        num_key_value_heads=fields["key_value_heads"],
        intermediate_size=round(fields["dim"] * fields["feed_forward_ratio"]),
        tie_word_embeddings=True,
    )
    assert counted(LlamaForCausalLM, config) == whole(name)


def counted(kind: Any, config: Any) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in kind(config).parameters())


def whole(name: str) -> int:
    from bakeoff.models import build_shapes

    return build_shapes(full_size(name)).num_parameters()
