"""Name variants, and values on axes, in the words of a sentence: ``8 heads``, ``without returns``.

A label such as ``model=gated_delta (heads 4; value_ratio 1.0)`` becomes ``gated delta``, or keeps
the knobs that distinguish it from other variants of the same model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from bakeoff.reports.document import readable
from bakeoff.reports.results.axis_values import all_values_of, as_text, number, values_of
from bakeoff.reports.results.variant_labels import what_baseline_is
from bakeoff.suite.schema import About
from bakeoff.suite.schema.old_labels import Value, values_in

_WHOLE = frozenset({"mixer", "model", "architecture", "position", "encoder", "estimator"})
_MODEL = re.compile(r"(?P<head>[^()]+?) \((?P<knobs>.*)\)")
_AXES = {
    "num_training_examples": "training examples",
    "dim": "width",
    "key_dim": "d_k",
    "is_source_reversed": "source reversed",
    "equal": "equal budget",
    "zero": "ZeRO",
}
_NOTHING = ("none", "None")
_OF_NONE = {  # the default for which None stands
    "key_dim": "d_k of the width over the heads",
    "num_training_examples": "all training examples",
}
_PROPER = {  # how the literature writes names
    "adamw": "AdamW",
    "alibi": "ALiBi",
    "bigbird": "BigBird",
    "cnn": "CNN",
    "conv": "convolution",
    "dilated_conv": "dilated convolution",
    "fnet": "FNet",
    "gru": "GRU",
    "hyena": "Hyena",
    "linear_transformer": "linear Transformer",
    "linformer": "Linformer",
    "lstm": "LSTM",
    "mamba2": "Mamba-2",
    "performer": "Performer",
    "rnn": "RNN",
    "rope": "RoPE",
    "s4d": "S4D",
    "separable_conv": "separable convolution",
    "sgd": "SGD",
    "shaw": "Shaw",
    "t5": "T5",
}
_PLAIN = "baseline"  # key of `Ablation.words` for the baseline itself
_LAST: list[tuple[About, Mapping[str, str]]] = []  # the names of one sweep, which a page reuses


def proper_name(text: str) -> str:
    """Return a mixer, position or other part as the literature writes it, as ``LSTM``."""
    return _PROPER.get(text, text.replace("_", " "))


def axis_in_words(name: str) -> str:
    """Return the name of an axis in words, as ``training examples`` or ``returns``."""
    plain = re.sub(r"^(num|is|has)_", "", name)
    return _AXES.get(name, readable(plain))


def value_in_words(about: About, name: str, value: Value) -> str:
    """Return a value on an axis in words: ``8 heads``, ``no decay``, ``without returns``."""
    axis, text = axis_in_words(name), as_text(value)
    if f"{name}={text}" in about.words:
        return about.words[f"{name}={text}"]
    if text in ("true", "false"):
        is_set = text == "true"
        if name.startswith("is_"):
            return axis if is_set else f"not {axis}"
        return f"{'with' if is_set else 'without'} {axis}"
    if text in _NOTHING:
        return _OF_NONE.get(name, f"no {axis}")
    amount = number(value)
    if amount is not None:
        return amount_in_words(name, amount)
    said = _shortened(about, name).get(text, proper_name(text))
    return said if name in _WHOLE else f"{axis} {said}"


def amount_in_words(name: str, amount: float) -> str:
    """Return a number on an axis in words: ``8 heads``, ``1 head``, ``width 64``."""
    axis = axis_in_words(name)
    one = _singular(axis)
    if amount.is_integer() and one != axis:
        return f"{amount:,.0f} {one if amount == 1 else axis}"
    return f"{axis} {amount:,.0f}" if amount.is_integer() else f"{axis} {amount:g}"


def _singular(plural: str) -> str:
    """Return the singular of a noun, or the noun itself if it is not a plural, as ``bias``."""
    if plural.endswith("ies"):
        return f"{plural.removesuffix('ies')}y"
    if plural.endswith(("ches", "shes", "sses", "xes")):
        return plural.removesuffix("es")
    return plural if plural.endswith(("as", "is", "ss", "us")) else plural.removesuffix("s")


def spoken_name(about: About, variant: str) -> str:
    """Return the values that the label of a variant names, in words, or what the baseline is.

    The label may be that of a variant that the sweep does not have, as one of a paper.
    """
    values = values_of(about, variant) if variant in about.variants else values_in(variant)
    if variant == about.baseline and _PLAIN in about.words:
        return about.words[_PLAIN]
    if not values:
        whole = what_baseline_is(about).partition(",")[0] if variant == about.baseline else ""
        is_varied = not _WHOLE.isdisjoint(about.axes)
        if whole and is_varied:
            return proper_name(whole)
        return f"the {variant}" if variant == about.baseline else variant
    return ", ".join(value_in_words(about, name, value) for name, value in values.items())


def shown_names(about: About) -> Mapping[str, str]:
    """Return the name of each variant on a page, as sentences say it, distinct from all others.

    A baseline without a name is described by its values.
    """
    if not (_LAST and _LAST[0][0] is about):
        _LAST[:] = [(about, _distinct_names(about))]
    return _LAST[0][1]


def _distinct_names(about: About) -> dict[str, str]:
    said = {variant: spoken_name(about, variant) for variant in about.variants}
    if said.get(about.baseline) == f"the {about.baseline}":
        what = what_baseline_is_in_words(about)
        said[about.baseline] = f"{about.baseline} ({what})" if what else about.baseline
    times = Counter(said.values())
    return {variant: name if times[name] == 1 else variant for variant, name in said.items()}


def shown_name(about: About, variant: str) -> str:
    """Return the name of a variant on a page; names of floors and others stay as they are."""
    return shown_names(about).get(variant) or spoken_name(about, variant)


def what_baseline_is_in_words(about: About) -> str:
    """Return the baseline's name or, without one, its values: ``attention, depth 2, width 64``."""
    name = spoken_name(about, about.baseline)
    if name != f"the {about.baseline}":
        return name
    parts = [part.partition("=") for part in what_baseline_is(about).split(", ")]
    return ", ".join(
        value_in_words(about, axis, value) if equals else proper_name(axis)
        for axis, equals, value in parts
    )


def baseline_in_words(about: About) -> str:
    """Return the baseline with its name or what it is: ``the baseline (attention)``."""
    name = spoken_name(about, about.baseline)
    if name == f"the {about.baseline}":
        name = proper_name(what_baseline_is(about).partition(",")[0] or about.baseline)
    return "the baseline" if name == _PLAIN else f"the baseline ({name})"


def spoken_pair(about: About, a: str, b: str) -> tuple[str, str]:
    """Return the values in which two variants differ, in words."""
    mine, theirs = (all_values_of(about, variant) for variant in (a, b))
    differ = [name for name in mine if as_text(mine[name]) != as_text(theirs.get(name, ""))]
    known = [name for name in differ if "" not in (mine[name], theirs.get(name, ""))]
    if not differ or len(known) < len(differ):
        return spoken_name(about, a), spoken_name(about, b)
    is_whole = _WHOLE.issuperset(differ) and _PLAIN in about.words  # a model has a name of its own

    def said(variant: str, values: Mapping[str, Value]) -> str:
        if is_whole and variant == about.baseline:
            return about.words[_PLAIN]
        return ", ".join(value_in_words(about, name, values[name]) for name in differ)

    return said(a, mine), said(b, theirs)


def spoken_group(about: About, variants: Iterable[str], besides: str) -> str:
    """Return the values that the variants of a line share, in words, without the axis `besides`."""
    every = [all_values_of(about, variant) for variant in variants]
    shared = {
        name: value
        for name, value in every[0].items()
        if name != besides and value != "" and name in _varying(about)
        if all(as_text(other.get(name, "")) == as_text(value) for other in every)
    }
    return ", ".join(value_in_words(about, name, value) for name, value in shared.items())


def _varying(about: About) -> set[str]:
    """Return the axes with at least two values that some two variants of a line could share."""
    labels = [values_of(about, variant) for variant in about.variants]
    return {name for named in labels for name in named}


def _shortened(about: About, name: str) -> Mapping[str, str]:
    """Return each value of an axis with only the knobs that distinguish it from others."""
    texts = {as_text(all_values_of(about, v).get(name, "")) for v in about.variants}
    parsed = {}
    for text in sorted(texts):
        found = _MODEL.fullmatch(text)
        head, knobs = (found["head"], found["knobs"].split("; ")) if found else (text, [])
        parsed[text] = (head, knobs)
    said = {}
    for text, (head, knobs) in parsed.items():
        alike = [other for own, other in parsed.values() if own == head]
        kept = [
            knob
            for knob in knobs
            if knob.startswith("architecture ")
            or (len(alike) > 1 and not all(knob in other for other in alike))
        ]
        shown = f" ({', '.join(kept).replace('_', ' ')})" if kept else ""
        said[text] = f"{proper_name(head)}{shown}"
    return said
