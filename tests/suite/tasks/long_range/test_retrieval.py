"""Compare pairs of passages with the verses of the file."""

import pytest
import torch

from bakeoff.models import build_model
from bakeoff.models.model_spec import ModelSpec
from bakeoff.suite.tasks.long_range.retrieval import (
    Retrieval,
    long_chapters,
    read_chapters,
    split_of,
)
from bakeoff.suite.tasks.sequence_to_sequence.bible import read_parts


def _bytes(tokens: torch.Tensor) -> bytes:
    return bytes(tokens.tolist())


def test_a_chapter_is_its_verses() -> None:
    *_, places, english, german, _ = read_parts()
    first = read_chapters()["1.1"]
    assert first.passage(0, 0, 24).tobytes() == english[0].encode()[:24]
    assert first.passage(1, 1, 24).tobytes() == german[1].encode()[:24]
    assert first.begins.shape == (2, sum(place.startswith("1.1.") for place in places))
    assert len(read_chapters()) == 1_189


@pytest.mark.parametrize("length", [96, 1024])
def test_class_1_is_the_same_verse_and_class_0_another_chapter_of_the_book(length: int) -> None:
    batch = Retrieval(length).training_batch(0, 40, seed=0)
    starts = {
        chapter.passage(language, verse, length).tobytes(): (language, number, verse)
        for number, chapter in enumerate(long_chapters("training", length))
        for verse in range(chapter.num_starts(length))
        for language in (0, 1)
    }
    chapters = long_chapters("training", length)
    for pair, label in zip(batch.inputs["inputs"], batch.targets.tolist(), strict=True):
        english, german = (starts[_bytes(each)] for each in pair)
        assert (english[0], german[0]) == (0, 1)
        assert (english[1:] == german[1:]) == bool(label)
        assert chapters[english[1]].book == chapters[german[1]].book
        assert label or english[1] != german[1]


def test_splits_are_of_whole_chapters_in_parts_of_ten() -> None:
    names = list(read_chapters())
    shares = [
        sum(split_of(name) == split for name in names) / len(names)
        for split in ("training", "validation", "test")
    ]
    assert shares == pytest.approx([0.7, 0.1, 0.2], abs=0.03)


@pytest.mark.parametrize("length", [256, 1024, 4000])
def test_classes_are_balanced_at_every_length(length: int) -> None:
    targets = torch.cat([batch.targets for batch in Retrieval(length).held_out("test", 512)])
    assert targets.double().mean() == 0.5
    assert len(targets) >= 200
    training = Retrieval(length).training_batch(0, 400, seed=0).targets
    assert 160 < training.sum() < 240


def test_a_pair_classifier_reads_it() -> None:
    task = Retrieval(64)
    spec = ModelSpec(
        architecture="pair_classifier",
        mixer="plain_attention",
        position="none",
        dim=16,
        depth=1,
        length=64,
        input_kind="tokens",
        input_size=task.input_size,
        output_size=task.output_size,
    )
    model = build_model(spec)
    assert task.training_batch(0, 3, seed=0).through(model).logits.shape == (3, 2)
