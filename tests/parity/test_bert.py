"""Check that BERT equals that of `transformers`, with both heads of its pre-training.

Every parameter of ours is moved away from its initial value and copied by name.
The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, Input, ModelSpec, build_model

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("default")]

DIM, DEPTH, HEADS, LENGTH, SYMBOLS = 24, 2, 3, 17, 29
TOKENS = torch.randint(SYMBOLS, (3, LENGTH), generator=torch.Generator().manual_seed(1))
MASK = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 4], [9]])
SEGMENTS = (torch.arange(LENGTH) >= torch.tensor([[8], [5], [20]])).long()
NAMES = {
    r"^embedding\.table": "bert.embeddings.word_embeddings",
    r"^segments": "bert.embeddings.token_type_embeddings",
    r"^trunk\.position\.table$": "bert.embeddings.position_embeddings.weight",
    r"^trunk\.embedding_norm": "bert.embeddings.LayerNorm",
    r"^trunk\.blocks\.(\d+)\.": r"bert.encoder.layer.\1.",
    r"mixer_norm": "attention.output.LayerNorm",
    r"mlp_norm": "output.LayerNorm",
    r"mixer\.output": "attention.output.dense",
    r"mixer\.": "attention.self.",
    r"mlp\.expand": "intermediate.dense",
    r"mlp\.contract": "output.dense",
    r"^pooler": "bert.pooler.dense",
    r"^transform\.": "cls.predictions.transform.dense.",
    r"^transform_norm": "cls.predictions.transform.LayerNorm",
    r"^output_bias": "cls.predictions.bias",
    r"^next_sentence": "cls.seq_relationship",
    r"^head": "classifier",
}
SIZES = {
    "vocab_size": SYMBOLS,
    "hidden_size": DIM,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * DIM,
    "max_position_embeddings": LENGTH,
}


def ours(architecture: str, outputs: int, *, pairs: bool = False, **settings: Any) -> Architecture:
    """Build our model in float64 and evaluation mode, with all its parameters moved."""
    torch.manual_seed(0)
    model = build_model(
        ModelSpec(
            architecture=architecture,
            mixer="attention",
            knobs={"heads": HEADS, "bias": True},
            position="learned",
            dim=DIM,
            depth=DEPTH,
            length=LENGTH,
            input_kind="tokens",
            input_size=SYMBOLS,
            output_size=outputs,
            settings=settings,
            others={"segments": Input(kind="tokens", size=2, length=LENGTH)} if pairs else {},
        )
    )
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.double().eval()


def with_weights_of(model: Architecture, theirs: Any, tied: list[str]) -> nn.Module:
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for own, public in NAMES.items():
            name = re.sub(own, public, name)
        found[name] = parameter.detach()
    missing, unexpected = theirs.load_state_dict(found, strict=False)
    assert (sorted(missing), unexpected) == (tied, [])
    module: nn.Module = theirs.double().eval()
    return module


def test_both_heads_of_its_pre_training_are_those_of_transformers() -> None:
    from transformers import BertConfig, BertForPreTraining

    model = ours("bert", SYMBOLS, pairs=True)
    tied = ["cls.predictions.decoder.bias", "cls.predictions.decoder.weight"]
    theirs = with_weights_of(model, BertForPreTraining(BertConfig(**SIZES)), tied)
    found = model(TOKENS, MASK, SEGMENTS)
    wanted = theirs(TOKENS, attention_mask=MASK.long(), token_type_ids=SEGMENTS)
    real = MASK.clone()
    real[:, 0] = False
    close(found[real], wanted.prediction_logits[real])
    close(found[:, 0, -2:], wanted.seq_relationship_logits)
    assert (found[:, 0, :-2] < -1e30).all()


def test_it_classifies_as_that_of_transformers() -> None:
    from transformers import BertConfig, BertForSequenceClassification

    model = ours("bert_classifier", 5)
    public = BertForSequenceClassification(BertConfig(**SIZES, num_labels=5))
    theirs = with_weights_of(model, public, [])
    for segments in (SEGMENTS, None):
        found = model(TOKENS, MASK, segments)
        wanted = theirs(TOKENS, attention_mask=MASK.long(), token_type_ids=segments).logits
        close(found, wanted)
    model.zero_grad()
    model(TOKENS, MASK, SEGMENTS).square().mean().backward()
    theirs(
        TOKENS, attention_mask=MASK.long(), token_type_ids=SEGMENTS
    ).logits.square().mean().backward()
    own = dict(model.named_parameters())["embedding.table.weight"].grad
    close(own, theirs.bert.embeddings.word_embeddings.weight.grad)


def close(found: Tensor | None, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)
