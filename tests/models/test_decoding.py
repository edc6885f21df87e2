"""Compare searches with exhaustive search, with each other, and with a full re-read."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import MIXERS, Architecture, ModelError, mixer_class
from bakeoff.models.decoding import Decoded, Decoder, beam_search, generate
from tests.models.small_models import build, spec

END, SYMBOLS = 2, 3
STEPPING = [name for name in MIXERS if mixer_class(name).supports_step]
# By default one mixer that keeps all tokens, one that keeps a window, and three with a state of one
# size; the others in the battery.
SOME = ("attention", "local_attention", "gru", "linear_transformer", "mamba2")
MOST_IN_BATTERY = [
    pytest.param(name, marks=[pytest.mark.battery] * (name not in SOME)) for name in STEPPING
]


@dataclass(frozen=True)
class Seen:
    """A state with all kinds of parts that a state may have."""

    place: int
    source: dict[str, Tensor]
    last: list[tuple[Tensor, ...]]


class Table(nn.Module):
    """A table of random logits by the source, the place and the last two tokens."""

    def __init__(self, places: int = 8, symbols: int = SYMBOLS, seed: int = 0) -> None:
        super().__init__()
        drawn = torch.Generator().manual_seed(seed)
        shape = (5, places, symbols, symbols, symbols)
        self.logits = 2 * torch.randn(shape, generator=drawn, dtype=torch.float64)

    def encode(self, source: Tensor) -> Tensor:
        return source + 1

    def initial_state(self, batch: int, encoded: Tensor) -> Seen:
        return Seen(0, {"source": encoded}, [(torch.zeros(batch).long(),)])

    def step(self, tokens: Tensor, state: Seen) -> tuple[Tensor, Seen]:
        ((before,),) = state.last
        logits = self.logits[state.source["source"], state.place, before, tokens]
        return logits, Seen(state.place + 1, state.source, [(tokens,)])


def written_by_table(source: Tensor, decoder: Decoder, limits: Tensor | None = None) -> Decoded:
    start = torch.zeros(len(source), 1).long()
    return generate(Table(), {"source": source}, decoder, start=start, end=END, limits=limits)


def log_probability(table: Table, source: int, tokens: list[int]) -> float:
    total, read = 0.0, [0, 0, *tokens]
    for place, token in enumerate(tokens):
        logits = table.logits[source + 1, place, read[place], read[place + 1]]
        total += logits.log_softmax(dim=-1)[token].item()
    return total


def exhaustive(source: int, penalty: float, limit: int) -> tuple[list[int], float]:
    """Return the best of all hypotheses that end within the limit, and its score."""
    table, scored = Table(), []
    for length in range(limit):
        for tokens in product(range(END), repeat=length):
            score = log_probability(table, source, [*tokens, END])
            scored.append((score / ((5 + length + 1) / 6) ** penalty, list(tokens)))
    score, tokens = max(scored)
    return tokens, score


@pytest.mark.parametrize("penalty", [0.0, 0.6, 3.0])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_beam_of_all_hypotheses_is_exhaustive_search(limit: int, penalty: float) -> None:
    decoder = Decoder(beam=2 ** (limit + 1), length_penalty=penalty, max_length=limit)
    source = torch.arange(4)
    found = written_by_table(source, decoder)
    for row, tokens in enumerate(found.rows()):
        best, score = exhaustive(row, penalty, limit)
        assert tokens == best
        assert found.has_ended[row]
        assert found.scores[row].item() == pytest.approx(score)


def test_the_length_penalty_moves_what_is_found() -> None:
    lengths = [
        written_by_table(torch.arange(4), Decoder(beam=64, length_penalty=a, max_length=5)).lengths
        for a in (0.0, 3.0)
    ]
    assert (lengths[0] <= lengths[1]).all()
    assert (lengths[0] < lengths[1]).any()


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_rows_of_a_batch_do_not_depend_on_each_other(beam: int) -> None:
    decoder, limits = Decoder(beam=beam, max_length=7), torch.tensor([7, 2, 5, 7])
    together = written_by_table(torch.arange(4), decoder, limits)
    for row in range(4):
        alone = written_by_table(torch.tensor([row]), decoder, limits[row : row + 1])
        assert alone.rows()[0] == together.rows()[row]
        assert alone.has_ended[0] == together.has_ended[row]
        assert alone.scores[0].item() == pytest.approx(together.scores[row].item())


def test_a_slot_whose_hypothesis_ends_is_refilled() -> None:
    """Check two slots, one of which ends at once; if not refilled, the best hypothesis is lost."""
    writer = Table(places=3, symbols=4)
    writer.logits[:] = -20.0
    # For the first symbol, 2, the end, is best, then 0, then 1; after 1 the end is certain.
    writer.logits[1, 0, 0, 0] = torch.tensor([0.6, 0.5, 1.0, 1e-9]).log()
    writer.logits[1, 1, 0, 0] = 0.0
    writer.logits[1, 1, 0, 1] = torch.tensor([1e-9, 1e-9, 1.0, 1e-9]).log()
    found = generate(
        writer,
        {"source": torch.tensor([0])},
        Decoder(beam=2, length_penalty=9.0, max_length=3),
        start=torch.tensor([[0]]),
        end=END,
    )
    assert found.rows() == [[1]]


def test_what_did_not_end_is_cut_filled_and_counted() -> None:
    writer = Table()
    writer.logits[2, :, :, :, END] = -torch.inf  # the second source never ends
    for beam in (1, 3):
        found = generate(
            writer,
            {"source": torch.tensor([0, 1])},
            Decoder(beam=beam, max_length=6),
            start=torch.zeros(2, 1).long(),
            end=END,
        )
        assert found.num_cut == 1
        assert found.has_ended.tolist() == [True, False]
        assert found.lengths[1] == 6 == found.tokens.shape[1]
        assert (found.tokens[0, found.lengths[0] :] == END).all()
        assert found.scores.isfinite().all()


def language_model(mixer: str, **changes: Any) -> Architecture:
    return build(spec("language_model", mixer, **changes)).double().eval()


@pytest.mark.parametrize("mixer", MOST_IN_BATTERY)
def test_greedy_reads_its_own_outputs_and_beam_1_equals_it(mixer: str) -> None:
    model, prompt = language_model(mixer), torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    decoder = Decoder(max_length=12)
    greedy = generate(model, {}, decoder, start=prompt, end=0)
    read = prompt
    for _ in range(12):
        read = torch.cat([read, model(read)[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    for row, tokens in zip(read[:, 3:].tolist(), greedy.rows(), strict=True):
        assert tokens == (row[: row.index(0)] if 0 in row else row)
    state = model.initial_state(3)
    for token in prompt.unbind(dim=1):
        logits, state = model.step(token, state)
    limits = torch.full((3,), 12)
    beam = beam_search(model, logits, state, decoder, end=0, limits=limits)
    assert beam.rows() == greedy.rows()
    torch.testing.assert_close(beam.scores, greedy.scores)
    assert torch.equal(beam.has_ended, greedy.has_ended)


@pytest.mark.parametrize("mixer", MOST_IN_BATTERY)
def test_a_beam_over_a_language_model_carries_the_right_states(mixer: str) -> None:
    """Compare with teacher-forced scores, and with exhaustive search on 3 symbols."""
    model = language_model(mixer, input_size=3, output_size=3)
    start = torch.tensor([[0, 1], [1, 0]])
    decoder = Decoder(beam=32, length_penalty=0.6, max_length=4)
    found = generate(model, {}, decoder, start=start, end=END)
    for row, tokens in enumerate(found.rows()):
        scored = {}
        for length in range(4):
            for each in product(range(END), repeat=length):
                whole = torch.tensor([[*start[row].tolist(), *each, END]])
                steps = model(whole)[0, 1:-1].log_softmax(dim=-1)
                score = steps.gather(1, whole[0, 2:, None]).sum() / ((5 + length + 1) / 6) ** 0.6
                scored[each] = score.item()
        assert tuple(tokens) == max(scored, key=scored.__getitem__)
        assert found.scores[row].item() == pytest.approx(max(scored.values()))


def test_a_row_without_an_end_symbol_is_written_to_its_limit() -> None:
    model, start = language_model("gru"), torch.tensor([[1], [2]])
    for beam in (1, 4):
        decoder = Decoder(beam=beam, max_length=9)
        found = generate(model, {}, decoder, start=start, end=None, limits=torch.tensor([3, 99]))
        assert found.lengths.tolist() == [3, 9]
        assert found.num_cut == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "Decoder: beam=0 is not a whole number of at least 1"),
        ({"max_length": 2.0}, "Decoder: max_length=2.0 is not a whole number of at least 1"),
        ({"length_penalty": -1.0}, "Decoder: length_penalty=-1.0 is not a finite number of at"),
    ],
)
def test_a_decoder_that_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Decoder(**wrong)


def test_what_does_not_write_is_refused() -> None:
    start = torch.tensor([[1]])
    with pytest.raises(ModelError, match="Classifier does not write: it has no initial_state"):
        generate(build(spec("classifier")), {}, Decoder(), start=start, end=0)
    with pytest.raises(ModelError, match=r"with a token at least, not \[1, 0\]"):
        generate(language_model("gru"), {}, Decoder(), start=start[:, :0], end=0)
