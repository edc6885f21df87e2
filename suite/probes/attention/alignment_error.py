"""Compare the attention of a trained encoder-decoder with the links of a word aligner.

The alignment error rate (Och and Ney 2003, doi:10.1162/089120103321337421, section 5), over all
sentences together, of links A, sure links S and possible links P:

    AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

S and P are silver: they are predicted by IBM model 1, fitted to the training examples in both
directions (see `bakeoff.suite.probes.attention.word_aligner`). It ignores the order, and so
favours a model that attends to words of the same meaning. It links no words that the training
examples lack.

The model reads the reference, as in Luong et al. 2015 (arXiv:1508.04025, section 5.4). Its weights
at a position of the target are those with which it predicts the token there, before it has read it.
They are summed over the tokens of a source word and averaged over those of a target word. A target
word is linked to the source word with the largest weight; if all its weights are zero, to none.

Two further metrics are reported. `diagonal_alignment_error` links each target word to the source
word at the same relative position in the sentence: an alignment must be better than this.
`attention_entropy` is the entropy of the weights, the mean over tokens of target words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models import Architecture, ModelSpec, architecture_class
from bakeoff.models.interface import CONTEXT
from bakeoff.suite.floors.floor import asked_sequences, texts, training_batches
from bakeoff.suite.probes.attention.word_aligner import Links, WordAligner
from bakeoff.suite.probes.probe import ORIGIN, Said, TrainedModelProbe, measurement, trained_model
from bakeoff.suite.probes.samples.collect import samples_of
from bakeoff.suite.probes.samples.translations import alignments
from bakeoff.suite.schema import Parallel, Trial, metric_spec
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.task import UNSCORED, Batch, Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import in_evaluation_mode

MOST_EXAMPLES = 200  # the number of first examples of the test split
Matrix = NDArray[np.float64]
Word = tuple[str, range]


class AlignmentError(TrainedModelProbe):
    """The alignment error rate of the model and of the diagonal, and the entropy of the weights."""

    name = "alignment_error"
    version = 1
    depends_on = TrainedModelProbe.depends_on | ORIGIN
    specs = (
        metric_spec("alignment_error"),
        metric_spec("diagonal_alignment_error"),
        metric_spec("attention_entropy"),
    )

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; the model must have attention weights over its source."""
        blind = architecture_class(model.architecture).why_blind(model)
        return blind or super().why_not(model, parallel)

    def why_not_on(self, task: type[Task]) -> str:
        """Return why a trial is skipped; the source and the target must consist of words."""
        source = task.interface(task.lengths[1]).inputs.get(CONTEXT)
        if source is None or source.kind != "tokens" or end_of(task) is None:
            return f"it links words of a target to those of a source, and {task.name} has not both"
        if not task.has_words():
            return f"it links words, and the tokens of {task.name} are not words"
        return ""

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Run one pass over the first examples of the test split, then the aligner."""
        model = trained_model(trial, checkpointer, device)
        task = build_task(trial.task, trial.length)
        with in_evaluation_mode(model), torch.inference_mode():
            found = compared(model, task, trial.batch, device)
        for spec, value in zip(self.specs, found, strict=True):
            yield measurement(spec, value)
        yield from samples_of(model, task, trial.seed, (alignments,))


def compared(
    model: Architecture, task: Task, batch: int, device: str
) -> tuple[float, float, float]:
    """Return the error rates of the model and of the diagonal, and the entropy in bits."""
    counts, of_diagonal = np.zeros(4), np.zeros(4)
    entropies: list[Matrix] = []
    for examples in first_examples(task, batch):
        weights = model.attention_weights(**examples.to(device).inputs).double().cpu()
        for source, target, of_tokens in word_weights(task, examples, weights):
            silver = aligner(task.name, task.length).links(_spelled(source), _spelled(target))
            counts += link_counts(likeliest(of_words(of_tokens, source, target)), silver)
            of_diagonal += link_counts(diagonal(len(target), len(source)), silver)
            entropies.append(entropy(of_tokens))
    mean = float(np.concatenate(entropies).mean())
    return error_rate(counts), error_rate(of_diagonal), mean


def end_of(task: type[Task]) -> int | None:
    """Return the symbol that ends a target, or None if the metric does not score sequences."""
    return task.metric.end if isinstance(task.metric, SequenceMetric) else None


def word_weights(
    task: Task, batch: Batch, weights: Tensor
) -> Iterator[tuple[list[Word], list[Word], Matrix]]:
    """Yield the words of each source and target, and the weights of their tokens.

    Args:
        task: The task, which splits tokens into words.
        batch: The examples; row t of the weights belongs to target token t.
        weights: The attention weights, `[batch, time, time2]`.
    """
    end, context = end_of(type(task)), batch.inputs[CONTEXT]
    is_word = (batch.targets != UNSCORED) & (batch.targets != end)
    is_real = batch.inputs.get(f"{CONTEXT}_mask", torch.ones_like(context, dtype=torch.bool))
    pairs = zip(texts(batch, CONTEXT), asked_sequences(batch, end), strict=True)
    for row, (source, target) in enumerate(pairs):
        of_tokens = weights[row][is_word[row]][:, is_real[row]]
        yield task.words(source.tolist()), task.words(target.tolist()), of_tokens.numpy()


def of_words(weights: Matrix, source: list[Word], target: list[Word]) -> Matrix:
    """Return the weights of words from those of tokens, `[target words, source words]`."""
    columns = [weights[:, places].sum(axis=1) for _, places in source]
    return np.array([[column[places].mean() for column in columns] for _, places in target])


def likeliest(weights: Matrix) -> NDArray[np.bool_]:
    """Link each row to its largest column, the first one in a tie."""
    is_linked = np.zeros(weights.shape, dtype=np.bool_)
    rows = np.arange(len(weights))
    best = weights.argmax(axis=1)
    is_linked[rows, best] = weights[rows, best] > 0
    return is_linked


def diagonal(num_rows: int, num_columns: int) -> NDArray[np.bool_]:
    """Link each row to the column at the same relative position, from centre to centre."""
    rows = np.arange(num_rows)
    is_linked = np.zeros((num_rows, num_columns), dtype=np.bool_)
    is_linked[rows, (2 * rows + 1) * num_columns // (2 * num_rows)] = True
    return is_linked


def link_counts(links: NDArray[np.bool_], silver: Links) -> Matrix:
    """Return |A and S|, |A and P|, |A|, |S| as an array `[4]`."""
    sure, possible = silver
    found = (links & sure, links & possible, links, sure)
    return np.array([each.sum() for each in found], dtype=np.float64)


def error_rate(counts: Matrix) -> float:
    """Return the alignment error rate of the module's docstring; 1 if there are no links at all."""
    sure_hits, possible_hits, num_links, num_sure = counts
    return float(1 - (sure_hits + possible_hits) / max(1, num_links + num_sure))


def entropy(weights: Matrix) -> Matrix:
    """Return the entropy in bits of each normalised row, `[rows]`; 0 for a row of zeros."""
    chances = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    logs = np.log2(chances, where=chances > 0, out=np.zeros_like(chances))
    return np.asarray(-(chances * logs).sum(axis=1))


def first_examples(task: Task, batch: int) -> Iterator[Batch]:
    """Yield the examples of the test split that are compared."""
    left = MOST_EXAMPLES
    for each in task.held_out("test", min(batch, left)):
        yield each.rows(slice(left))
        left -= len(each.targets)
        if left <= 0:
            return


@cache
def aligner(task: str, length: int) -> WordAligner:
    """Return the aligner fitted to the training examples, once per process."""
    of = build_task(task, length)
    end = end_of(type(of))
    return WordAligner(
        (_spelled(of.words(source.tolist())), _spelled(of.words(target.tolist())))
        for batch in training_batches(of)
        for source, target in zip(texts(batch, CONTEXT), asked_sequences(batch, end), strict=True)
    )


def _spelled(words: list[Word]) -> list[str]:
    """Return the words in lower case, because sentences begin with capitals."""
    return [word.lower() for word, _ in words]
