"""What a trained encoder-decoder leaves to look at: where it looks at its source, and ten outputs.

The examples are chosen by rules that know the data only, so that every variant shows the same:

    alignment     of the first 50 validation examples that whose source has the median number of
                  tokens, among those of 8 to 24 tokens. Rows are the tokens of the reference, which
                  the decoder reads (Bahdanau et al. 2014, arXiv:1409.0473, figure 3)
    translation   of the first 100 validation examples, in the order of the number of words of the
                  source, those at 5 %, 15 %, ..., 95 %; scored by sentence chrF
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from models import Architecture
from models.decoding import Decoder
from models.errors import ModelError
from models.interface import INPUTS
from suite.probes.specimens.matrix import matrix_specimen
from suite.schema import Specimen
from suite.tasks.sequence_metrics import ChrF, SequenceMetric
from suite.tasks.task import UNSCORED, Batch, Task
from suite.training.engines import engine

NUM_ALIGNED, FEWEST_TOKENS, MOST_TOKENS, MOST_ROWS = 50, 8, 24, 32
NUM_ORDERED, PERCENTS = 100, tuple(range(5, 100, 10))
END_WORD = "(end)"
_MOST_OF_A_WORD, _MOST_OF_A_TEXT = 24, 600  # characters
_CONTEXT, _CONTEXT_MASK = "context", "context_mask"


def alignments(model: Architecture, task: Task) -> list[Specimen]:
    """How much each token of the target takes from each of the source; of one example.

    Nothing of a model that defines no `attention_weights`, as `attentive_seq2seq` does. Of several
    heads, `[batch, heads, time, time2]`, the mean is taken.
    """
    weigh = getattr(model, "attention_weights", None)
    if weigh is None or not _has_token_source(task):
        return []
    found = _of_median_source(task)
    if found is None:
        return []
    example = found.to(str(next(model.parameters()).device))
    others = {name: tensor for name, tensor in example.inputs.items() if name != INPUTS}
    try:
        weights: Tensor = weigh(example.inputs[INPUTS], **others)[0]
    except ModelError:  # it has no such weights
        return []
    weights = weights.mean(dim=0) if weights.ndim == 3 else weights
    asked, source = _asked(example)[:MOST_ROWS], _source(example)
    return [
        matrix_specimen(
            "alignment",
            "alignment",
            weights[: len(asked), : len(source)],
            low=0.0,
            row_words=words_of(task, asked),
            column_words=words_of(task, source),
        )
    ]


def _has_token_source(task: Task) -> bool:
    """Whether it gives a source of tokens, and asks for a sequence."""
    source = task.other_inputs(task.length).get(_CONTEXT)
    return task.asks_for == "sequence" and source is not None and source.kind == "tokens"


def _of_median_source(task: Task) -> Batch | None:
    """The example of the module's rule, the earlier of two; None where no source is as long."""
    fitting = [
        example
        for example in _examples(task, NUM_ALIGNED)
        if FEWEST_TOKENS <= len(_source(example)) <= MOST_TOKENS
    ]
    ordered = sorted(fitting, key=lambda example: len(_source(example)))
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _examples(task: Task, most: int) -> list[Batch]:
    """The first ones of the validation split, each a batch of one."""

    def each() -> Iterator[Batch]:
        for batch in task.held_out("validation", most):
            yield from (batch.rows(slice(row, row + 1)) for row in range(len(batch.targets)))

    return list(islice(each(), most))


def _source(example: Batch) -> list[int]:
    """Its tokens without padding, which stands behind."""
    tokens, mask = example.inputs[_CONTEXT][0], example.inputs.get(_CONTEXT_MASK)
    found: list[int] = (tokens if mask is None else tokens[: int(mask[0].sum())]).tolist()
    return found


def _asked(example: Batch) -> list[int]:
    """What is asked for, with the symbol that ends it, if one does; scored places are a prefix."""
    targets: list[int] = example.targets[0].tolist()
    return targets[: targets.index(UNSCORED)] if UNSCORED in targets else targets


def words_of(task: Task, tokens: Sequence[int]) -> tuple[str, ...]:
    """Each token as a person reads it, pieces of words as they are; a number where it is no text.

    A piece is what it adds to the text before it: alone, a text has no space in front.
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


def translations(model: Architecture, task: Task, search: Decoder | None = None) -> list[Specimen]:
    """What the model writes about ten sources, by this search or that of the task's metric."""
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
            Specimen(
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
    """Percents and the examples there, each once, by the module's rule."""
    examples = _examples(task, NUM_ORDERED)
    ordered = sorted(examples, key=lambda each: len(task.text(_source(each)).split()))
    places = {percent * len(ordered) // 100: percent for percent in reversed(PERCENTS)}
    return [(places[place], ordered[place]) for place in sorted(places)] if ordered else []


def _written(
    model: Architecture, example: Batch, search: Decoder | None, end: int | None
) -> list[int]:
    assert search is not None, "asked before"
    here = example.to(str(next(model.parameters()).device))
    (row,) = engine.written(model, here, search, end).rows()
    return row


def _score(task: Task, written: Sequence[int], asked: Sequence[int]) -> float:
    """The chrF of one sentence, 0 to 100."""
    metric = ChrF(text=task.text)
    return metric.value(torch.tensor(metric.counts(written, asked)))
