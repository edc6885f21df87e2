"""Build the MarianMT model of `transformers` with the parameters of our translator.

Junczys-Dowmunt et al. 2018, "Marian: Fast Neural Machine Translation in C++" (arXiv:1804.00344), is
the public encoder-decoder that is nearest to Vaswani et al. 2017: post-norm, sinusoidal positions,
embeddings times sqrt(dim), ReLU, and one matrix for both vocabularies and the output. It differs
in two points: every projection has a bias, which ours has on demand, and the sines of a position
come before its cosines, where the paper alternates them. The columns are put in the paper's order.

Functions import `transformers` when they are called, because it may not be installed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models import Input, ModelSpec, build_model
from bakeoff.models.architectures.translator import Translator

WHY_NOT = "transformers is of the extra `bench`, which `make bench` installs"


def translator(
    *, dim: int, depth: int, heads: int, symbols: int, source: int, target: int
) -> Translator:
    """Build a translator of MarianMT's form in evaluation mode, always with the same parameters."""
    torch.manual_seed(0)
    found = Input(kind="tokens", size=symbols, length=source)
    spec = ModelSpec(
        architecture="translator",
        mixer="attention",
        knobs={"heads": heads, "bias": True},
        position="sinusoidal",
        dim=dim,
        depth=depth,
        length=target,
        input_kind="tokens",
        input_size=symbols,
        output_size=symbols,
        others={"context": found},
    )
    model = build_model(spec)
    assert isinstance(model, Translator)
    drawn = torch.Generator().manual_seed(1)
    for parameter in model.parameters():  # biases start at zero and norms at one
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=drawn)
    return model.eval()


def marian_of(ours: Translator) -> Any:
    """Return a `MarianMTModel` with the parameters of ours; no symbol ends its sentences."""
    from transformers import MarianConfig, MarianMTModel

    spec, heads = ours.spec, ours.spec.knobs["heads"]
    sizes = {"layers": spec.depth, "attention_heads": heads, "ffn_dim": 4 * spec.dim}
    both = {f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in sizes.items()}
    config = MarianConfig(
        vocab_size=spec.input_size,
        d_model=spec.dim,
        **both,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=0,
        eos_token_id=None,
        forced_eos_token_id=None,
        decoder_start_token_id=1,
        max_position_embeddings=max(spec.length, spec.others["context"].length),
    )
    theirs = MarianMTModel(config).to(ours.embedding.table.weight.dtype).eval()
    theirs.model.shared.load_state_dict(ours.embedding.table.state_dict())
    theirs.tie_weights()
    for stack, trunk in (
        (theirs.model.encoder, ours.encoder),
        (theirs.model.decoder, ours.decoder),
    ):
        _put_in_turns(stack.embed_positions.weight)
        for layer, block in zip(stack.layers, trunk.blocks, strict=True):
            _copy_block(block, layer)
    return theirs


def _put_in_turns(table: Tensor) -> None:
    """Alternate the sines and cosines of a table `[places, dim]`, as in the paper."""
    sines, cosines = table.data.chunk(2, dim=1)
    table.data = torch.stack([sines, cosines], dim=2).flatten(1)


def _copy_block(ours: Any, theirs: Any) -> None:
    _copy_attention(ours.mixer, theirs.self_attn)
    pairs = [
        (ours.mixer_norm, theirs.self_attn_layer_norm),
        (ours.mlp_norm, theirs.final_layer_norm),
        (ours.mlp.expand, theirs.fc1),
        (ours.mlp.contract, theirs.fc2),
    ]
    if ours.context_mixer is not None:
        _copy_attention(ours.context_mixer, theirs.encoder_attn)
        pairs.append((ours.context_norm, theirs.encoder_attn_layer_norm))
    for mine, other in pairs:
        other.load_state_dict(mine.state_dict())


def _copy_attention(ours: Any, theirs: nn.Module) -> None:
    for mine, other in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
        getattr(theirs, f"{other}_proj").load_state_dict(getattr(ours, mine).state_dict())
