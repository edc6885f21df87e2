"""Check a model that generates images: its inputs, its loss and its outputs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bakeoff.models import Input, ModelError, ModelSpec, build_model
from bakeoff.models.architectures.multimodal.image_tokens import ImageTokens, _drawn
from bakeoff.models.interface import IMAGE_TOKENS, PENALTY

TIME, SYMBOLS, CODES, PLACES = 6, 9, 13, 6
CAPTIONS = torch.tensor([[1, 3, 4, 5, 6, 2], [1, 7, 2, 0, 0, 0], [1, 8, 8, 3, 2, 0]])
MASK = CAPTIONS != 0


def built(**settings: Any) -> ImageTokens:
    torch.manual_seed(0)
    image = Input(kind="image", size=3, length=16 * 24, grid=(16, 24))
    model = build_model(
        ModelSpec(
            architecture="image_tokens",
            mixer="attention",
            knobs={"heads": 2},
            position="learned",
            dim=8,
            depth=2,
            length=TIME,
            input_kind="tokens",
            input_size=SYMBOLS,
            output_size=3,
            others={"context": image},
            settings={"codes": CODES, "tokenizer_width": 8, **settings},
        )
    )
    assert isinstance(model, ImageTokens)
    return model.double().eval()


def pictures(seed: int = 1) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(3, 16, 24, 3, generator=drawn, dtype=torch.float64)


def with_tokens(model: ImageTokens, tokens: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the tokenizer return these tokens for every image."""
    monkeypatch.setattr(model.tokenizer, "tokens", lambda images: tokens)


def test_each_token_is_predicted_from_the_caption_and_the_tokens_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, tokens = built(), torch.arange(3 * PLACES).view(3, PLACES) % CODES
    with_tokens(model, tokens, monkeypatch)
    found = model(CAPTIONS, MASK, pictures()).logits
    assert found.shape == (3, PLACES, CODES)
    for place in range(PLACES):
        other = tokens.clone()
        other[:, place] = (other[:, place] + 1) % CODES
        with_tokens(model, other, monkeypatch)
        moved = (model(CAPTIONS, MASK, pictures()).logits - found).abs().amax(dim=(0, 2)) > 1e-9
        assert moved.tolist() == [later > place for later in range(PLACES)]
    with_tokens(model, tokens, monkeypatch)
    other = CAPTIONS.clone()
    other[:, 1] = 5
    moved = (model(other, MASK, pictures()).logits - found).abs().amax(dim=2) > 1e-9
    assert moved.all()


def test_what_it_draws_has_the_probabilities_of_the_teacher_forced_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, seen = built(), list[Tensor]()
    chances = torch.rand(3, PLACES, generator=torch.Generator().manual_seed(2)).double()
    monkeypatch.setattr(model.tokenizer, "images", lambda tokens: seen.append(tokens) or tokens)
    model.draw(CAPTIONS, MASK, chances=chances)
    (tokens,) = seen
    assert len({tuple(row) for row in tokens.tolist()}) == 3
    with_tokens(model, tokens, monkeypatch)
    logits = model(CAPTIONS, MASK, pictures()).logits
    again = [_drawn(logits[:, place], chances[:, place]) for place in range(PLACES)]
    assert torch.equal(torch.stack(again, dim=1), tokens)


def test_a_picture_is_what_the_tokenizer_makes_of_the_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, seen = built(), list[Tensor]()
    decode = model.tokenizer.images
    monkeypatch.setattr(
        model.tokenizer, "images", lambda tokens: seen.append(tokens) or decode(tokens)
    )
    found = model.draw(CAPTIONS, MASK, chances=torch.full((3, PLACES), 0.5))
    assert found.shape == pictures().shape
    assert torch.equal(found, decode(seen[0]))


def test_symbols_are_drawn_as_often_as_their_probabilities_say() -> None:
    logits = torch.tensor([0.1, 0.5, 0.4]).log().expand(100_000, -1)
    chances = (torch.arange(100_000) + 0.5) / 100_000
    counts = torch.bincount(_drawn(logits, chances), minlength=3)
    assert counts.tolist() == pytest.approx([10_000, 50_000, 40_000], abs=2)
    assert _drawn(logits[:2], torch.tensor([1e-9, 1 - 1e-9])).tolist() == [0, 2]


def test_the_tokenizer_is_not_trained() -> None:
    model = built().train()
    found = model(CAPTIONS, MASK, pictures())
    tokens = found.auxiliary[IMAGE_TOKENS]
    assert torch.equal(tokens, model.tokenizer.tokens(pictures()))
    assert not tokens.is_floating_point()
    loss = cross_entropy(found.logits.flatten(0, 1), tokens.flatten())
    (loss + found.auxiliary[PENALTY].sum()).backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith("tokenizer."), name
        assert parameter.requires_grad != name.startswith("tokenizer."), name


def test_no_code_draws_in_training_either() -> None:
    """Check that tokens are the likeliest, without Gumbel noise, and that no pass is counted."""
    model = built(quantiser="gumbel").train()
    one, other = (model(CAPTIONS, MASK, pictures()) for _ in range(2))
    assert torch.equal(one.logits, other.logits)
    assert model.tokenizer.num_passes.item() == 0


def test_words_are_learned_too_with_a_weight_and_fillers_are_not() -> None:
    model = built(text_weight=0.5)
    found = model(CAPTIONS, MASK, pictures()).auxiliary[PENALTY]
    read = torch.cat([CAPTIONS, torch.zeros(3, PLACES - 1, dtype=torch.long)], dim=1)
    hidden = model.trunk(model.embedding(read))[:, : TIME - 1]  # causal: later tokens are hidden
    logs = (hidden @ model.embedding.table.weight.T).log_softmax(dim=-1)
    for row, words in enumerate(CAPTIONS.tolist()):
        losses = [-logs[row, t, words[t + 1]] for t in range(TIME - 1) if words[t + 1]]
        torch.testing.assert_close(found[row], 0.5 * torch.stack(losses).mean())


def test_a_model_that_knows_nothing_loses_a_seventh_of_each_word() -> None:
    model = built()
    with torch.no_grad():
        model.embedding.table.weight.zero_()
    found = model(CAPTIONS, MASK, pictures()).auxiliary[PENALTY]
    torch.testing.assert_close(found, torch.full((3,), math.log(SYMBOLS) / 7).double())


def test_fillers_are_read_as_one_symbol_whatever_stands_there() -> None:
    model, garbage = built(), CAPTIONS.masked_fill(~MASK, 5)
    for read in (
        lambda words, mask: model(words, mask, pictures()).logits,
        lambda words, mask: model.draw(words, mask, chances=torch.full((3, PLACES), 0.3)),
    ):
        assert torch.equal(read(garbage, MASK), read(CAPTIONS, MASK))
        assert torch.equal(read(CAPTIONS, None), read(CAPTIONS, MASK))
        assert not torch.equal(read(garbage, None), read(CAPTIONS, MASK))


def test_it_needs_a_picture_to_learn_from() -> None:
    with pytest.raises(ModelError) as refused:
        built()(CAPTIONS, MASK)
    assert str(refused.value) == (
        "image_tokens needs context, the picture whose tokens it predicts"
    )


def test_a_weight_below_zero_is_refused() -> None:
    with pytest.raises(ModelError) as refused:
        built(text_weight=-0.5)
    assert str(refused.value) == "image_tokens: text_weight=-0.5 is not at least 0"
