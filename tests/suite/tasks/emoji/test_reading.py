"""Test that a scene is recovered from its pixels and scored on nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.emoji.emoji_scenes import KNOWN, OF_TEST, captions, draw_scenes
from bakeoff.suite.tasks.emoji.reading import APART, ObjectsDrawn, PicturesRight, read_scenes
from bakeoff.suite.tasks.emoji.scenes import NOTHING, Scenes, empty_canvas


def drawn(count: int = 300, kind: int = KNOWN) -> Scenes:
    return draw_scenes(RandomStream(5, 1), count, kind, apart=APART)


def painted(scenes: Scenes) -> Tensor:
    return torch.from_numpy(scenes.painted())


def batch_of(scenes: Scenes) -> Batch:
    return Batch(inputs={}, targets=painted(scenes))


@pytest.mark.parametrize("kind", [KNOWN, OF_TEST])
def test_scenes_are_read_as_they_were_drawn(kind: int) -> None:
    scenes = drawn(kind=kind)
    found = read_scenes(painted(scenes))
    is_object = scenes.objects != NOTHING
    assert (found.objects == scenes.objects).all()
    assert (found.places[is_object] == scenes.places[is_object]).all()
    assert (captions(found)[0] == captions(scenes)[0]).all()


def test_a_little_noise_does_not_matter() -> None:
    scenes = drawn()
    noise = 0.5 * torch.randn(painted(scenes).shape, generator=torch.Generator().manual_seed(0))
    assert (read_scenes(painted(scenes) + noise).objects == scenes.objects).all()


def test_white_is_nothing() -> None:
    assert (read_scenes(torch.from_numpy(empty_canvas())).objects == NOTHING).all()


def one_scene(objects: list[int], places: list[tuple[int, int]]) -> Scenes:
    missing = 4 - len(objects)
    return Scenes(
        objects=np.array([objects + [NOTHING] * missing]),
        places=np.array([[*places, *[(0, 0)] * missing]]),
    )


ASKED = one_scene([3, 7, 11], [(0, 0), (8, 16), (0, 32)])


@pytest.mark.parametrize(
    ("found", "is_right", "share"),
    [
        (ASKED, 1, 1),
        (one_scene([3, 7, 11], [(8, 0), (32, 16), (16, 32)]), 0, 1),  # the second object is below
        (one_scene([3, 7, 11], [(8, 0), (16, 16), (8, 32)]), 1, 1),  # all shifted down
        (one_scene([7, 3, 11], [(0, 0), (8, 16), (0, 32)]), 0, 1),  # another order
        (one_scene([3, 7], [(0, 0), (8, 16)]), 0, 2 / 3),
        (one_scene([3, 7, 12], [(0, 0), (8, 16), (0, 32)]), 0, 2 / 3),
        # one object too many
        (one_scene([3, 7, 11, 5], [(0, 0), (8, 16), (0, 32), (32, 32)]), 0, 1),
    ],
)
def test_a_picture_is_right_where_its_caption_is(
    found: Scenes, is_right: int, share: float
) -> None:
    right, there = PicturesRight(), ObjectsDrawn()
    asked, answer = batch_of(ASKED), painted(found)
    is_alike = (captions(found)[0] == captions(ASKED)[0]).all()
    assert right.value(right.sums_of(answer, asked)) == is_right == is_alike
    assert there.value(there.sums_of(answer, asked)) == pytest.approx(share)


def test_pictures_that_are_not_asked_for_do_not_count() -> None:
    scenes, metric = drawn(4), PicturesRight()
    asked = batch_of(scenes)
    answer = torch.cat([asked.targets[:1], asked.targets[:3]])
    assert metric.sums_of(answer, asked).tolist() == [1, 4]
    first = asked.only(torch.tensor([True, False, False, False]))
    assert metric.sums_of(answer, first).tolist() == [1, 1]


def test_a_picture_of_nan_has_no_score() -> None:
    asked = batch_of(drawn(2))
    broken = replace(asked, targets=asked.targets.clone())
    broken.targets[0, 0, 0, 0] = torch.nan
    for metric in (PicturesRight(), ObjectsDrawn()):
        assert metric.value(metric.sums_of(broken.targets, asked)) != metric.value(
            metric.sums_of(asked.targets, asked)
        )
        assert np.isnan(metric.value(metric.sums_of(broken.targets, asked)))
