"""Test the emoji file and that the names of the splits are disjoint."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks import data_files
from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.emoji import atlas
from bakeoff.suite.tasks.emoji.emoji_names import EmojiNames, split_of
from bakeoff.suite.tasks.task import UNSCORED, TaskError

TASK = EmojiNames(12)


def _names(targets: torch.Tensor) -> list[str]:
    return [TASK.text(row[row != UNSCORED].tolist()) for row in targets]


def test_splits_have_the_sizes_and_names_that_are_documented() -> None:
    found = {
        "training": _names(TASK.training_batch(0, TASK.num_training_examples(), seed=0).targets),
        "validation": _names(joined(list(TASK.held_out("validation", 1_000))).targets),
        "test": _names(joined(list(TASK.held_out("test", 1_000))).targets),
    }
    assert [len(names) for names in found.values()] == [1_684, 114, 295]
    for split, names in found.items():
        assert {split_of(name) for name in names} == {split}
    together = [name for names in found.values() for name in names]
    assert sorted(together) == sorted(atlas.atlas().names)
    words = {word for name in found["training"] for word in name.split()}
    assert {word for name in atlas.atlas().names for word in name.split()} == words


def test_a_name_belongs_to_its_picture() -> None:
    batch, held = next(TASK.held_out("test", 20)), atlas.atlas()
    deviation, mean = map(torch.tensor, (TASK.pixel_standard_deviation, TASK.pixel_mean))
    pictures = ((batch.inputs["context"] * deviation + mean) * 255).numpy()
    for name, picture in zip(_names(batch.targets), pictures, strict=True):
        np.testing.assert_allclose(picture, held.images[held.names.index(name)], atol=0.01)


def test_pictures_and_names_are_distinct_and_words_common() -> None:
    held = atlas.atlas()
    assert len(set(held.names)) == len({image.tobytes() for image in held.images}) == 2_093
    assert len(set(held.objects)) == len({glyph.tobytes() for glyph in held.glyphs}) == 40
    words = [word for name in held.names for word in set(name.split())]
    assert len(set(words)) == 214
    assert min(map(words.count, set(words))) >= 4


def test_parts_are_by_the_number_of_words() -> None:
    batch = joined(list(TASK.held_out("test", 100)))
    lengths = [len(name.split()) for name in _names(batch.targets)]
    parts = TASK.in_parts(batch)
    for (fewer, most), at in zip([(0, 3), (3, 5), (5, 7), (7, 11)], TASK.parts(), strict=True):
        assert parts[at][:, 0].tolist() == [fewer < length <= most for length in lengths]


@pytest.mark.bad_input(43)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", r"no IDX array of bytes of shape \[2093, 32, 32, 3\]"),
        (lambda content: content + b"one\n", "2134 names where 2133 are expected"),
        (lambda content: content[:-5], "2132 names where 2133"),
        (lambda content: content + b"\xff", "names are not UTF-8"),
    ],
)
def test_malformed_content_is_refused(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], message: str
) -> None:
    content = change(data_files.read_content(atlas.SOURCE))
    monkeypatch.setattr(atlas, "read_content", lambda source: content)
    with pytest.raises(TaskError, match=message):
        atlas.atlas.__wrapped__()
