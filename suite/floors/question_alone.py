"""Answer a question without a look at its picture: as it is answered most often in training.

What a data set of questions gives away by itself (Goyal et al. 2017, arXiv:1612.00837). A question
is all of its words; one that training never showed gets the commonest answer of all. Of several as
common the first met is taken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch.nn import functional

from models.interface import Outputs
from suite.floors.floor import Floor
from suite.floors.splits import context_of, held_out_batches, texts, training_batches
from suite.tasks.task import Batch, Task

Question = tuple[int, ...]


class QuestionAlone(Floor):
    """The commonest answer to each question."""

    name = "question_alone"
    label = "question alone"
    version = 1
    needs = "a question of symbols about an image, with a class as its answer"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        about = context_of(task)
        is_of_image = about is not None and about.kind == "image"
        return is_of_image and task.asks_for == "class" and task.input_kind == "tokens"

    def score(self, task: Task) -> float:
        """From how often each answer follows each question in training."""
        answers, usual = commonest_answers(training_batches(task))

        def said(batch: Batch) -> Outputs:
            classes = [answers.get(question, usual) for question in _questions(batch)]
            return Outputs(functional.one_hot(torch.tensor(classes), task.output_size).float())

        return task.metric.over(
            task.metric.sums(said(batch), batch) for batch in held_out_batches(task, "test")
        )


def commonest_answers(batches: Iterable[Batch]) -> tuple[Mapping[Question, int], int]:
    """To each question, and of all."""
    by_question: dict[Question, Counter[int]] = defaultdict(Counter)
    for batch in batches:
        for question, answer in zip(_questions(batch), batch.targets.tolist(), strict=True):
            by_question[question][answer] += 1
    every = sum(by_question.values(), Counter())
    return {question: _first(counts) for question, counts in by_question.items()}, _first(every)


def _questions(batch: Batch) -> Iterator[Question]:
    return (tuple(text.tolist()) for text in texts(batch))


def _first(counts: Counter[int]) -> int:
    ((answer, _),) = counts.most_common(1)
    return answer
