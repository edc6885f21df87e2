"""Check BERT: segments, the first token's output, and the parts that both of its forms share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Architecture, ModelError
from bakeoff.models.interface import Input
from tests.models.small_models import BATCH, DIM, LENGTH, SYMBOLS, build, inputs, spec

MASK = torch.arange(LENGTH) < torch.tensor([[LENGTH], [5], [9]])
SEGMENTS = (torch.arange(LENGTH) >= torch.tensor([[8], [2], [LENGTH]])).long()
PAIRS = {"segments": Input(kind="tokens", size=2, length=LENGTH)}


def model(name: str, **settings: Any) -> Architecture:
    """Build a model whose segments have a visible effect."""
    found = build(spec(name, **settings)).double().eval()
    found.get_submodule("segments").weight.data *= 50  # type: ignore[operator]
    return found


def tokens(name: str = "bert") -> Tensor:
    return inputs(spec(name))


@pytest.mark.parametrize("name", ["bert", "bert_classifier"])
def test_each_token_knows_to_which_text_it_belongs(name: str) -> None:
    bert = model(name)
    one, other = bert(tokens(), MASK), bert(tokens(), MASK, SEGMENTS)
    assert torch.equal(one, bert(tokens(), MASK, torch.zeros_like(SEGMENTS)))
    moved = (one - other).abs().flatten(1).amax(dim=1) > 1e-6
    assert moved.tolist() == [True, True, False]  # the third has one text


@pytest.mark.parametrize("name", ["bert", "bert_classifier"])
def test_segments_of_padding_are_not_read(name: str) -> None:
    bert, garbage = model(name), SEGMENTS.masked_fill(~MASK, 7)
    kept = MASK if name == "bert" else slice(None)
    assert torch.equal(bert(tokens(), MASK, SEGMENTS)[kept], bert(tokens(), MASK, garbage)[kept])


def test_the_first_token_answers_for_both_texts_and_no_other_does() -> None:
    plain, asked = model("bert"), model("bert", others=PAIRS)
    found = asked(tokens(), MASK, SEGMENTS)
    assert found.shape == (BATCH, LENGTH, SYMBOLS)
    assert found.isfinite().all()
    shares = found[:, 0].softmax(dim=-1)
    torch.testing.assert_close(shares[:, -2:].sum(dim=-1), torch.ones(BATCH).double())
    assert (shares[:, :-2] == 0).all()
    assert torch.equal(found[:, 1:], plain(tokens(), MASK, SEGMENTS)[:, 1:])


def test_a_class_is_read_off_the_first_token() -> None:
    for pooling in ("first", "mean"):
        bert = model("bert_classifier", pooling=pooling)
        hidden = bert.hidden(tokens(), MASK, None)  # type: ignore[operator]
        means = [row[real].mean(dim=0) for row, real in zip(hidden, MASK, strict=True)]
        read = hidden[:, 0] if pooling == "first" else torch.stack(means)
        pooler, head = (bert.get_submodule(name) for name in ("pooler", "head"))
        torch.testing.assert_close(bert(tokens(), MASK), head(torch.tanh(pooler(read))))


def test_what_was_trained_on_text_has_the_names_of_what_answers_about_it() -> None:
    of_text = dict(model("bert", others=PAIRS).named_parameters())
    of_class = dict(model("bert_classifier").named_parameters())
    missing = {name for name in of_class if name not in of_text}
    assert missing == {"head.weight", "head.bias"}
    shared = of_class.keys() & of_text.keys()
    assert all(of_class[name].shape == of_text[name].shape for name in shared)


def test_a_task_may_give_segments_and_need_not() -> None:
    kind = type(model("bert"))
    assert kind.why_unreadable({"inputs": "tokens"}) == ""
    assert kind.why_unreadable({"inputs": "tokens", "segments": "tokens"}) == ""
    assert kind.why_unreadable({"inputs": "tokens", "segments": "image"}) == (
        "takes tokens as segments, not image"
    )
    given = Input(kind="tokens", size=2, length=LENGTH)
    assert build(spec("bert", others={"segments": given})).spec.others["segments"] is given


def test_where_places_are_given_only_those_tokens_are_named() -> None:
    places = torch.tensor([[3, 0], [1, 1], [4, 2]])
    whole, found = model("bert")(tokens(), MASK), model("bert")(tokens(), MASK, None, places)
    assert found.shape == (BATCH, 2, SYMBOLS)
    torch.testing.assert_close(
        found, torch.stack([r[p] for r, p in zip(whole, places, strict=True)])
    )
    given = Input(kind="tokens", size=LENGTH, length=2)
    spared = build(spec("bert", others={"places": given})).flops(LENGTH)
    assert build(spec("bert")).flops(LENGTH) - spared == (LENGTH - 2) * 2 * DIM * (DIM + SYMBOLS)


def test_more_answers_than_symbols_are_refused() -> None:
    with pytest.raises(ModelError) as refused:
        build(spec("bert", output_size=SYMBOLS + 1))
    assert str(refused.value) == (
        f"bert ties its output to its embedding: input_size={SYMBOLS} must be at least "
        f"output_size={SYMBOLS + 1}"
    )


def test_the_first_block_reads_what_a_norm_has_scaled() -> None:
    """Check that one norm scales the sum of tokens, positions and segments."""
    bert, seen = model("bert"), list[Tensor]()
    bert.trunk.blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    bert(tokens(), MASK, SEGMENTS)
    assert seen[0].shape == (BATCH, LENGTH, DIM)
    torch.testing.assert_close(seen[0].mean(dim=-1), torch.zeros(BATCH, LENGTH).double())
    torch.testing.assert_close(
        seen[0].var(dim=-1, unbiased=False), torch.ones(BATCH, LENGTH).double()
    )
