"""Test that windows lie in the acts of their split and have the label of their play."""

from collections import Counter

import numpy as np
import pytest

from bakeoff.suite.tasks.shakespeare_characters import NUM_PLAYS, read_plays
from bakeoff.suite.tasks.shakespeare_plays import ShakespearePlays, acts
from bakeoff.suite.tasks.task import Split

SPLITS: tuple[Split, ...] = ("validation", "test")
ACT = {"validation": 1, "test": 3}


def _texts(batch) -> list[bytes]:
    return [bytes(row) for row in batch.inputs["inputs"].tolist()]


def test_every_play_has_five_acts_long_enough_for_a_window() -> None:
    of_play = acts()
    assert len(of_play) == NUM_PLAYS == 38
    assert {len(five) for five in of_play} == {5}
    held_out = [five[act] for five in of_play for act in ACT.values()]
    assert min(map(len, held_out)) > ShakespearePlays.lengths[1] == 8_192


def test_layout_does_not_tell_plays_apart() -> None:
    texts = [act.tobytes() for five in acts() for act in five]
    for text in texts:
        text.decode("ascii")
        assert b"\n\n" not in text
        assert not text.startswith(b"ACT ")


def test_a_known_line_stands_in_its_act() -> None:
    hamlet = list(read_plays()).index("tragedies/hamlet")
    assert b"To be, or not to be: that is the question:" in acts()[hamlet][2].tobytes()


@pytest.mark.parametrize(("split", "count"), [("validation", 608), ("test", 1_216)])
@pytest.mark.parametrize("length", [1, 256, 8_192])
def test_every_play_is_held_out_as_often_at_every_length(
    split: Split, count: int, length: int
) -> None:
    labels = np.concatenate([b.targets for b in ShakespearePlays(length).held_out(split, 100)])
    assert len(labels) == count
    assert set(Counter(labels.tolist()).values()) == {count // 38}


@pytest.mark.parametrize("split", SPLITS)
def test_held_out_windows_run_from_the_start_of_the_act_to_its_end(split: Split) -> None:
    windows: dict[int, list[bytes]] = {}
    for batch in ShakespearePlays(512).held_out(split, 100):
        for text, label in zip(_texts(batch), batch.targets.tolist(), strict=True):
            windows.setdefault(label, []).append(text)
    for label, texts in windows.items():
        act = acts()[label][ACT[split]].tobytes()
        assert act.startswith(texts[0])
        assert act.endswith(texts[-1])
        assert all(text in act for text in texts)
        assert len(set(texts)) == len(texts)


def test_training_windows_are_of_the_other_three_acts() -> None:
    batch = ShakespearePlays(300).training_batch(0, 200, seed=0)
    seen = Counter()
    for text, label in zip(_texts(batch), batch.targets.tolist(), strict=True):
        homes = [act for act, whole in enumerate(acts()[label]) if text in whole.tobytes()]
        assert len(homes) == 1
        seen.update(homes)
    assert set(seen) == {0, 2, 4}


def test_plays_are_equally_frequent_in_training() -> None:
    task = ShakespearePlays(4)
    labels = np.concatenate([task.training_batch(s, 500, seed=0).targets for s in range(8)])
    counts = np.bincount(labels, minlength=38)
    assert ((counts - 4000 / 38) ** 2 / (4000 / 38)).sum() < 70  # 99.9 %, 37 degrees of freedom


def test_windows_longer_than_an_act_come_from_the_longer_ones() -> None:
    batch = ShakespearePlays(8_192).training_batch(0, 80, seed=0)
    assert batch.inputs["inputs"].shape == (80, 8_192)
