"""Test that the class tells whether the markers are joined and that no simpler rule predicts it."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.long_range.contours import (
    MARKERS_APART,
    TOLERANCE,
    PathDrawing,
    Reals,
    library,
)
from bakeoff.suite.tasks.long_range.pathfinder import (
    Pathfinder,
    PathfinderSmall,
    PathfinderX,
    rendered,
    turned,
)

KINDS = [Pathfinder, PathfinderSmall, PathfinderX]
MOST_GAP = 1.0 + 1e-9  # between two dashes of a contour


@cache
def _drawing(kind: type[Pathfinder]) -> PathDrawing:
    return kind(kind.fixed_length).drawn(RandomStream(3, 1), 150)


def _ends_of(drawing: PathDrawing, label: int) -> Reals:
    """Return the two marked ends, `[pictures, 2, 2]`."""
    return drawing.ends[:, [0, 2 - label]]


def _is_joined(paddles: Reals, ends: Reals) -> bool:
    """Return True if dashes and gaps join the ends; the contours are not used."""
    paddles = paddles[~np.isnan(paddles[:, 0, 0])]
    tips = paddles.reshape(-1, 2)
    away = np.linalg.norm(tips[:, None] - tips, axis=2).reshape(len(paddles), 2, len(paddles), 2)
    follows = away.min(axis=(1, 3)) <= MOST_GAP
    starts = [np.abs(paddles - end).max(axis=2).min(axis=1).argmin() for end in ends]
    reached = np.zeros(len(paddles), dtype=bool)
    reached[starts[0]] = True
    for _ in paddles:
        reached = follows[reached].any(axis=0)
    return bool(reached[starts[1]])


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_joins_the_markers_of_class_1_and_none_those_of_class_0(
    kind: type[Pathfinder],
) -> None:
    drawing = _drawing(kind)
    for label in (0, 1):
        joined = map(_is_joined, drawing.paddles, _ends_of(drawing, label))
        assert set(joined) == {bool(label)}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_marked_are_ends_equally_far_apart_in_both_classes(kind: type[Pathfinder]) -> None:
    drawing = _drawing(kind)
    away = [
        np.linalg.norm(np.diff(_ends_of(drawing, label), axis=1)[:, 0], axis=1) for label in (0, 1)
    ]
    assert np.abs(away[0] - away[1]).max() <= TOLERANCE + 1e-9
    assert min(map(np.min, away)) >= MARKERS_APART
    assert abs(np.mean(away[0]) - np.mean(away[1])) < 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_the_layout_is_the_recipes(kind: type[Pathfinder]) -> None:
    drawing, layout = _drawing(kind), kind.layout
    num_paddles = 2 * layout.contour + layout.num_distractors * layout.distractor
    assert drawing.paddles.shape == (150, num_paddles, 2, 2)
    assert not np.isnan(drawing.paddles[:, : 2 * layout.contour]).any()
    lengths = np.linalg.norm(np.diff(drawing.paddles, axis=2)[:, :, 0], axis=2)
    assert np.nanmin(lengths) == pytest.approx(2)
    assert np.nanmax(lengths) == pytest.approx(2)
    assert np.isnan(lengths).mean() < 0.4  # distractors that did not fit
    assert 1 <= np.nanmin(drawing.paddles) < np.nanmax(drawing.paddles) <= layout.extent - 1


def test_turns_follow_the_square_of_the_cosine() -> None:
    """Use two dashes, which need not keep clear of each other as longer contours do."""
    along = np.diff(library(2, 16), axis=2)[:, :, 0]
    angles = np.arctan2(along[..., 0], along[..., 1])
    turns = np.angle(np.exp(1j * (angles[:, 1] - angles[:, 0])))
    assert np.abs(turns).max() <= np.pi / 2
    assert turns.std() == pytest.approx(np.sqrt(np.pi**2 / 12 - 0.5), abs=0.06)


def _facts(kind: type[Pathfinder], step: int) -> tuple[Reals, Reals]:
    """Return the sum, spread and numbers of grey and bright pixels of pictures, and the classes."""
    task = kind(kind.fixed_length)
    batch = task.training_batch(step, 1_000, seed=0)
    pixels = (batch.inputs["inputs"][..., 0] * task.deviation + task.mean).numpy()
    facts = [pixels.sum(1), pixels.std(1), (pixels > 0.3).sum(1), (pixels > 0.9).sum(1)]
    return np.stack(facts, axis=1), batch.targets.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_how_bright_a_picture_is_does_not_tell_its_class(kind: type[Pathfinder]) -> None:
    (seen, classes), (asked, answers) = _facts(kind, 0), _facts(kind, 1)
    mean, deviation = seen.mean(0), seen.std(0)
    fitted = LogisticRegression().fit((seen - mean) / deviation, classes)
    assert 0.45 < fitted.score((asked - mean) / deviation, answers) < 0.55


@pytest.mark.parametrize("kind", KINDS)
def test_classes_are_balanced_and_pixels_scaled(kind: type[Pathfinder]) -> None:
    batch = kind(kind.fixed_length).training_batch(4, 400, seed=1)
    assert batch.targets.sum() == 200
    assert batch.inputs["inputs"].mean() == pytest.approx(0, abs=0.03)
    assert batch.inputs["inputs"].std() == pytest.approx(1, abs=0.03)


def test_markers_are_bright_discs_and_lines_are_grey() -> None:
    drawing = _drawing(Pathfinder)
    labels = np.arange(150) % 2
    pixels = rendered(drawing, labels, Pathfinder.layout)
    for row, label in enumerate(labels.tolist()):
        for end in _ends_of(drawing, label)[row]:
            assert pixels[row, int(end[0]), int(end[1])] == 1.0
        assert (pixels[row] == 1.0).sum() < 13
    nowhere = PathDrawing(paddles=drawing.paddles, ends=np.full_like(drawing.ends, -99))
    assert 0.7 < rendered(nowhere, labels, Pathfinder.layout).max() <= 0.75


def test_each_picture_comes_in_eight_positions() -> None:
    picture = np.arange(9.0).reshape(1, 3, 3)
    positions = {turned(picture, np.array([kind])).tobytes() for kind in range(8)}
    mirrored = [np.rot90(each, turns) for each in (picture[0], picture[0].T) for turns in range(4)]
    assert positions == {each.tobytes() for each in mirrored}


def test_a_drawing_comes_with_either_class() -> None:
    batch = PathfinderSmall(256).training_batch(0, 40, seed=0)
    assert (batch.targets[0::2] != batch.targets[1::2]).all()
    assert 0 < batch.targets[0::2].sum() < 20
    assert torch.equal(
        batch.inputs["inputs"], PathfinderSmall(256).training_batch(0, 40, seed=0).inputs["inputs"]
    )
