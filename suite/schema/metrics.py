"""The description of each metric: title, unit, direction, bounds, and a sentence.

Probes, pages and tables read it from here. A metric of a user's own task is described by its class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Better = Literal["higher", "lower", "none"]
Bounds = tuple[float | None, float | None]

LEARNING_RATE = "learning_rate"  # the probe that searches for the learning rate, and its metric
# The probe that finds how many training steps take as long as those of the baseline.
PACE_OF_STEPS, TRAINING_STEPS = "pace", "training_steps"
# The number of sentences that the other metrics of `written_scores` are computed from.
NUM_SENTENCES = "num_sentences"
BASELINE_AGAIN, BASELINE_SLOWED, INJECTED = "baseline_again_ratio", "baseline_slowed_ratio", 1.05
_LAUNCHED = "_launched"


def launched(metric: str) -> str:
    """Return the metric of the same operation on a GPU if Python launches each of its kernels.

    On a GPU, ``forward_seconds`` is the time of a CUDA graph, and ``forward_launched_seconds`` that
    of eager code. On a CPU there is only the former, which is that of eager code.
    """
    what, _, unit = metric.rpartition("_")
    return f"{what}{_LAUNCHED}_{unit}"


def is_launched(metric: str) -> bool:
    """Return True if the metric is one that `launched` returns."""
    return metric.rpartition("_")[0].endswith(_LAUNCHED)


# Metrics of the timing harness and of the machine, which do not compare variants.
CONTROLS = frozenset(
    {
        BASELINE_AGAIN,
        BASELINE_SLOWED,
        launched(BASELINE_AGAIN),
        launched(BASELINE_SLOWED),
        "linear_kernel_seconds",
        "linearithmic_kernel_seconds",
        "quadratic_kernel_seconds",
        "matrix_peak_flops_per_second",
        "copy_peak_bytes_per_second",
        "other_load",
        "num_disturbed",
        "num_samples",
        "mild_outliers",
        "severe_outliers",
        "first_call_seconds",
    }
)


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """A metric that a probe will measure, known before it runs, so that failures have rows too.

    Attributes:
        at: The coordinate, for example ``length=1024``, or empty.
    """

    name: str
    unit: str
    better: Better
    at: str = ""


@dataclass(frozen=True)
class _Described:
    """A shipped metric; an empty `title` stands for its name in words.

    Attributes:
        bounds: The smallest and the largest possible value, or None if there is no bound.
        sentence: The text after "METRIC: " on a page that compares variants by the metric; may be
            empty.
    """

    unit: str
    better: Better
    title: str = ""
    bounds: Bounds = (0.0, None)
    sentence: str = ""


_SHARE: Bounds = (0.0, 1.0)
_ANY: Bounds = (None, None)
_KNOWN = {
    # scores of tasks
    "accuracy": _Described(
        "1",
        "higher",
        bounds=_SHARE,
        sentence="the fraction of held-out examples that the model predicts correctly",
    ),
    "next_text_accuracy": _Described("1", "higher", bounds=_SHARE),
    "recall_at_1": _Described(
        "1",
        "higher",
        bounds=_SHARE,
        sentence=(
            "the fraction of held-out examples for which the correct candidate alone has the "
            "largest logit"
        ),
    ),
    "recall_at_5": _Described("1", "higher", bounds=_SHARE),
    "exact_match": _Described(
        "1",
        "higher",
        bounds=_SHARE,
        sentence="the fraction of held-out examples for which every symbol is correct",
    ),
    "bleu": _Described(
        "BLEU",
        "higher",
        bounds=(0.0, 100.0),
        sentence="the overlap of sequences of one to four words with the reference, from 0 to 100",
    ),
    "chrf": _Described(
        "chrF",
        "higher",
        bounds=(0.0, 100.0),
        sentence=(
            "the overlap of sequences of one to six characters with the reference, from 0 to 100"
        ),
    ),
    "rouge_l": _Described("1", "higher", bounds=_SHARE),
    "cider_d": _Described("CIDEr-D", "higher", bounds=(0.0, 10.0)),
    "bits_per_character": _Described(
        "bit",
        "lower",
        sentence="the mean cross-entropy of the next character of held-out text, in bits",
    ),
    "bits_per_byte": _Described("bit", "lower"),
    "bits_per_word": _Described("bit", "lower"),
    "bits_per_hidden_word": _Described("bit", "lower"),
    "bits_per_masked_character": _Described("bit", "lower"),
    "bits_per_image_token": _Described("bit", "lower"),
    "perplexity": _Described(
        "1",
        "lower",
        sentence="the exponential of the mean cross-entropy per held-out token",
    ),
    "mean_squared_error": _Described(
        "1",
        "lower",
        sentence="the mean squared difference between the prediction and the target",
    ),
    "pixel_error": _Described("1", "lower"),
    "codebook_perplexity": _Described("codes", "none"),
    "pictures_right": _Described("1", "higher", bounds=_SHARE),
    "objects_drawn": _Described("1", "higher", bounds=_SHARE),
    "return_got": _Described("1", "higher", bounds=_ANY),
    "asked_and_got": _Described("1", "higher", bounds=_ANY),
    # metrics of trained models
    LEARNING_RATE: _Described("1", "none"),
    "alignment_error": _Described("1", "lower", bounds=_SHARE),
    "diagonal_alignment_error": _Described("1", "none", bounds=_SHARE),
    "attention_entropy": _Described("bits", "none"),
    "localisation": _Described("1", "higher", bounds=_SHARE),
    "chance_localisation": _Described("1", "none", bounds=_SHARE),
    "pointing": _Described("1", "higher", bounds=_SHARE),
    "initial_attention_entropy": _Described("1", "none", bounds=_SHARE),
    "trained_attention_entropy": _Described("1", "none", bounds=_SHARE),
    "initial_score_gradient": _Described("1", "higher"),
    "trained_score_gradient": _Described("1", "higher"),
    "written_bleu": _Described("BLEU", "higher", bounds=(0.0, 100.0)),
    "written_chrf": _Described("chrF", "higher", bounds=(0.0, 100.0)),
    "written_exact_match": _Described("1", "higher", bounds=_SHARE),
    NUM_SENTENCES: _Described("sentences", "none"),
    "length_ratio": _Described("1", "none"),
    "unfinished": _Described("1", "lower", bounds=_SHARE),
    "teacher_forced_bleu": _Described("BLEU", "higher", bounds=(0.0, 100.0)),
    "exposure_gap": _Described("BLEU", "lower", bounds=_ANY),
    # sizes and counts
    "num_parameters": _Described("1", "none", "parameters"),
    "forward_flops": _Described("FLOP", "lower", "forward FLOPs per sequence"),
    "counted_flops": _Described("FLOP", "none"),
    TRAINING_STEPS: _Described("1", "none", "training steps"),
    "theory_operations": _Described("1", "none"),
    "sequential_operations": _Described("1", "lower"),
    "maximum_path_length": _Described("1", "lower"),
    "theory_sequential_operations": _Described("1", "none"),
    "theory_maximum_path_length": _Described("1", "none"),
    "state_bytes": _Described("B", "lower", "state between tokens"),
    "decode_state_bytes": _Described("B", "lower", "state of a decoder"),
    "peak_memory_bytes": _Described("B", "lower", "peak memory of a training step"),
    "model_state_bytes": _Described("B", "lower"),
    "forward_peak_bytes": _Described("B", "lower"),
    "forward_backward_peak_bytes": _Described("B", "lower"),
    "forward_formula_bytes": _Described("B", "none"),
    # times and rates
    "forward_seconds": _Described("s", "lower", "forward"),
    "forward_backward_seconds": _Described("s", "lower", "forward and backward"),
    "training_step_seconds": _Described("s", "lower", "training step"),
    "decode_token_seconds": _Described("s", "lower", "decoding a token"),
    "tokens_per_second": _Described(
        "1/s", "higher", sentence="the number of training tokens per second"
    ),
    "training_tokens_per_second": _Described(
        "tokens/s",
        "higher",
        "trained tokens",
        sentence="the number of training tokens per second for the whole model",
    ),
    "prefill_tokens_per_second": _Described("tokens/s", "higher", "prefilled tokens"),
    "decode_tokens_per_second": _Described("tokens/s", "higher", "decoded tokens"),
    "training_share_of_matrix_peak": _Described(
        "% of peak", "higher", "training, of the matrix peak", (0.0, 100.0)
    ),
    "decode_share_of_copy_peak": _Described(
        "% of peak", "higher", "decoding, of the copy peak", (0.0, 100.0)
    ),
    "scaling_efficiency": _Described(
        "1",
        "higher",
        sentence=(
            "the speed with several workers divided by the number of workers times the speed of one"
        ),
    ),
}
_TIMED = (
    "forward_seconds",
    "forward_backward_seconds",
    "training_step_seconds",
    "decode_token_seconds",
)
_KNOWN |= {
    launched(name): replace(_KNOWN[name], title=f"{_KNOWN[name].title}, launched by Python")
    for name in _TIMED
}


def metric_spec(name: str) -> MetricSpec:
    """Return the shipped metric of that name."""
    known = _KNOWN[name]
    return MetricSpec(name=name, unit=known.unit, better=known.better)


def metric_title(name: str, *, is_graph: bool = False) -> str:
    """Return the title of the metric in a table; empty if the table shows its name in words.

    Args:
        name: The metric.
        is_graph: Whether to say that a time is that of a CUDA graph, because the time of launches
            is shown too.
    """
    title = _KNOWN[name].title if name in _KNOWN else ""
    return f"{title}, as a CUDA graph" if title and is_graph else title


def metric_sentence(name: str) -> str:
    """Return the definition that follows the metric's name and a colon; empty if there is none."""
    return _KNOWN[name].sentence if name in _KNOWN else ""


def metric_bounds(name: str, unit: str) -> Bounds:
    """Return the bounds of a metric in that unit, or of the metric that it is derived from.

    ``validation_accuracy`` has the bounds of ``accuracy``. In another unit there are none.
    """
    while name not in _KNOWN and "_" in name:
        name = name.partition("_")[2]
    return _KNOWN[name].bounds if name in _KNOWN and _KNOWN[name].unit == unit else _ANY
