"""Collect samples of a trained encoder-decoder: the attention to its source, and ten outputs.

The examples are chosen by rules that depend on the data only, so that they are the same for every
variant:

    alignment     of the first 50 validation examples, the one whose source has the median number of
                  tokens, among those of 8 to 24 tokens. Rows are the tokens of the reference, which
                  the decoder reads (Bahdanau et al. 2014, arXiv:1409.0473, figure 3)
    translation   of the first 100 validation examples, in the order of the number of words of the
                  source, those at 5 %, 15 %, ..., 95 %; scored by sentence chrF
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bakeoff.models import Architecture
from bakeoff.models.decoding import Decoder
from bakeoff.models.errors import ModelError
from bakeoff.models.interface import CONTEXT, INPUTS
from bakeoff.suite.probes.samples.building import device_of, matrix_sample, validation_examples
from bakeoff.suite.schema import Sample
from bakeoff.suite.tasks.sequence_metrics import ChrF, SequenceMetric
from bakeoff.suite.tasks.task import UNSCORED, Batch, Task
from bakeoff.suite.training.engines import engine

NUM_ALIGNED, FEWEST_TOKENS, MOST_TOKENS, MOST_ROWS = 50, 8, 24, 32
NUM_ORDERED, PERCENTS = 100, tuple(range(5, 100, 10))
END_WORD = "(end)"
_MOST_OF_A_WORD, _MOST_OF_A_TEXT = 24, 600  # characters


def alignments(model: Architecture, task: Task) -> list[Sample]:
    """Return the attention weights from each target token to each source token of one example.

    The list is empty for a model without `attention_weights`. Weights of several heads,
    `[batch, heads, time, time2]`, are averaged.
    """
    weigh = getattr(model, "attention_weights", None)
    if weigh is None or not _has_token_source(task):
        return []
    found = _of_median_source(task)
    if found is None:
        return []
    example = found.to(device_of(model))
    others = {name: tensor for name, tensor in example.inputs.items() if name != INPUTS}
    try:
        weights: Tensor = weigh(example.inputs[INPUTS], **others)[0]
    except ModelError:  # the model has no such weights
        return []
    weights = weights.mean(dim=0) if weights.ndim == 3 else weights
    asked, source = _asked(example)[:MOST_ROWS], _source(example)
    return [
        matrix_sample(
            "alignment",
            "alignment",
            weights[: len(asked), : len(source)],
            low=0.0,
            row_words=words_of(task, asked),
            column_words=words_of(task, source),
        )
    ]


def _has_token_source(task: Task) -> bool:
    """Return True if the task has a source of tokens and asks for a sequence."""
    source = task.other_inputs(task.length).get(CONTEXT)
    return task.asks_for == "sequence" and source is not None and source.kind == "tokens"


def _of_median_source(task: Task) -> Batch | None:
    """Return the chosen example, the earlier of two, or None if no source has a suitable length."""
    fitting = [
        example
        for example in validation_examples(task, NUM_ALIGNED, NUM_ALIGNED)
        if FEWEST_TOKENS <= len(_source(example)) <= MOST_TOKENS
    ]
    ordered = sorted(fitting, key=lambda example: len(_source(example)))
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _source(example: Batch) -> list[int]:
    """Return the source tokens without the padding behind them."""
    tokens, mask = example.inputs[CONTEXT][0], example.inputs.get("context_mask")
    found: list[int] = (tokens if mask is None else tokens[: int(mask[0].sum())]).tolist()
    return found


def _asked(example: Batch) -> list[int]:
    """Return the scored target tokens, a prefix, with the end symbol if there is one."""
    targets: list[int] = example.targets[0].tolist()
    return targets[: targets.index(UNSCORED)] if UNSCORED in targets else targets


def words_of(task: Task, tokens: Sequence[int]) -> tuple[str, ...]:
    """Return the text of each token, or its number if it has no text.

    The text of a token is what it adds to the text before it: decoded alone, it would lose the
    space in front.
    """
    end = getattr(task.metric, "end", None)
    found, before = [], ""
    for place, token in enumerate(tokens):
        text = task.text(tokens[: place + 1])
        piece = text.removeprefix(before) if text.startswith(before) else task.text([token])
        before = text
        word = piece or (END_WORD if token == end else str(token))
        found.append(word[:_MOST_OF_A_WORD])
    if len(found) > 1 and any(word.startswith(" ") for word in found[1:]):
        found[0] = f" {found[0]}"
    return tuple(found)


def translations(model: Architecture, task: Task, search: Decoder | None = None) -> list[Sample]:
    """Return the outputs for ten sources, by the given search or that of the task's metric."""
    metric = task.metric
    if not (
        isinstance(metric, SequenceMetric) and engine.writes(metric) and _has_token_source(task)
    ):
        return []
    chosen = by_quantile(task)
    if not chosen or not task.text(_source(chosen[0][1])):
        return []
    found = []
    for percent, example in chosen:
        written = _written(model, example, search or metric.decoder, metric.end)
        asked = [symbol for symbol in _asked(example) if symbol != metric.end]
        texts = task.text(written), task.text(_source(example)), task.text(asked)
        text, source, reference = (each[:_MOST_OF_A_TEXT] for each in texts)
        found.append(
            Sample(
                kind="translation",
                title=f"{percent} %",
                text=text,
                source=source,
                reference=reference,
                score=_score(task, written, asked),
            )
        )
    return found


def by_quantile(task: Task) -> list[tuple[int, Batch]]:
    """Return the percents and the examples there, each example once."""
    examples = validation_examples(task, NUM_ORDERED, NUM_ORDERED)
    ordered = sorted(examples, key=lambda each: len(task.text(_source(each)).split()))
    places = {percent * len(ordered) // 100: percent for percent in reversed(PERCENTS)}
    return [(places[place], ordered[place]) for place in sorted(places)] if ordered else []


def _written(
    model: Architecture, example: Batch, search: Decoder | None, end: int | None
) -> list[int]:
    assert search is not None, "the caller checks it"
    (row,) = engine.written(model, example.to(device_of(model)), search, end).rows()
    return row


def _score(task: Task, written: Sequence[int], asked: Sequence[int]) -> float:
    """Return the chrF of one sentence, 0 to 100."""
    metric = ChrF(text=task.text)
    return metric.value(torch.tensor(metric.counts(written, asked)))
