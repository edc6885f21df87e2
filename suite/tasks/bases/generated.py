"""Draw the examples of tasks that have no data file.

A training batch is drawn from the stream (seed, step), so no example comes twice but by chance,
and no epoch ends. The held-out splits are drawn once from streams that no training reads
(`HELD_OUT_SEED`), and are therefore the same for every seed. They could share an example with
training by chance only: where so few examples are possible that this matters, a task says so.

Where examples are drawn, there is no file to check; where they are composed of what is in one, it
stands beside the definition. What identifies the data is their definition: the digest of its text
takes the place of that of a file, so a changed definition changes the ids of trials too.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import ClassVar

from suite.tasks.batch import joined
from suite.tasks.data_order import RandomStream, held_out_stream
from suite.tasks.task import Batch, DataSource, Split, Task


def definition_source(
    *,
    name: str,
    title: str,
    origin: str,
    definition: dict[str, object],
    version: int,
    beside: tuple[DataSource, ...] = (),
) -> DataSource:
    """The data source of a generated task.

    Args:
        name: As for any data set.
        title: In a few words.
        origin: The paper.
        definition: All that fixes the law of the examples, in plain values.
        version: Of the task.
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
    """Accuracy over examples that are drawn by a definition."""

    num_held_out: ClassVar[dict[Split, int]] = {"validation": 1_000, "test": 2_000}

    @abstractmethod
    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """`count` examples of one of the `kinds`."""

    def kinds(self) -> Sequence[int]:
        """What kinds of examples there are: a training batch is of one, a split of all alike."""
        return (0,)

    def held_out_kinds(self, split: Split) -> Sequence[int]:
        """Those of a held-out split."""
        return self.kinds()

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Of a kind that is drawn first, all alike."""
        stream, kinds = RandomStream(seed, step), self.kinds()
        kind = kinds[int(stream.integers(1, low=0, high=len(kinds))[0])]
        return self.draw(stream, batch, kind)

    @classmethod
    def num_test_examples(cls) -> int | None:
        """See `Task.num_test_examples`."""
        return cls.num_held_out["test"]

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """As many of each kind, one kind after the other."""
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
