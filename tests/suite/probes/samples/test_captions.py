"""Test the samples of captioners: the same pictures for every model, its words, its attention."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import torch

from bakeoff.models import Architecture, ModelSpec, build_model
from bakeoff.models.interface import CONTEXT
from bakeoff.suite.probes.samples.collect import samples_of
from bakeoff.suite.probes.samples.vision import LOOKED_AT, NUM_PICTURES, captions, chosen_examples
from bakeoff.suite.tasks.emoji.emoji_scenes import LENGTH
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import UNSCORED, Task


@pytest.fixture(scope="module")
def task() -> Task:
    return build_task("emoji_scenes", LENGTH)


def built(task: Task, **settings: Any) -> Architecture:
    torch.manual_seed(0)
    inputs = dict(task.interface(task.length).inputs)
    first = inputs.pop("inputs")
    spec = ModelSpec(
        architecture="show_attend_tell",
        dim=8,
        length=task.length,
        input_kind="tokens",
        input_size=first.size,
        output_size=task.output_size,
        others=inputs,
        settings={"encoder_width": 8, **settings},
    )
    return build_model(spec).eval()


def test_pictures_are_evenly_spaced_in_the_validation_split(task: Task) -> None:
    chosen = chosen_examples(task)
    parts = [int(each.part) for each in chosen if each.part is not None]
    assert parts == [0, 0, 1, 1]  # two of known pairs, two with a new pair
    whole = next(iter(task.held_out("validation", 2_000)))
    by = len(whole.targets) // NUM_PICTURES
    for number, example in enumerate(chosen):
        assert torch.equal(example.targets[0], whole.targets[number * by])


def test_each_picture_is_shown_with_what_is_asked_for_and_what_is_written(task: Task) -> None:
    found = samples_of(built(task), task, seed=0)
    kinds = [each.kind for each in found]
    assert kinds == ["captioned_images", *["caption"] * NUM_PICTURES, *["word_attention"] * 2]
    images, *others = found
    example = chosen_examples(task)[0]
    pixels = np.frombuffer(base64.b64decode(images.levels), dtype=np.uint8).reshape(4, 48, 48, 3)
    mean, deviation = map(np.array, (task.pixel_mean, task.pixel_standard_deviation))
    shown = (example.inputs[CONTEXT][0].numpy() * deviation + mean) * 255
    assert np.abs(pixels[0] - shown).max() < 1.5
    asked = [token for token in example.targets[0].tolist() if token != UNSCORED]
    assert images.row_words[0] == others[0].reference == task.text(asked)


def test_looks_are_those_of_the_words_of_the_right_caption(task: Task) -> None:
    model = built(task)
    looks = [each for each in captions(model, task) if each.kind == "word_attention"]
    for place, sample in zip(LOOKED_AT, looks, strict=True):
        example = chosen_examples(task)[place]
        with torch.no_grad():
            weights = model.attention_weights(**example.inputs)[0]
        shares = np.frombuffer(base64.b64decode(sample.levels), dtype=np.uint8) / 255
        found = (sample.high * shares).reshape(sample.num_rows, -1)
        np.testing.assert_allclose(found, weights[: len(found)].numpy(), atol=1e-3)
        words = task.text(example.targets[0].clamp(min=0).tolist()).split()
        assert sample.row_words == tuple(words[: len(found)])


def test_a_model_that_does_not_look_leaves_its_captions(task: Task) -> None:
    blind = built(task, attention="none", has_gate=False, doubly_stochastic=0.0)
    assert {each.kind for each in captions(blind, task)} == {"captioned_images", "caption"}
