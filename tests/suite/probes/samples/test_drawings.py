"""Test the samples of models that draw: the same captions for every model, and its drawings."""

from __future__ import annotations

import base64

import numpy as np
import pytest
import torch

from bakeoff.models import Architecture, ModelSpec, build_model
from bakeoff.models.interface import INPUTS
from bakeoff.suite.probes.samples.collect import samples_of
from bakeoff.suite.probes.samples.vision import DRAWN, GIVEN_BACK, NUM_PICTURES, chosen_examples
from bakeoff.suite.schema import Sample
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training.engines.engine import drawn


def task_of(name: str) -> Task:
    return build_task(name, task_class(name).fixed_length or 0)


def built(task: Task) -> Architecture:
    torch.manual_seed(0)
    inputs = dict(task.interface(task.length).inputs)
    first = inputs.pop(INPUTS)
    of_stack = {
        "mixer": "attention",
        "knobs": {"heads": 2},
        "position": "learned",
        "dim": 8,
        "depth": 1,
    }
    spec = ModelSpec(
        architecture=task.architecture,
        length=task.length,
        input_kind=first.kind,
        input_size=first.size,
        grid=first.grid,
        output_size=3,
        others=inputs,
        settings={"codes": 12, "tokenizer_width": 8},
        **(of_stack if task.architecture == "image_tokens" else {}),
    )
    return build_model(spec).eval()


def pixels(sample: Sample) -> np.ndarray:
    levels = np.frombuffer(base64.b64decode(sample.levels), dtype=np.uint8)
    shares = levels.reshape(NUM_PICTURES, *sample.picture) / 255
    return sample.low + (sample.high - sample.low) * shares


@pytest.mark.whole
def test_a_model_shows_what_was_asked_for_and_what_it_draws() -> None:
    task = task_of("emoji_tokens")
    model = built(task)
    found = samples_of(model, task, seed=0)
    assert [(each.kind, each.title) for each in found if each.kind.endswith("images")] == [
        ("asked_images", "pixels"),
        ("drawn_images", GIVEN_BACK),
        ("drawn_images", DRAWN),
    ]
    asked, given_back, own = (each for each in found if each.kind.endswith("images"))
    mean, deviation = map(np.array, (task.pixel_mean, task.pixel_standard_deviation))
    for number, example in enumerate(chosen_examples(task)):
        picture = example.targets[0].numpy() * deviation + mean
        assert pixels(asked)[number] == pytest.approx(picture, abs=1 / 255)
        assert asked.row_words[number] == task.text(example.inputs[INPUTS][0].tolist())
        with torch.no_grad():
            alone = drawn(model, example)[0].numpy()
        wanted = np.clip(alone * deviation + mean, 0, 1)
        assert pixels(own)[number] == pytest.approx(wanted, abs=1 / 255)
    assert pixels(given_back).std() > 0


def test_a_picture_that_is_given_back_is_shown_beside_the_one_that_was_given() -> None:
    task = task_of("emoji_pictures")
    found = samples_of(built(task), task, seed=0)
    assert [(each.kind, each.title) for each in found] == [
        ("asked_images", "pixels"),
        ("drawn_images", GIVEN_BACK),
    ]
    assert found[0].row_words == ()


def test_what_is_drawn_does_not_depend_on_the_picture() -> None:
    task = task_of("emoji_tokens")
    model, example = built(task), chosen_examples(task)[0]
    hidden = {**example.inputs, "context": torch.full_like(example.inputs["context"], torch.nan)}
    with torch.no_grad():
        found = drawn(model, example)
        blind = drawn(model, type(example)(inputs=hidden, targets=example.targets))
    assert torch.equal(found, blind)
