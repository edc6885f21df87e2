"""Check a recurrent captioner: its equations, its penalty, and the draws of hard attention."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from bakeoff.models import Input, ModelError, ModelSpec, build_model
from bakeoff.models.architectures.multimodal.show_attend_tell import ShowAttendTell
from bakeoff.models.interface import PENALTY, Outputs
from bakeoff.models.score_function import ENTROPY, LOG_PROBABILITY

DIM, WORDS, TIME, BATCH = 8, 7, 5, 3
IMAGE = Input(kind="image", size=3, length=24 * 24, grid=(24, 24))
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randn(BATCH, 24, 24, 3, generator=GENERATOR).double()
READ = torch.randint(1, WORDS, (BATCH, TIME), generator=GENERATOR)
MASK = torch.arange(TIME) < torch.tensor([[5], [3], [4]])


def built(**settings: Any) -> ShowAttendTell:
    torch.manual_seed(0)
    spec = ModelSpec(
        architecture="show_attend_tell",
        dim=DIM,
        length=TIME,
        input_kind="tokens",
        input_size=WORDS,
        output_size=WORDS,
        others={"context": IMAGE},
        settings=settings,
    )
    return cast("ShowAttendTell", build_model(spec)).double()


def by_hand(model: ShowAttendTell) -> tuple[Tensor, Tensor]:
    """Return the logits and alpha of each word, computed step by step."""
    a = model.map(model.network(IMAGES).flatten(2).transpose(1, 2))
    h, c = torch.tanh(model.starts(a.mean(dim=1))).chunk(2, dim=-1)
    look, logits, alphas = cast("Any", model.look), [], []
    for t in range(TIME):
        word = model.embedding(READ[:, t]) if t else torch.zeros(BATCH, DIM).double()
        scores = [
            look.scores(torch.tanh(look.keys(a[:, i]) + look.queries(h))) for i in range(a.shape[1])
        ]
        alpha = torch.cat(scores, dim=1).softmax(dim=1)
        z = sum(alpha[:, i : i + 1] * a[:, i] for i in range(a.shape[1]))
        z = torch.sigmoid(look.gate(h)) * z if look.gate else z
        h, c = model.recurrence(torch.cat([word, z], dim=1), (h, c))
        summed = word + model.readout(torch.cat([h, z], dim=1))
        logits.append(model.head(torch.tanh(summed)))
        alphas.append(alpha)
    return torch.stack(logits, dim=1), torch.stack(alphas, dim=1)


@pytest.mark.parametrize("has_gate", [False, True])
def test_it_is_the_paper_written_out(has_gate: bool) -> None:
    model = built(has_gate=has_gate).eval()
    with torch.no_grad():
        logits, alpha = by_hand(model)
        torch.testing.assert_close(model(READ, context=IMAGES), logits)
        torch.testing.assert_close(model.attention_weights(READ, context=IMAGES), alpha)


@pytest.mark.parametrize("attention", ["none", "soft"])
def test_the_first_word_is_read_as_zeros(attention: str) -> None:
    none = {"has_gate": False, "doubly_stochastic": 0.0} if attention == "none" else {}
    model, other = built(attention=attention, **none).eval(), READ.clone()
    other[:, 0] = (READ[:, 0] + 1) % WORDS
    with torch.no_grad():
        found = model(READ, context=IMAGES)
        assert torch.equal(model(other, context=IMAGES), found)
        other[:, 1] = (READ[:, 1] + 1) % WORDS
        assert not torch.allclose(model(other, context=IMAGES)[:, 1:], found[:, 1:])


def test_the_penalty_is_summed_over_places_and_knows_no_padding() -> None:
    model = built(doubly_stochastic=2.0).train()
    returned = cast("Outputs", model(READ, mask=MASK, context=IMAGES))
    found = returned.auxiliary[PENALTY].detach()
    alpha = model.attention_weights(READ, mask=MASK, context=IMAGES).detach()
    for row, length in enumerate(MASK.sum(dim=1).tolist()):
        places = range(alpha.shape[2])
        sums = [sum(float(alpha[row, t, i]) for t in range(length)) for i in places]
        assert found[row].item() == pytest.approx(2.0 * sum((1 - s) ** 2 for s in sums))
    longer = cast("Outputs", model(READ, context=IMAGES)).auxiliary[PENALTY]
    assert not torch.isclose(longer[1], found[1])


def test_there_is_no_penalty_in_evaluation_or_without_a_weight() -> None:
    assert isinstance(built().eval()(READ, context=IMAGES), Tensor)
    returned = cast("Outputs", built(doubly_stochastic=0.0).train()(READ, context=IMAGES))
    assert not returned.auxiliary


def test_hard_attention_takes_one_place_as_often_as_its_weight_says() -> None:
    model = built(attention="hard").train()
    state = model.encode(IMAGES)
    look = cast("Any", model.look)
    with torch.no_grad():
        draws = [look(state, True) for _ in range(2_000)]
    gate = torch.sigmoid(look.gate(state.h))
    taken = torch.stack([z / gate for z, _ in draws])  # [draws, batch, dim]
    distance = (taken.unsqueeze(2) - state.values).abs().amax(dim=-1)
    assert (distance.min(dim=2).values < 1e-9).all()
    shares = torch.nn.functional.one_hot(distance.argmin(dim=2), distance.shape[2]).double().mean(0)
    torch.testing.assert_close(shares, draws[0][1].weights, atol=0.05, rtol=0)
    place = distance[0].argmin(dim=1, keepdim=True)
    seen = draws[0][1]
    torch.testing.assert_close(seen.log_probability, seen.weights.log().gather(1, place)[:, 0])


def test_half_of_the_batches_are_read_softly_and_choices_are_summed_over_words() -> None:
    model, soft = built(attention="hard").train(), 0
    for _ in range(40):
        found = cast("Outputs", model(READ, mask=MASK, context=IMAGES)).auxiliary
        assert found[LOG_PROBABILITY].shape == found[ENTROPY].shape == (BATCH,)
        soft += bool((found[LOG_PROBABILITY] == 0).all())
    assert 8 < soft < 32


def test_choices_at_padded_words_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(attention="hard").train()
    monkeypatch.setattr(model, "_samples", lambda: True)
    torch.manual_seed(1)
    found = cast("Outputs", model(READ, mask=MASK, context=IMAGES)).auxiliary
    torch.manual_seed(1)
    _, seen = model._read(READ, MASK, IMAGES)
    assert not MASK.all()
    for name, each in ((LOG_PROBABILITY, seen.log_probability), (ENTROPY, seen.entropy)):
        for row in range(BATCH):
            expected = sum(each[row, t].item() for t in range(TIME) if MASK[row, t])
            assert found[name][row].item() == pytest.approx(expected)


def test_without_a_look_the_start_alone_knows_the_image() -> None:
    model = built(attention="none", has_gate=False, doubly_stochastic=0.0).eval()
    with torch.no_grad():
        model.starts.weight.zero_()
        found = model(READ, context=IMAGES)
        assert torch.allclose(model(READ, context=IMAGES.flip(1)), found)
    with pytest.raises(ModelError, match="gives no attention weights"):
        model.attention_weights(READ, context=IMAGES)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"attention": "none"}, "has_gate must be False"),
        ({"attention": "none", "has_gate": False}, "doubly_stochastic must be 0"),
        ({"doubly_stochastic": -1.0}, "not at least 0"),
        ({"encoder_width": 0}, "not at least 1"),
        ({"blocks": "1-x"}, "blocks"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        built(**settings)
