"""Test all photo captioning tasks on small archives in the published formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bakeoff.models import ModelSpec, build_model
from bakeoff.models.interface import CONTEXT
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Measurement
from bakeoff.suite.spec import Model, vary
from bakeoff.suite.tasks import caption_metrics
from bakeoff.suite.tasks.bases.subwords import END, PADDING, START, UNKNOWN
from bakeoff.suite.tasks.batch import UNSCORED, joined
from bakeoff.suite.tasks.data_files import is_absent
from bakeoff.suite.tasks.photos import coco, photo_captions
from bakeoff.suite.tasks.photos.coco import CocoCaptions
from bakeoff.suite.tasks.photos.flickr8k import LISTS, Flickr8kCaptions
from bakeoff.suite.tasks.photos.photo_captions import LENGTH, NUM_SYMBOLS, KnownWords, words_of
from bakeoff.suite.tasks.task import TaskError
from bakeoff.suite.training.engines.engine import written
from tests.suite.probes.conftest import said_after_training
from tests.suite.small_ablation import make_ablation
from tests.suite.tasks.photos.made_photos import (
    COLOURS,
    MODULES,
    SIZES,
    Kind,
    Put,
    asked,
    flickr_photos,
    flickr_text,
    forget,
    jpeg,
    packed,
    references,
)


def test_words_are_lower_case_and_without_marks() -> None:
    assert words_of("A man's T-shirt , \"red\" -- isn't 3-wheeled .") == (
        "a man's t-shirt red isn't 3-wheeled"
    )
    assert words_of(" . ") == ""
    assert words_of("Café_bar") == "café bar"


def test_rare_words_are_unknown_to_a_model_and_known_to_references(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(photo_captions, "NUM_SYMBOLS", 7)
    words = KnownWords(["b a b c", "a b d c"], ["a e"])
    assert words.learnt("b a c d e") == [4, 5, 6, UNKNOWN, UNKNOWN]
    assert words.encoded("b a c d e") == [4, 5, 6, 7, 8]
    assert words.decoded([START, 4, UNKNOWN, 8, END, PADDING]) == "b \N{REPLACEMENT CHARACTER} e"


def test_few_words_leave_symbols_that_say_nothing() -> None:
    """Check that a symbol beyond the vocabulary is never decoded to a word."""
    words = KnownWords(["a b"], ["c"])
    assert words.encoded("a b c") == [4, 5, NUM_SYMBOLS]
    assert words.decoded([4, 6, NUM_SYMBOLS - 1, 5]) == "a b"


@pytest.mark.parametrize("kind", MODULES)
def test_splits_are_disjoint_and_have_their_sizes(both: None, kind: Kind) -> None:
    sizes = {split: len(photos) for split, photos in kind.photos().items()}
    assert sizes == (
        {"training": 10, "validation": 3, "test": 3} if kind is CocoCaptions else SIZES
    )
    files = [photo.file for photos in kind.photos().values() for photo in photos]
    assert len({*files}) == len(files) == 16
    assert {len(p.captions) for photos in kind.photos().values() for p in photos} == {5}
    assert kind(LENGTH).num_training_examples() == sizes["training"]


def test_both_have_the_published_sizes() -> None:
    assert [count for _, count in LISTS.values()] == [6_000, 1_000, 1_000]
    assert (coco.NUM_PHOTOS, coco.NUM_HELD_OUT) == (5_000, 500)
    assert [each.file for each in Flickr8kCaptions.source.files] == [
        "flickr8k/Flickr8k_text.zip",
        "flickr8k/Flickr8k_Dataset.zip",
    ]
    assert [each.file for each in CocoCaptions.source.files] == [
        "coco/annotations_trainval2017.zip",
        "coco/val2017.zip",
    ]


@pytest.mark.parametrize("kind", MODULES)
def test_a_held_out_photo_is_asked_for_its_first_caption_and_judged_by_all(
    both: None, kind: Kind
) -> None:
    task, photos = kind(LENGTH), kind.photos()["test"]
    (batch,) = task.held_out("test", 8)
    assert asked(task, batch) == [photo.captions[0] for photo in photos]
    assert references(task, batch) == [[*photo.captions] for photo in photos]
    pieces = list(task.held_out("test", 2))
    assert torch.equal(joined(pieces).targets, batch.targets)
    assert torch.equal(joined(pieces).inputs[CONTEXT], batch.inputs[CONTEXT])
    inputs, mask = batch.inputs["inputs"], batch.inputs["mask"]
    assert inputs.shape == batch.targets.shape == (len(photos), LENGTH)
    assert (inputs[:, 0] == START).all()
    assert torch.equal(mask.sum(dim=1), (batch.targets != UNSCORED).sum(dim=1))


def test_a_word_of_the_test_alone_is_unknown_and_stands_in_the_references(both: None) -> None:
    task = Flickr8kCaptions(LENGTH)
    (batch,) = task.held_out("test", 8)
    assert references(task, batch)[0][4] == "dog number n12"
    last = photo_captions._described(Flickr8kCaptions, "test").targets[0, 4]
    assert task.text(last.tolist()) == "dog number \N{REPLACEMENT CHARACTER}"
    said = [[UNKNOWN] * 3 for _ in batch.targets]
    assert task.metric.over([task.metric.sums_of_written(said, batch)]) == 0


@pytest.mark.parametrize("kind", MODULES)
def test_any_reference_is_a_perfect_caption(both: None, kind: Kind) -> None:
    task = kind(LENGTH)
    (batch,) = task.held_out("test", 8)
    fourth = [row[3] for row in task.metric.right(batch)]
    assert task.metric.over([task.metric.sums_of_written(fourth, batch)]) == pytest.approx(100)
    cider, rouge = task.also_scored
    assert rouge.over([rouge.sums_of_written(fourth, batch)]) == 1
    assert 0 < cider.over([cider.sums_of_written(fourth, batch)]) < 10
    assert caption_metrics.rarity_among(kind.references).num_documents == len(batch.targets)
    assert "nrefs:5|" in task.metric.signature


@pytest.mark.parametrize("kind", MODULES)
def test_an_epoch_has_each_photo_once_with_a_caption_that_seed_and_step_draw(
    both: None, kind: Kind
) -> None:
    task = kind(LENGTH)
    count = task.num_training_examples()
    batches = [task.training_batch(step, count, seed=3) for step in range(8)]
    known = {tuple(photo.captions): photo for photo in kind.photos()["training"]}
    seen = set()
    for batch in batches:
        found = list(zip(asked(task, batch), references(task, batch), strict=True))
        assert {tuple(captions) for _, captions in found} == {*known}
        assert all(caption in captions for caption, captions in found)
        seen |= {captions.index(caption) for caption, captions in found}
    assert seen == {0, 1, 2, 3, 4}
    again, other = task.training_batch(5, count, seed=3), task.training_batch(5, count, seed=4)
    assert torch.equal(again.targets, batches[5].targets)
    assert torch.equal(again.inputs[CONTEXT], batches[5].inputs[CONTEXT])
    assert not torch.equal(again.targets, other.targets)


def test_a_batch_may_be_overwritten_without_harm_to_the_next(both: None) -> None:
    task = Flickr8kCaptions(LENGTH)
    kept = task.training_batch(0, 3, seed=0).map(torch.clone)
    task.training_batch(0, 3, seed=0).map(torch.Tensor.zero_)
    again = task.training_batch(0, 3, seed=0)
    assert torch.equal(again.inputs[CONTEXT], kept.inputs[CONTEXT])
    assert torch.equal(again.targets, kept.targets)
    assert torch.equal(again.references, kept.references)


@pytest.mark.parametrize("kind", MODULES)
def test_a_photo_is_the_square_in_its_middle(both: None, kind: Kind) -> None:
    task = kind(LENGTH)
    (batch,) = task.held_out("test", 8)
    deviation, mean = map(torch.tensor, (task.pixel_standard_deviation, task.pixel_mean))
    pictures = ((batch.inputs[CONTEXT] * deviation + mean) * 255).numpy()
    assert pictures.shape == (len(batch.targets), 64, 64, 3)
    for caption, picture in zip(asked(task, batch), pictures, strict=True):
        expected = np.array(COLOURS[caption.split()[1]])
        assert np.abs(picture - expected).max() < 8


def test_a_grey_photo_has_three_equal_channels_and_a_tall_one_is_cut(put: Put) -> None:
    photos = flickr_photos()
    photos["Flicker8k_Dataset/te0_0.jpg"] = jpeg("green", mode="L")
    photos["Flicker8k_Dataset/te1_1.jpg"] = jpeg("green", wide=90, high=1_000)
    put(Flickr8kCaptions, packed(flickr_text()), packed(photos))
    grey, tall = photo_captions._described(Flickr8kCaptions, "test").pixels[:2]
    assert (grey == grey[..., :1]).all()
    assert np.ptp(tall.reshape(-1, 3), axis=0).max() < 8


def test_a_long_caption_is_cut_where_it_is_asked_for_and_whole_where_it_judges(put: Put) -> None:
    text, long = flickr_text(), " ".join(["dog"] * 24 + ["runs"] * 16)
    for words, ends in ((long, False), (" ".join(["dog"] * 24), True)):
        old = "te0_0.jpg#0\tA red dog runs .\n"
        assert old in text["Flickr8k.token.txt"].decode()
        changed = text["Flickr8k.token.txt"].decode().replace(old, f"te0_0.jpg#0\t{words}\n")
        forget()
        archives = packed(text | {"Flickr8k.token.txt": changed.encode()}), packed(flickr_photos())
        put(Flickr8kCaptions, *archives)
        task = Flickr8kCaptions(LENGTH)
        (batch,) = task.held_out("test", 8)
        assert (batch.targets[0] != UNSCORED).all()
        assert bool(batch.targets[0, -1] == END) == ends
        assert asked(task, batch)[0] == " ".join(words.split()[:LENGTH])
        assert references(task, batch)[0][0] == words


@pytest.mark.parametrize("kind", MODULES)
def test_what_was_not_fetched_is_refused_with_the_command(put: Put, kind: Kind) -> None:
    name = kind.source.name
    assert is_absent(kind.source)
    with pytest.raises(TaskError, match=f"is missing; `bakeoff data fetch {name}` downloads it"):
        kind(LENGTH).training_batch(0, 1, seed=0)
    with pytest.raises(TaskError, match=f"is missing; `bakeoff data fetch {name}` downloads it"):
        next(kind(LENGTH).held_out("test", 1))


@pytest.mark.parametrize("name", ["captioner", "show_attend_tell"])
def test_captioners_serve_them_and_write(both: None, name: str) -> None:
    task = Flickr8kCaptions(LENGTH)
    hole = {"mixer": "attention", "position": "learned", "depth": 1}
    model = build_model(
        ModelSpec(
            architecture=name,
            dim=16,
            length=LENGTH,
            input_kind="tokens",
            input_size=NUM_SYMBOLS,
            output_size=NUM_SYMBOLS,
            others=task.other_inputs(LENGTH),
            **(hole if name == "captioner" else {}),
        )
    )
    batch = task.training_batch(0, 2, seed=0)
    assert task.loss(batch.through(model), batch).isfinite()
    found = written(model.eval(), batch, task.metric.decoder, task.metric.end)
    assert all(len(row) <= LENGTH for row in found.rows())


@pytest.mark.parametrize("name", Flickr8kCaptions.floors)
def test_floors_are_judged_by_all_references(both: None, name: str) -> None:
    found = FLOORS[name]
    assert found.suits(Flickr8kCaptions)
    assert 0 < found.score(Flickr8kCaptions(LENGTH)) <= 100


def test_what_a_trained_captioner_writes_is_scored(both: None, tmp_path: Path) -> None:
    """Check that each metric has an interval."""
    fields = {
        "baseline": Model("show_attend_tell", blocks="1", encoder_width=4),
        "tasks": ["flickr8k_captions"],
        "axes": [vary("beam", [1, 2])],
        "probes": ["quality", "written_scores"],
    }
    scale = {"length": LENGTH, "batch": 2, "steps": 2, "num_evaluations": 1, "dim": 16}
    trial = next(
        each
        for each in plan(make_ablation(**fields, scale=scale), seeds=1).trials
        if each.probe == "written_scores"
    )
    said = said_after_training(trial, tmp_path)
    found = {each.metric: each for each in said if isinstance(each, Measurement)}
    assert found["num_sentences"].value == SIZES["test"]
    for name in ("written_bleu", "written_cider_d", "written_rouge_l"):
        assert found[name].spread_low <= found[name].value <= found[name].spread_high
