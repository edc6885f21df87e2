"""Test that verses are whole, split by chapter, and that the splits are disjoint."""

from __future__ import annotations

import pytest
import torch

from bakeoff.suite.tasks.bases.subwords import END, PADDING, START
from bakeoff.suite.tasks.bases.translation import Bitext
from bakeoff.suite.tasks.sequence_to_sequence import bible
from bakeoff.suite.tasks.sequence_to_sequence.bible import (
    LANGUAGES,
    BibleEnDe,
    read_parts,
    split_of,
)
from bakeoff.suite.tasks.task import UNSCORED, TaskError

LENGTH = 48


@pytest.fixture(scope="module")
def task() -> BibleEnDe:
    return BibleEnDe(LENGTH)


def test_subwords_give_every_verse_back_and_none_is_unknown_in_training(task: BibleEnDe) -> None:
    places, english, german, _ = read_parts()[2:]
    assert len(places) == 31_101
    pairs = task.pairs()
    texts = {*english, *german}
    for pair in (*pairs.splits["training"][:500], *pairs.splits["test"]):
        assert pairs.subwords.decoded(pair.source) in texts
        assert pairs.subwords.decoded(pair.target) in texts


def test_no_verse_of_training_is_tested_in_either_language(task: BibleEnDe) -> None:
    sides = {
        name: ({str(p.source) for p in some}, {str(p.target) for p in some})
        for name, some in task.pairs().splits.items()
    }
    for held_out in ("validation", "test"):
        for ours, theirs in zip(sides["training"], sides[held_out], strict=True):
            assert ours.isdisjoint(theirs)
    assert [len(sides[name][0]) for name in sides] == [27_976, 606, 2_040]


def test_a_chapter_is_in_one_split() -> None:
    chapters: dict[str, set[str]] = {}
    for place in read_parts()[2]:
        chapters.setdefault(place.rpartition(".")[0], set()).add(split_of(place))
    assert {len(splits) for splits in chapters.values()} == {1}
    assert len(chapters) == 1_189


def test_a_batch_asks_for_the_verse_and_its_end(task: BibleEnDe) -> None:
    batch = task.training_batch(3, 4, seed=1)
    inputs, targets = batch.inputs["inputs"], batch.targets
    for read, asked, mask in zip(inputs, targets, batch.inputs["mask"], strict=True):
        verse = asked[asked != UNSCORED].tolist()
        assert verse[-1] == END
        assert END not in verse[:-1]
        assert read[mask].tolist() == [START, *verse[:-1]]
        assert mask.tolist() == (asked != UNSCORED).tolist()
        assert set(read[~mask].tolist()) <= {PADDING}
    context = batch.inputs["context"]
    assert context.shape == (4, LENGTH - 1)
    assert torch.equal(batch.inputs["context_mask"], context != PADDING)


def test_parts_are_by_words_of_the_source(task: BibleEnDe) -> None:
    batch = next(task.held_out("test", 200))
    parts = task.in_parts(batch)
    for row, context in enumerate(batch.inputs["context"]):
        num_words = len(task.text(context[context != PADDING].tolist()).split(" "))
        (found,) = [at for at, is_in in parts.items() if is_in[row, 0]]
        assert found == f"words={min(40, -(-num_words // 10) * 10)}"


def test_the_score_is_of_texts() -> None:
    subwords = BibleEnDe.pairs().subwords
    symbols = subwords.encoded("Im Anfang schuf Gott die Himmel und die Erde.")
    metric = BibleEnDe.metric
    assert metric.value(torch.tensor(metric.counts(symbols, symbols))) == pytest.approx(100.0)
    assert "tok:13a" in metric.signature


def test_what_is_too_short_for_any_verse_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = Bitext(BibleEnDe.pairs().subwords, {"training": (), "test": (), "validation": ()})
    monkeypatch.setattr(bible, "_pairs", lambda language: empty)
    with pytest.raises(
        TaskError, match="bible_en_de: no pair of the training is shorter than length=9"
    ):
        BibleEnDe(9).training_batch(0, 2, 0)


def test_damage_inside_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    few = b"a\nb\tc\n\f\n" * 2
    for content in (b"\xff", few, few + b"1.1.1\n\f\none\n\f\neins\nzwei\n\f\nun\n\f\n"):
        monkeypatch.setattr(bible, "read_content", lambda source, content=content: content)
        with pytest.raises(TaskError, match=r"bible\.txt\.xz is malformed"):
            read_parts()


def test_languages_are_those_of_the_file() -> None:
    place, *first = (lines[0] for lines in read_parts()[2:])
    assert place == "1.1.1"
    assert dict(zip(LANGUAGES, first, strict=True))["French"].startswith("Au commencement")
