"""Definitions of the terms that a page uses.

A metric, a status or a setting that is not known here is printed by its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

METRICS = {
    "bits_per_character": "how many bits the model needs, on average, to tell the next character "
    "of text that it was not trained on",
    "accuracy": "the share of examples, none of them trained on, that the model answers rightly",
    "mean_squared_error": "how far the model's number lies from the true one, squared, on average",
    "perplexity": "between how many equally likely tokens the model, in effect, still hesitates",
    "tokens_per_second": "how many tokens are trained on in a second",
    "scaling_efficiency": "the speed with several workers, as a share of as many times the speed "
    "of one",
}
SCALES = {
    "quick": "small enough for two CPU cores and some minutes",
    "standard": "for one GPU and some hours",
    "paper": "as in a paper, for a cluster",
}
FATES = {
    "noisy": "a time whose stopping criterion was not met; it is shown, and marked",
    "skipped": "cannot be, for the reason given",
    "diverged": "its training loss became infinite or no number",
    "not a number": "it ended with a result that is none",
    "out of memory": "it needed more memory than there was",
    "timeout": "it took longer than it was allowed",
    "crashed": "its process died",
    "error": "it stopped with an error",
    "missing": "planned, and not yet measured",
}
SETTINGS = {
    "dim": "width of the model (dim)",
    "depth": "layers (depth)",
    "length": "tokens in a sequence (length)",
    "batch": "sequences in a step (batch)",
    "steps": "training steps",
    "warmup_steps": "steps until the learning rate is full (warm-up)",
    "num_evaluations": "evaluations while training",
    "cpus": "CPU cores for a trial",
    "gpus": "GPUs for a trial",
    "dims": "widths of the mixers alone (dims)",
    "lengths": "lengths of the mixers alone",
    "heads": "attention heads",
}
READING = (
    "One row a variant: a model that differs from the baseline, the shaded row, in what its name "
    "says and in nothing else. ↓ means lower is better, ↑ higher. Coverage: how many of the "
    "planned seeds ended well."
)


def metric_in_words(metric: str, unit: str, better: str) -> str:
    """What is measured and which direction is good, as a sentence."""
    name = metric.replace("_", " ")
    meaning = METRICS.get(metric, "" if unit == "1" else f"in {unit}")
    said = f"{name[:1].upper()}{name[1:]}{f': {meaning}' if meaning else ''}"
    return f"{said}." if better == "none" else f"{said}; {better} is better."


def setting_name(name: str) -> str:
    """A setting as a page names it."""
    return SETTINGS.get(name, name.replace("_", " "))


def setting_value(value: object) -> str:
    """A setting's value, as people write it."""
    match value:
        case None:
            return "not set"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def fates_in_words(fates: Iterable[str]) -> tuple[Mapping[str, str], ...]:
    """Each word of a list of mishaps with its meaning, once, as `word` and `meaning`."""
    return tuple(
        {"word": fate, "meaning": FATES[fate]} for fate in dict.fromkeys(fates) if fate in FATES
    )
