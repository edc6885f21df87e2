"""Draw the examples of tasks that have no data file.

A training batch is drawn from the stream (seed, step), so an example recurs only by chance, and
there are no epochs. The held-out splits are drawn once from streams that training does not use
(`HELD_OUT_SEED`), and are therefore the same for every seed. They can share an example with
training only by chance; a task whose possible examples are so few that this matters states so.

Generated examples have no file to check; if they are composed of the content of a file, the data
source lists it next to the definition. The definition identifies the data: the digest of its text
takes the place of the digest of a file, so a change of the definition changes the ids of trials
too.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import ClassVar

from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.data_order import RandomStream, held_out_stream
from bakeoff.suite.tasks.task import Batch, DataSource, Split, Task


def definition_source(
    *,
    name: str,
    title: str,
    origin: str,
    definition: dict[str, object],
    version: int,
    beside: tuple[DataSource, ...] = (),
) -> DataSource:
    """Return the data source of a generated task.

    Args:
        name: The name of the data set.
        title: A short description.
        origin: The paper.
        definition: All values that determine the distribution of the examples, as plain values.
        version: The version of the task.
        beside: The data files that the examples are composed of, if any.
    """
    text = json.dumps(
        {"name": name, "version": version, "definition": definition},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    return DataSource(
        name=name,
        title=title,
        origin=origin,
        licence="; ".join(["generated", *(each.licence for each in beside)]),
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        file="",
        beside=beside,
    )


class GeneratedTask(Task):
    """A task whose examples are drawn by a definition."""

    num_held_out: ClassVar[dict[Split, int]] = {"validation": 1_000, "test": 2_000}

    @abstractmethod
    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw `count` examples of one of the `kinds`."""

    def kinds(self) -> Sequence[int]:
        """Return the kinds of examples: a training batch has one, a split equally many of each."""
        return (0,)

    def held_out_kinds(self, split: Split) -> Sequence[int]:
        """Return the kinds of examples of a held-out split."""
        return self.kinds()

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Draw a kind uniformly, then a batch of that kind."""
        stream, kinds = RandomStream(seed, step), self.kinds()
        kind = kinds[int(stream.integers(1, low=0, high=len(kinds))[0])]
        return self.draw(stream, batch, kind)

    @classmethod
    def num_test_examples(cls) -> int | None:
        """Return the number of examples of the test split."""
        return cls.num_held_out["test"]

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield equally many examples of each kind, one kind after the other."""
        whole = _whole_split(type(self), self.length, split, self.num_held_out[split])
        for first in range(0, len(whole.targets), batch):
            yield whole.rows(slice(first, first + batch))


@lru_cache(maxsize=8)
def _whole_split(
    kind_of_task: type[GeneratedTask], length: int, split: Split, num_examples: int
) -> Batch:
    task = kind_of_task(length)
    stream, kinds = held_out_stream(split), task.held_out_kinds(split)
    count = num_examples // len(kinds)
    return joined([task.draw(stream, count, kind) for kind in kinds])
