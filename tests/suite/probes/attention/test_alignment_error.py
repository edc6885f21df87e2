"""Test the alignment error rate against hand counts, and which row belongs to which token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from bakeoff import Ablation, Model, Scale, vary
from bakeoff.models import Architecture, Input, ModelSpec, build_model
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.attention import alignment_error
from bakeoff.suite.probes.attention.alignment_error import (
    AlignmentError,
    diagonal,
    entropy,
    error_rate,
    likeliest,
    link_counts,
    of_words,
    word_weights,
)
from bakeoff.suite.probes.attention.word_aligner import Links
from bakeoff.suite.schema import Measurement, Training, Trial
from bakeoff.suite.tasks import registry
from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.emoji.emoji_scenes import EmojiScenes
from bakeoff.suite.tasks.sequence_to_sequence.bible import BibleEnDe
from bakeoff.suite.tasks.sequence_to_sequence.digits import END, PADDING, START, Reversal
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split
from tests.suite.floors.tiny import TinyCaptions
from tests.suite.probes.conftest import said_after_training

LENGTH = 7  # six distinct digits and the end symbol
ATTENDING: dict[str, tuple[str, dict[str, Any]]] = {
    "bahdanau": ("attentive_seq2seq", {}),
    "luong": ("attentive_seq2seq", {"form": "luong", "score": "general"}),
    "convolutions": ("conv_seq2seq", {"kernel_size": 1}),
    "translator": ("translator", {}),
}


class Swaps(Reversal):
    """Six distinct digits with each half reversed; each digit is a separate word."""

    name = "swaps"
    num_held_out: ClassVar[dict[Split, int]] = {"validation": 8, "test": 40}

    def draw(self, stream: Any, count: int, kind: int) -> Batch:
        drawn = stream.integers(count, 10, low=0, high=1 << 30)
        context = torch.from_numpy(3 + drawn.argsort(axis=1)[:, : LENGTH - 1])
        target = context[:, [2, 1, 0, 5, 4, 3]]
        ends = torch.ones(count, 1, dtype=torch.long)
        inputs = torch.cat([START * ends, target], dim=1)
        named = {"inputs": inputs, "context": context}
        return Batch(inputs=named, targets=torch.cat([target, END * ends], dim=1))

    def kinds(self) -> Sequence[int]:
        return (LENGTH - 1,)

    def parts(self) -> tuple[str, ...]:
        return ()

    def in_parts(self, batch: Batch) -> dict[str, torch.Tensor]:
        return {}

    def words(self, tokens: Sequence[int]) -> list[tuple[str, range]]:
        return [(str(token), range(at, at + 1)) for at, token in enumerate(tokens)]


@pytest.fixture(autouse=True)
def _swaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TASKS, Swaps.name, f"{Swaps.__module__}:Swaps")


def spec(architecture: str, settings: dict[str, Any], depth: int = 1) -> ModelSpec:
    whole = ModelSpec(
        architecture=architecture,
        dim=48,
        depth=depth,
        length=LENGTH,
        input_kind="tokens",
        input_size=13,
        output_size=13,
        settings=settings,
        others={"context": Input(kind="tokens", size=13, length=LENGTH - 1)},
    )
    is_stack = architecture == "translator"
    return replace(whole, mixer="attention", position="sinusoidal") if is_stack else whole


def trained(name: str, num_steps: int, rate: float = 5e-3) -> Architecture:
    """Return a model that is trained to swap the halves almost without errors."""
    model, task = build_model(spec(*ATTENDING[name])), Swaps(LENGTH)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(num_steps):
        batch = task.training_batch(step, 64, 0)
        optimizer.zero_grad()
        task.loss(batch.through(model), batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval().requires_grad_(False)


def test_the_error_rate_is_that_of_a_sum_by_hand() -> None:
    """Compare two sentences with 1 - (2 + 4) / (5 + 3)."""
    sure = np.array([[1, 0], [0, 0], [0, 1]], dtype=bool)
    possible = np.array([[1, 0], [1, 0], [0, 1]], dtype=bool)
    links = np.array([[1, 0], [1, 0], [1, 0]], dtype=bool)
    one = np.array([[1, 0], [0, 1]], dtype=bool)
    other = Links(one & [[True], [False]], one)
    counts = link_counts(links, Links(sure, possible)) + link_counts(one, other)
    assert counts.tolist() == [2, 4, 5, 3]
    assert error_rate(counts) == pytest.approx(0.25)
    assert error_rate(np.zeros(4)) == 1.0


def test_what_is_sure_and_nothing_but_what_is_possible_is_no_error() -> None:
    silver = Links(np.eye(3, dtype=bool), np.tri(3, dtype=bool))
    for links in silver:
        assert error_rate(link_counts(links, silver)) == 0
    assert error_rate(link_counts(~silver.possible, silver)) == 1


def test_words_sum_over_the_source_and_average_over_the_target() -> None:
    weights = np.array([[0.1, 0.3, 0.6], [0.4, 0.5, 0.1], [0.0, 0.0, 0.0]])
    source, target = [("ab", range(2)), ("c", range(2, 3))], [("de", range(2)), ("f", range(2, 3))]
    found = of_words(weights, source, target)
    np.testing.assert_allclose(found, [[0.65, 0.35], [0, 0]])
    assert likeliest(found).tolist() == [[True, False], [False, False]]


def test_the_diagonal_keeps_shares_of_the_sentence() -> None:
    assert diagonal(4, 4).tolist() == np.eye(4, dtype=bool).tolist()
    assert diagonal(6, 3).argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2]
    assert diagonal(3, 9).argmax(axis=1).tolist() == [1, 4, 7]
    assert diagonal(1, 1).all()


def test_entropy_is_in_bits_of_a_row_that_sums_to_one() -> None:
    rows = np.array([[0.25, 0.25, 0.25, 0.25], [0.3, 0.3, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(entropy(rows), [2, 1, 0, 0], atol=1e-12)


def test_padding_and_the_end_are_no_words_wherever_they_stand() -> None:
    context = torch.tensor([[PADDING, 5, 6], [7, 8, 9]])
    targets = torch.tensor([[6, 5, END, UNSCORED], [9, 8, 7, END]])
    inputs = {"context": context, "context_mask": context != PADDING}
    weights = torch.arange(24.0).reshape(2, 4, 3)
    (source, target, first), (*_, second) = word_weights(
        Swaps(LENGTH), Batch(inputs=inputs, targets=targets), weights
    )
    assert [word for word, _ in source] == ["5", "6"]
    assert [word for word, _ in target] == ["6", "5"]
    assert first.tolist() == [[1, 2], [4, 5]]
    assert second.tolist() == [[12, 13, 14], [15, 16, 17], [18, 19, 20]]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "num_steps"),
    [
        ("luong", 120),
        pytest.param("convolutions", 120, marks=pytest.mark.slow),
        pytest.param("translator", 250, marks=pytest.mark.slow),
    ],
)
def test_rows_belong_to_the_token_that_is_predicted(name: str, num_steps: int) -> None:
    """Check the rows; if off by one position, five of six links would be wrong."""
    model = trained(name, num_steps)
    error, of_diagonal, bits = alignment_error.compared(model, Swaps(LENGTH), 16, "cpu")
    assert error < 0.3
    assert of_diagonal == pytest.approx(2 / 3)
    assert 0 <= bits < 2.2


@pytest.mark.slow
def test_rows_of_a_recurrent_one_look_at_the_right_half() -> None:
    """Check that steps 1 to 3 attend to the first half, and steps 4 to 6 to the second."""
    batch = next(Swaps(LENGTH).held_out("test", 40))
    weights = trained("bahdanau", 100, 1e-2).attention_weights(**batch.inputs).mean(dim=0)
    assert weights[:3, :3].sum(dim=1).min() > 0.7
    assert weights[3:6, 3:].sum(dim=1).min() > 0.7


def trial(batch: int = 16) -> Trial:
    fields: dict[str, Any] = {
        "seed": 0,
        "versions": {},
        "task_digest": "",
        "task": Swaps.name,
        "length": LENGTH,
        "batch": batch,
        "subjects": (spec("translator", {}, depth=2),),
    }
    training = Training(
        steps=1, learning_rate=1e-3, warmup_steps=0, weight_decay=0.0, num_evaluations=1
    )
    quality = Trial(probe="quality", training=training, **fields)
    return Trial(probe="alignment_error", training=None, trained=quality, **fields)


def test_it_measures_what_it_announces_of_so_many_test_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_error, "MOST_EXAMPLES", 20)
    said = said_after_training(trial(), tmp_path / "a")
    found = [each for each in said if isinstance(each, Measurement)]
    specs = AlignmentError().metrics(Swaps, LENGTH)
    assert [(m.metric, m.unit, m.better, m.at) for m in found] == [
        (each.name, each.unit, each.better, each.at) for each in specs
    ]
    assert found[1].value == pytest.approx(2 / 3)
    chosen = joined([*alignment_error.first_examples(Swaps(LENGTH), 16)])
    (whole,) = Swaps(LENGTH).held_out("test", 40)
    assert torch.equal(chosen.targets, whole.targets[:20])


def test_models_without_weights_and_tasks_without_words_are_refused() -> None:
    of = AlignmentError()
    for architecture, settings in ATTENDING.values():
        assert of.why_not(spec(architecture, settings), None) == ""
    for blind in ("seq2seq", "bytenet"):
        assert of.why_not(spec(blind, {}), None) == (
            f"a {blind} gives no attention weights of its source"
        )
    blind_mixer = spec("translator", {"context_mixer": "gru"})
    assert of.why_not(blind_mixer, None) == ("context_mixer='gru' gives no attention weights")
    assert of.why_not_on(BibleEnDe) == ""
    assert "tokens of reversal are not words" in of.why_not_on(Reversal)
    assert "to those of a source, and tiny_captions has not both" in of.why_not_on(TinyCaptions)
    has_no_source = registry.task_class("parity")
    assert "to those of a source, and parity has not both" in of.why_not_on(has_no_source)
    assert "and emoji_scenes has not both" in of.why_not_on(EmojiScenes)


def test_planning_refuses_with_the_reason() -> None:
    scale = Scale(dim=8, depth=1, length=LENGTH, steps=2, batch=4, num_evaluations=1, seeds=1)
    planned = plan(
        Ablation(
            question="Where does it look?",
            baseline=Model("attentive_seq2seq"),
            axes=[vary("architecture", ["attentive_seq2seq", "bytenet"])],
            tasks=[Swaps.name, "reversal"],
            probes=["alignment_error"],
            scales={"quick": scale},
        )
    )
    reasons = {(cell.variant, cell.task): cell.reason for cell in planned.cells}
    words = "it links words, and the tokens of reversal are not words"
    of_source = "a bytenet gives no attention weights of its source"
    assert reasons == {
        ("architecture=attentive_seq2seq", Swaps.name): "",
        ("architecture=attentive_seq2seq", "reversal"): words,
        ("architecture=bytenet", Swaps.name): of_source,
        ("architecture=bytenet", "reversal"): words,
    }
