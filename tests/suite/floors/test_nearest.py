"""The nearest mean and the nearest examples, by hand and against scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from suite.floors.nearest import NUMBERS, NearestNeighbours, nearest, votes
from suite.floors.nearest import NearestCentroid as NearestCentroidFloor
from suite.tasks.registry import build_task
from suite.tasks.task import Batch, Split, Task
from tests.suite.floors.tiny import SOURCE

Points = list[tuple[float, int]]


class _Line(Task):
    """Points on a line, each with a class of three; of the third none is for training."""

    name = "line"
    asks_for = "class"
    architecture = "classifier"
    source = SOURCE
    input_kind = "vectors"
    input_size = 1
    output_size = 3
    training: ClassVar[Points] = [(0.0, 0), (1.0, 0), (5.0, 0), (4.0, 1), (6.0, 1), (8.0, 1)]
    splits: ClassVar[dict[Split, Points]]

    def num_training_examples(self) -> int:
        return len(self.training)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        places = [(step * batch + place) % len(self.training) for place in range(batch)]
        return _batch([self.training[place] for place in places])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        points = self.splits[split]
        for first in range(0, len(points), batch):
            yield _batch(points[first : first + batch])


def _batch(points: Points) -> Batch:
    places, labels = zip(*points, strict=True)
    return Batch(
        inputs={"inputs": torch.tensor(places).reshape(-1, 1, 1)}, targets=torch.tensor(labels)
    )


class _ThreeIsBest(_Line):
    """In validation one neighbour is misled by the outlier at 5, and three are not."""

    splits: ClassVar[dict[Split, Points]] = {
        "validation": [(5.1, 1), (4.9, 1), (0.4, 0)],
        "test": [(5.2, 1), (4.8, 1), (0.2, 0), (9.0, 2)],
    }


class _OneIsBest(_ThreeIsBest):
    splits: ClassVar[dict[Split, Points]] = {
        **_ThreeIsBest.splits,
        "validation": [(5.1, 0), (4.9, 0), (0.4, 0)],
    }


def test_the_mean_of_a_class_decides() -> None:
    """The means are 2 and 6: the border is at 4, and a class without examples is never said."""

    class Around(_Line):
        splits: ClassVar[dict[Split, Points]] = {"test": [(3.9, 0), (4.1, 1), (5.0, 0), (2.0, 2)]}

    assert NearestCentroidFloor().score(Around(1)) == 2 / 4


def test_the_number_of_neighbours_is_chosen_on_the_validation_split() -> None:
    assert NearestNeighbours().score(_ThreeIsBest(1)) == 3 / 4
    assert NearestNeighbours().score(_OneIsBest(1)) == 1 / 4


def test_a_tie_goes_to_the_nearer() -> None:
    rows, labels = torch.tensor([[0.0], [3.0]]), torch.tensor([1, 0])
    said = votes(labels[nearest(rows, torch.tensor([[1.0], [2.0]]), 2)], 2)
    assert said.argmax(dim=1).tolist() == [1, 0]


@pytest.mark.parametrize("k", NUMBERS)
def test_a_bonus_for_the_nearer_outweighs_no_vote(k: int) -> None:
    classes = (torch.arange(k) >= k // 2).long()  # of k neighbours one more is of class 1
    assert votes(classes[None], 2).argmax().item() == 1


def test_few_examples_have_few_neighbours() -> None:
    class Two(_ThreeIsBest):
        training: ClassVar[Points] = [(0.0, 0), (5.0, 1)]

    assert NearestNeighbours().score(Two(1)) == 3 / 4


def test_votes_are_those_of_scikit_learn() -> None:
    drawn = torch.Generator().manual_seed(0)
    rows, asked = (torch.randn(count, 5, generator=drawn) for count in (200, 50))
    labels = torch.randint(0, 4, (200,), generator=drawn)
    for k in (1, 5, 17):
        theirs = KNeighborsClassifier(k).fit(rows.numpy(), labels.numpy())
        expected = torch.from_numpy(theirs.predict_proba(asked.numpy())) * k
        assert (
            votes(labels[nearest(rows, asked, k)], 4).floor().tolist() == expected.round().tolist()
        )


def test_few_images_give_each_floor_less() -> None:
    """Each learns from the subset alone; the centroids are scikit-learn's."""
    few, more = (build_task("fashion_mnist_images", 784, count) for count in (100, 2_000))
    for floor in (NearestCentroidFloor(), NearestNeighbours()):
        assert 0.5 < floor.score(few) < floor.score(more) < 0.85
    batch = few.training_batch(0, 100, seed=0)
    theirs = NearestCentroid().fit(batch.inputs["inputs"].flatten(1).numpy(), batch.targets.numpy())
    test = next(few.held_out("test", 2_000))
    said = theirs.predict(test.inputs["inputs"].flatten(1).numpy())
    expected = (said == test.targets.numpy()).mean()
    assert NearestCentroidFloor().score(few) == pytest.approx(expected, abs=1e-3)
