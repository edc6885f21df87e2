"""Test the samples of encoder-decoders: the same unpadded examples for every model."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from bakeoff.models import Architecture, ModelSpec, build_model
from bakeoff.models.decoding import Decoded
from bakeoff.models.interface import Interface
from bakeoff.suite.probes.samples.collect import attention_maps, samples_of
from bakeoff.suite.probes.samples.translations import (
    END_WORD,
    alignments,
    by_quantile,
    translations,
    words_of,
)
from bakeoff.suite.schema import Sample
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Task

BIBLE, LENGTH = "bible_en_de", 16


def built(architecture: str, task: Task, **changes: Any) -> Architecture:
    torch.manual_seed(0)
    interface: Interface = task.interface(task.length)
    first, others = interface.inputs["inputs"], dict(interface.inputs)
    del others["inputs"]
    fields: dict[str, Any] = {
        "architecture": architecture,
        "mixer": "",
        "knobs": {},
        "position": "none",
        "dim": 8,
        "depth": 1,
        "length": task.length,
        "input_kind": first.kind,
        "input_size": first.size,
        "output_size": task.output_size,
        "others": others,
    }
    return build_model(ModelSpec(**(fields | changes))).eval()


def values(sample: Sample) -> np.ndarray:
    levels = np.frombuffer(base64.b64decode(sample.levels), dtype=np.uint8)
    shares = levels.reshape(sample.num_rows, sample.num_columns) / 255
    return sample.low + (sample.high - sample.low) * shares


@pytest.fixture(scope="module")
def bible() -> Task:
    return build_task(BIBLE, LENGTH)


@pytest.fixture(scope="module")
def translator(bible: Task) -> Architecture:
    return built("translator", bible, mixer="attention", position="sinusoidal", depth=2)


@pytest.mark.whole
@pytest.mark.parametrize("architecture", ["attentive_seq2seq", "conv_seq2seq"])
@torch.no_grad()
def test_an_alignment_has_a_row_for_each_reference_token_and_no_padding(
    architecture: str, bible: Task
) -> None:
    model = built(architecture, bible)
    (found,) = alignments(model, bible)
    batch = next(iter(bible.held_out("validation", 50)))
    numbers = [int(row.sum()) for row in batch.inputs["context_mask"]]
    fitting = sorted(number for number in numbers if 8 <= number <= 24)
    assert found.num_columns == fitting[(len(fitting) - 1) // 2]
    shown = "".join(found.column_words).removeprefix(" ")
    row = [bible.text(tokens) for tokens in batch.inputs["context"].tolist()].index(shown)
    asked = [token for token in batch.targets[row].tolist() if token >= 0]
    assert (found.num_rows, len(found.row_words)) == (len(asked), len(asked))
    assert found.row_words[-1] == END_WORD
    assert numbers[row] == found.num_columns
    assert "".join(found.row_words[:-1]).removeprefix(" ") == bible.text(asked)
    np.testing.assert_allclose(values(found).sum(axis=1), 1.0, atol=0.05)
    example = batch.rows(slice(row, row + 1))
    weights: Any = model.attention_weights(**example.inputs)  # type: ignore[operator]
    whole = weights[0, : len(asked), : numbers[row]]
    np.testing.assert_allclose(values(found), whole, atol=0.003)


@torch.no_grad()
def test_ten_examples_are_the_same_for_every_model(bible: Task, translator: Architecture) -> None:
    ours = translations(translator, bible)
    theirs = translations(built("attentive_seq2seq", bible), bible)
    assert [each.title for each in ours] == [f"{percent} %" for percent in range(5, 100, 10)]
    for a, b in zip(ours, theirs, strict=True):
        assert (a.source, a.reference) == (b.source, b.reference)
        assert a.source
        assert a.reference
        assert 0 <= (a.score or 0) <= 100
    numbers = [len(each.source.split()) for each in ours]
    assert numbers == sorted(numbers)
    first = next(iter(bible.held_out("validation", 100)))
    mine = {bible.text(row.tolist()) for row in first.inputs["context"]}
    assert {each.source for each in ours} <= mine


def test_a_score_is_that_of_the_text_shown(
    bible: Task, translator: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sacrebleu import sentence_chrf

    _, example = by_quantile(bible)[3]
    right = [token for token in example.targets[0].tolist() if token > 2]
    half = torch.tensor([right[: len(right) // 2]])
    ended = torch.tensor([True])
    found_half = Decoded(half, torch.tensor([half.shape[1]]), torch.zeros(1), ended)
    monkeypatch.setattr("bakeoff.suite.training.engines.engine.written", lambda *_: found_half)
    found = translations(translator, bible)[3]
    assert found.text == bible.text(right[: len(right) // 2])
    expected = sentence_chrf(found.text, [found.reference]).score
    assert found.score == pytest.approx(expected, abs=0.01)
    assert 0 < expected < 100


def test_pieces_of_words_stay_what_they_are(bible: Task) -> None:
    tokens = next(iter(bible.held_out("validation", 1))).inputs["context"][0].tolist()
    words = words_of(bible, [token for token in tokens if token])
    assert words[0].startswith(" ")
    assert any(not word.startswith(" ") for word in words)
    assert len(bible.text([tokens[1]])) == len(words[1].strip())


@torch.no_grad()
def test_where_no_source_is_as_long_as_the_rule_says_there_is_no_alignment() -> None:
    task = build_task("reversal", 6)
    model = built("attentive_seq2seq", task)
    assert alignments(model, task) == []
    assert len(translations(model, task)) == (10 if task.text([4]) else 0)


@torch.no_grad()
def test_maps_of_an_encoder_decoder_name_its_sides_and_leave_the_context_out(
    bible: Task, translator: Architecture
) -> None:
    found = attention_maps(translator, bible)
    titles = {each.title.partition(", ")[0]: each for each in found}
    assert [*titles] == [
        f"{side} layer {layer}" for side in ("encoder", "decoder") for layer in (1, 2)
    ]
    batch = next(iter(bible.held_out("validation", 1)))
    for side, mask in (("encoder", "context_mask"), ("decoder", "mask")):
        sample = titles[f"{side} layer 1"]
        assert sample.num_rows == sample.num_columns == int(batch.inputs[mask][0].sum())
        np.testing.assert_allclose(values(sample).sum(axis=1), 1.0, atol=0.05)
    assert (np.triu(values(titles["decoder layer 2"]), k=1) == 0).all()
    assert (np.triu(values(titles["encoder layer 2"]), k=1) > 0).any()


def test_other_tasks_leave_none_and_hashes_of_old_samples_stay(
    bible: Task, translator: Architecture
) -> None:
    looks = (alignments, translations)
    kinds = [each.kind for each in samples_of(translator, bible, 0, looks)]
    assert kinds == ["alignment", *["translation"] * 10]
    assert samples_of(translator, bible, 1, looks) == ()
    parity = build_task("parity", 16)
    assert translations(translator, parity) == alignments(translator, parity) == []
    old = Sample(kind="text", title="prompt", text="a")
    assert {*old.hashed} == {*asdict(old)} - {
        "row_words",
        "column_words",
        "source",
        "reference",
        "score",
        "picture",
    }
