"""Compare multi-query associative recall with Zoology's definition."""

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.mqar import ALPHA, FILLER, Mqar, MqarSmall, draw_gaps
from bakeoff.suite.tasks.task import UNSCORED, Batch


def _drawn(task: Mqar, num_pairs: int, count: int = 40) -> Batch:
    return task.draw(RandomStream(0, 0), count, num_pairs)


@pytest.mark.parametrize(("length", "num_pairs"), [(64, 4), (128, 8), (256, 16), (512, 64)])
def test_the_settings_of_the_papers_figure_2_are_among_the_kinds(
    length: int, num_pairs: int
) -> None:
    task = Mqar(length)
    assert num_pairs in task.kinds()
    assert _drawn(task, num_pairs, 2).inputs["inputs"].shape == (2, length)


def test_the_vocabulary_is_the_papers() -> None:
    assert Mqar.input_size == Mqar.output_size == 8_192


@pytest.mark.parametrize("task", [Mqar(64), MqarSmall(64)])
@pytest.mark.parametrize("num_pairs", [4, 8])
def test_pairs_come_first_keys_from_the_lower_half_values_from_the_upper(
    task: Mqar, num_pairs: int
) -> None:
    batch, half = _drawn(task, num_pairs), task.input_size // 2
    keys, values = (
        batch.inputs["inputs"][:, 0 : 2 * num_pairs : 2],
        batch.inputs["inputs"][:, 1 : 2 * num_pairs : 2],
    )
    assert 1 <= keys.min() <= keys.max() < half
    assert half <= values.min() <= values.max() < task.input_size
    for row in torch.cat([keys, values]):
        assert len(set(row.tolist())) == num_pairs


def test_each_key_is_asked_for_once_and_its_value_is_the_answer() -> None:
    batch = _drawn(MqarSmall(128), 16)
    for inputs, targets in zip(
        batch.inputs["inputs"].tolist(), batch.targets.tolist(), strict=True
    ):
        value_of = dict(zip(inputs[0:32:2], inputs[1:32:2], strict=True))
        asked = {place: symbol for place, symbol in enumerate(inputs[32:], 32) if symbol != FILLER}
        assert sorted(asked.values()) == sorted(value_of)
        for place, target in enumerate(targets):
            assert target == (value_of[asked[place]] if place in asked else UNSCORED)
        assert all(place % 2 == 0 for place in asked)


def test_gaps_follow_the_power_law() -> None:
    """Check that the first pair's gap g has a probability proportional to (g + 1)**(alpha - 1)."""
    gaps = draw_gaps(RandomStream(0, 0), 40_000, 4, 64)
    num_places = (64 - 2 * 4) // 2
    assert (gaps.min(), gaps.max()) == (0, num_places - 1)
    law = np.arange(1, num_places + 1) ** (ALPHA - 1.0)
    expected = 40_000 * law / law.sum()
    chi_squared = ((np.bincount(gaps[:, 0], minlength=num_places) - expected) ** 2 / expected).sum()
    assert chi_squared < 55.5  # 99.9 % of chi-squared with 27 degrees of freedom
    assert ALPHA == 0.1


def test_later_pairs_wait_longer() -> None:
    """Draw gaps one by one without replacement, so that small ones are taken first."""
    gaps = draw_gaps(RandomStream(0, 0), 10_000, 8, 64)
    assert (np.diff(np.sort(gaps, axis=1), axis=1) > 0).all()
    means = gaps.mean(axis=0)
    assert (np.diff(means) > 0).all()


def test_numbers_of_pairs_double_up_to_an_eighth_of_the_length() -> None:
    kinds = {length: list(Mqar(length).kinds()) for length in (32, 64, 96, 512, 4096)}
    assert kinds == {
        32: [4],
        64: [4, 8],
        96: [4, 8],
        512: [4, 8, 16, 32, 64],
        4096: [4, 8, 16, 32, 64],
    }


def test_accuracy_by_number_of_pairs_is_over_all_queries_of_such_examples() -> None:
    task = MqarSmall(64)
    few, many = _drawn(task, 4, 3), _drawn(task, 8, 2)
    parts = task.in_parts(joined([few, many]))
    assert parts["pairs=4"].all(dim=1).tolist() == [True] * 3 + [False] * 2
    assert parts["pairs=8"].all(dim=1).tolist() == [False] * 3 + [True] * 2


def test_both_vocabularies_are_data_sets_of_their_own() -> None:
    assert Mqar.source.sha256 != MqarSmall.source.sha256
