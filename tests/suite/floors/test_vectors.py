"""Check nearest neighbours and linear classifiers by hand and against scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from bakeoff.suite.floors import floor, vectors
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.floors.vectors import NUMBERS, nearest, votes, words_in
from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.caption_metrics import RougeL
from bakeoff.suite.tasks.emoji.picture_metrics import PixelError
from bakeoff.suite.tasks.metrics import Recall
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Split, Task
from tests.suite.floors.tiny import (
    END,
    FILLER,
    Given,
    Row,
    TinyCaptions,
    TinyDrawings,
    TinyPoints,
    TinyReviews,
    filled,
    pictures_of,
)


class Around(TinyPoints):
    """The means are 2 and 6, so the border is 4; the third class is never predicted."""

    test: ClassVar = [(3.9, 0), (4.1, 1), (5.0, 0), (2.0, 2)]


class ThreeIsBest(TinyPoints):
    """In validation the outlier at 5 misleads one neighbour, but not three."""

    validation: ClassVar = [(5.1, 1), (4.9, 1), (0.4, 0)]
    test: ClassVar = [(5.2, 1), (4.8, 1), (0.2, 0), (9.0, 2)]


class OneIsBest(ThreeIsBest):
    validation: ClassVar = [(5.1, 0), (4.9, 0), (0.4, 0)]


class Two(ThreeIsBest):
    training: ClassVar = [(0.0, 0), (5.0, 1)]


class Captions(TinyCaptions):
    """Nearest pictures are right three times; the last neighbour's caption has an extra word."""

    training: ClassVar[list[Row]] = [
        ([0, 0], [3]),
        ([1, 1], [3]),
        ([0, 9], [4, 5]),
        ([9, 0], [5, 4, 6]),
    ]
    test: ClassVar[list[Row]] = [
        ([2, 1], [3]),
        ([1, 6], [4, 5]),
        ([8, 8.5], [4, 5]),
        ([7, 3], [5, 4]),
    ]


class Choices(TinyCaptions):
    """A task whose rows hold a picture, its candidates, and which of them is right."""

    asks_for = "choice"
    metric = Recall(name="recall_at_1", num_kept=1)
    training: ClassVar[list[Any]] = [([0, 0], [[3, 4]], 0), ([9, 9], [[5, 6, 7]], 0)]
    test: ClassVar[list[Any]] = [
        ([1, 0], [[5, 6], [3, 8]], 1),  # one word in common
        ([8, 9], [[3, 4], [7, 6, 5]], 1),  # all words in another order
        # wrong: the other caption has no more words in common
        ([9, 8], [[5, 6, 7, 8], [5, 6, 7]], 0),
        ([0, 1], [[6, 5], [7, 8]], 0),  # wrong: neither has a word in common
    ]

    @staticmethod
    def batch_of(rows: Sequence[tuple[list[float], list[list[int]], int]]) -> Batch:
        texts = torch.stack([filled(candidates, 4, FILLER) for _, candidates, _ in rows])
        pictures = pictures_of([(pixels, []) for pixels, _, _ in rows])
        return Batch(
            inputs={"inputs": texts, "mask": texts != FILLER, "context": pictures},
            targets=torch.tensor([target for _, _, target in rows]),
        )


class Drawings(TinyDrawings):
    """Captions begin with 1. The third shares only one word with its own picture's caption."""

    metric = PixelError(is_drawn=True)
    training: ClassVar[list[Row]] = [
        ([1, 0], [1, 3, 4, 5]),
        ([2, 0], [1, 5, 4, 3]),
        ([3, 0], [1, 3]),
        ([4, 0], [1, 6, 7, 8, 9]),
    ]
    test: ClassVar[list[Row]] = [
        ([1, 0], [1, 3, 4, 5, 2]),  # one more word than the first
        ([2, 0], [1, 5, 4, 3]),  # the words of the first, in the order of the second
        ([3, 2], [1, 3, 8]),
    ]


class FirstToken(Given):
    """The corners of a square as two tokens of one number each, repeated many times."""

    name = "corners"
    asks_for = "class"
    architecture = "classifier"
    input_kind = "vectors"
    input_size = 1
    output_size = 2
    training: ClassVar = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)] * 1_024
    validation = test = training[:8]

    @staticmethod
    def batch_of(rows: Sequence[tuple[int, int, int]]) -> Batch:
        x, y, labels = torch.tensor(list(rows)).T
        return Batch(
            inputs={"inputs": torch.stack([x, y], dim=1).float()[..., None]}, targets=labels
        )


@pytest.mark.parametrize(
    ("name", "task", "expected"),
    [
        ("nearest_centroid", Around(1), 2 / 4),
        ("nearest_neighbours", ThreeIsBest(1), 3 / 4),
        ("nearest_neighbours", OneIsBest(1), 1 / 4),
        ("nearest_neighbours", Two(1), 3 / 4),  # with fewer examples than the largest k
        ("nearest_caption", Captions(4), 3 / 4),
        ("nearest_choice", Choices(4), 2 / 4),
        ("nearest_drawing", Drawings(6), 2**2 / 6),
        ("logistic_regression", FirstToken(2), 1.0),
        ("tf_idf", TinyReviews(2), 3 / 4),  # the mislabelled text is wrong
    ],
)
def test_a_floor_has_the_score_that_is_worked_out(name: str, task: Task, expected: float) -> None:
    assert FLOORS[name].suits(type(task))
    assert FLOORS[name].score(task) == pytest.approx(expected)


def test_a_linear_classifier_does_not_know_what_two_tokens_say_together() -> None:
    class WhetherTheyDiffer(FirstToken):
        training: ClassVar = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)] * 1_024
        validation = test = training[:8]

    assert 0.25 <= FLOORS["logistic_regression"].score(WhetherTheyDiffer(2)) <= 0.75


def test_a_tie_goes_to_the_nearer() -> None:
    rows, labels = torch.tensor([[0.0], [3.0]]), torch.tensor([1, 0])
    found = votes(labels[nearest(rows, torch.tensor([[1.0], [2.0]]), 2)], 2)
    assert found.argmax(dim=1).tolist() == [1, 0]


@pytest.mark.parametrize("k", NUMBERS)
def test_all_bonuses_together_are_below_one_vote(k: int) -> None:
    classes = (torch.arange(k) >= k // 2).long()  # a majority of one for class 1
    assert votes(classes[None], 2).argmax().item() == 1


def test_votes_are_those_of_scikit_learn() -> None:
    drawn = torch.Generator().manual_seed(0)
    rows, asked = (torch.randn(count, 5, generator=drawn) for count in (200, 50))
    labels = torch.randint(0, 4, (200,), generator=drawn)
    for k in (1, 5, 17):
        theirs = KNeighborsClassifier(k).fit(rows.numpy(), labels.numpy())
        expected = torch.from_numpy(theirs.predict_proba(asked.numpy())) * k
        found = votes(labels[nearest(rows, asked, k)], 4).floor()
        assert found.tolist() == expected.round().tolist()


def test_a_floor_is_fitted_to_the_training_examples_that_the_task_has() -> None:
    """Compare the centroids with those of scikit-learn."""
    few, more = (build_task("fashion_mnist_images", 784, count) for count in (100, 2_000))
    for name in ("nearest_centroid", "nearest_neighbours"):
        assert 0.5 < FLOORS[name].score(few) < FLOORS[name].score(more) < 0.85
    batch = few.training_batch(0, 100, seed=0)
    theirs = NearestCentroid().fit(batch.inputs["inputs"].flatten(1).numpy(), batch.targets.numpy())
    test = next(few.held_out("test", 2_000))
    predicted = theirs.predict(test.inputs["inputs"].flatten(1).numpy())
    expected = (predicted == test.targets.numpy()).mean()
    assert FLOORS["nearest_centroid"].score(few) == pytest.approx(expected, abs=1e-3)


def test_captions_count_without_ends_and_fillers_in_any_number_of_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Judged(Captions):
        metric = RougeL(end=END)

    one_more = RougeL().score(["5", "4", "6"], ["5", "4"])
    for tokens_at_once in (8, 16_384):
        monkeypatch.setattr(floor, "_TOKENS_AT_ONCE", tokens_at_once)
        found = FLOORS["nearest_caption"].score(Judged(4))
        assert found == pytest.approx((3 + one_more) / 4)


def test_a_fixed_number_of_examples_is_read_of_a_task_that_draws_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that the nearest of the first two examples is always [3]."""

    class Drawn(Captions):
        def num_training_examples(self) -> int | None:
            return None

    assert FLOORS["nearest_caption"].score(Drawn(4)) == 3 / 4
    monkeypatch.setattr(floor, "NUM_DRAWN", 2)
    assert FLOORS["nearest_caption"].score(Drawn(4)) == 1 / 4


def test_words_are_those_that_a_model_is_shown() -> None:
    batch = next(TinyReviews(1).held_out("test", 4))  # at length 1 a text is its first word
    rows = batch.inputs["inputs"].tolist()
    assert [words_in(TinyReviews(1), row) for row in rows] == [["2"], ["3"], ["4"], ["3"]]
    task = build_task("shakespeare_plays", 40)
    tokens = next(task.held_out("test", 1)).inputs["inputs"][0].tolist()
    words = words_in(task, tokens)
    assert " ".join(words).startswith(task.text(tokens).split()[0].lower()[:3])
    assert all(word == word.lower() and word.strip() for word in words)


def test_a_word_weighs_by_its_rarity_and_a_text_has_length_one() -> None:
    def batch_of(*texts: list[int]) -> Batch:
        inputs = filled(texts, 3, FILLER)
        named = {"inputs": inputs, "mask": inputs != FILLER}
        return Batch(inputs=named, targets=torch.zeros(len(texts), dtype=torch.long))

    features = vectors.TfIdf().features(TinyReviews(3), [batch_of([5], [5, 6], [6, 6, 7])])
    found = features([batch_of([6, 6, 7])]).toarray()[0]
    rarity = {word: math.log(4 / (1 + number)) + 1 for word, number in {6: 2, 7: 1}.items()}
    weights = [(1 + math.log(2)) * rarity[6], rarity[7]]
    length = math.hypot(*weights)
    assert found == pytest.approx([0.0, weights[0] / length, weights[1] / length])


def test_the_strength_is_chosen_on_the_validation_split_and_the_test_split_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Use data for which only the second strength is right in validation."""
    read = []

    class Noted(FirstToken):
        def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
            read.append(split)
            return super().held_out(split, batch)

    class Fitted:
        classes_: ClassVar = [0, 1]

        def __init__(self, rows: Any, labels: Any, strength: float) -> None:
            self.strength = strength

        def predict_log_proba(self, rows: Any) -> Any:
            right = torch.tensor(rows[:, 0]) == 1
            scores = torch.stack([~right, right], dim=1).double()
            return (scores if self.strength == 0.01 else -scores).numpy()

    monkeypatch.setattr(vectors, "fitted", Fitted)
    assert FLOORS["logistic_regression"].score(Noted(2)) == 1.0
    assert read == ["validation", "test"]
