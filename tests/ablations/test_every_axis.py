"""Check that every axis of every ablation has the effect that it declares, at quick scale.

Two variants that differ in one axis are built from one seed and given one input. A knob or a mixer
must change the parameters or the output; a knob that changes only the cost must take another path
to the same numbers; a knob of evaluation must change the evaluation only; an axis of the recipe
must change the training only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Input, ModelSpec, Outputs, architecture_class, build_model, mixer_class
from bakeoff.models.registry import mixer_pattern
from bakeoff.suite.planning.budgets import on_equal_terms
from bakeoff.suite.planning.knobs import Impossible, with_defaults
from bakeoff.suite.planning.loader import find, shipped
from bakeoff.suite.planning.variants import Baseline, Variant, variants_of
from bakeoff.suite.schema import Trial
from bakeoff.suite.spec import EQUAL, Recipe
from tests.models.small_models import OperationNames

OF_TRAINING = {
    "steps",
    "warmup_steps",
    "num_evaluations",
    *Recipe.model_fields.keys() - {"start"},
}
BESIDE_THE_MODEL = {
    "batch": "batch",
    "workers": "parallel",
    "zero": "parallel",
    "beam": "beam",
    "length_penalty": "length_penalty",
    "num_training_examples": "num_training_examples",
    "start": "start",
}
MOST_TOKENS = 96  # limit of an input, if the model allows more; above any window, kernel or chunk


@dataclass(frozen=True)
class Pair:
    """Two variants of one ablation that differ only in `axis`."""

    ablation: str
    axis: str
    one: Trial
    other: Trial


def _baseline(name: str) -> Baseline:
    ablation = find(name).ablation.at_scale("quick")
    scale = ablation.scales["quick"]  # without the recipe, so without a search for a rate
    return Baseline(ablation=ablation, scale=scale, knobs=with_defaults(ablation, scale))


def _values(baseline: Baseline, variant: Variant) -> dict[str, Any]:
    return {
        axis.name: variant.changes.get(axis.name, baseline.value(axis.name))
        for axis in baseline.ablation.axes
    }


def _pairs(name: str) -> Iterator[Pair]:
    """Yield each value of each axis once, paired with another value, all else equal."""
    baseline = _baseline(name)
    _, variants = variants_of(baseline)
    values = {variant.label: _values(baseline, variant) for variant in variants}
    for axis in baseline.ablation.axes:
        met: set[str] = set()
        for i, one in enumerate(variants):
            for other in variants[i + 1 :]:
                a, b = values[one.label], values[other.label]
                differing = {key for key in a if repr(a[key]) != repr(b[key])}
                if differing != {axis.name} or repr(b[axis.name]) in met:
                    continue
                if axis.name == EQUAL and one.changes.keys() | other.changes.keys() <= {EQUAL}:
                    continue  # the baseline is the same at each budget
                for found in _on_a_task(baseline, one, other):
                    met |= {repr(a[axis.name]), repr(b[axis.name])}
                    yield Pair(name, axis.name, *found)


def _on_a_task(baseline: Baseline, one: Variant, other: Variant) -> Iterator[tuple[Trial, Trial]]:
    """Yield the variants on the first task that supports both, if there is one."""
    for task in baseline.ablation.tasks:
        try:
            yield on_equal_terms(baseline, one, task), on_equal_terms(baseline, other, task)
        except Impossible:
            continue
        return


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@cache
def first_with_an_axis() -> frozenset[str]:
    """Return the ablations that vary something that no ablation before them varies.

    It loads every ablation, so it is computed once: every process of tests collects this file.
    """
    first: dict[str, str] = {}
    for name in shipped():
        for axis in find(name).ablation.axes:
            first.setdefault(axis.name, name)
    return frozenset(first.values())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in first_with_an_axis()))
        for name in shipped()
    ],
)
def test_every_axis_changes_what_it_says(name: str) -> None:
    pairs = list(_pairs(name))
    assert {pair.axis for pair in pairs} == {axis.name for axis in _baseline(name).ablation.axes}
    for pair in pairs:
        _check(pair)


def _check(pair: Pair) -> None:
    where = f"{pair.ablation}: {pair.axis}"
    differing = {
        field.name
        for field in fields(Trial)
        if getattr(pair.one, field.name) != getattr(pair.other, field.name)
    }
    if pair.axis in OF_TRAINING:
        teacher = {"teacher"} if pair.axis == "distillation" else set()
        assert "training" in differing <= {"training"} | teacher, where
        a, b = pair.one.training, pair.other.training
        assert replace(a, **{pair.axis: getattr(b, pair.axis)}) == b, where  # type: ignore[type-var]
    elif pair.axis in BESIDE_THE_MODEL:
        assert differing == {BESIDE_THE_MODEL[pair.axis]}, where
    elif pair.axis == EQUAL:
        assert differing in ({"training"}, {"subjects"}, {"pace"}), where
    elif pair.axis in {"task", "length"}:
        assert pair.axis in differing, where
    else:  # a mixer may have its own learning rate, and a start also changes the model
        assert "subjects" in differing <= {"subjects", "training", "start"}, where
        _check_models(pair, where)


def _check_models(pair: Pair, where: str) -> None:
    a, b = (_ran(each.subjects[0].spelling) for each in (pair.one, pair.other))
    if pair.axis in {"dim", "depth"}:
        assert a.shapes != b.shapes, where
    elif _is_marked(pair, "reading_only"):
        torch.testing.assert_close(a.outputs, b.outputs)
        assert not torch.allclose(a.read, b.read, atol=1e-5), where
    elif _is_marked(pair, "cost_only"):
        assert a.shapes == b.shapes, where
        torch.testing.assert_close(a.outputs, b.outputs)
        assert a.operations != b.operations, where
    else:
        is_same = a.outputs.shape == b.outputs.shape and a.shapes == b.shapes
        assert not is_same or not torch.allclose(a.outputs, b.outputs, atol=1e-5), where


def _is_marked(pair: Pair, mark: str) -> bool:
    mixers = map(mixer_class, mixer_pattern(pair.one.subjects[0].mixer))
    knobs = {field.name: field for mixer in mixers for field in fields(mixer.Config)}
    return pair.axis in knobs and bool(knobs[pair.axis].metadata.get(mark))


@cache
def _ran(spec_json: str) -> _Ran:
    return _Ran(ModelSpec.of_spelling(spec_json))


class _Ran:
    """A model, run in training mode, so that dropout counts, and in evaluation mode.

    In training mode it runs several times, because a random event may be rare.
    """

    def __init__(self, spec: ModelSpec) -> None:
        torch.manual_seed(0)
        model = build_model(spec).train()
        self.shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        torch.manual_seed(1)
        # Two images, since batch norm cannot compute a deviation from one.
        num_rows = 2 if any(one.grid for one in spec.inputs.values()) else 1
        texts = (1,) if architecture_class(spec.architecture).answers == ("choice",) else ()
        inputs = {name: _drawn(one, (num_rows, *texts)) for name, one in spec.inputs.items()}
        with torch.no_grad(), OperationNames() as noted:
            found = [model(**inputs) for _ in range(3)]
        self.outputs: Tensor = torch.stack(list(map(_all_of, found)))
        self.operations = noted.names
        with torch.no_grad():
            self.read: Tensor = _all_of(model.eval()(**inputs))


def _all_of(found: Tensor | Outputs) -> Tensor:
    """Return all numbers that a loss may read as one vector."""
    if isinstance(found, Outputs):
        return torch.cat([each.flatten() for each in (found.logits, *found.auxiliary.values())])
    return found.flatten()


def _drawn(one: Input, rows: tuple[int, ...]) -> Tensor:
    """Return a random input with `rows`; tokens may have several texts per row."""
    drawn, length = torch.Generator().manual_seed(2), min(one.length, MOST_TOKENS)
    if one.kind == "tokens":
        return torch.randint(one.size, (*rows, length), generator=drawn)
    if one.grid is not None:
        return torch.randn(rows[0], *one.grid, one.size, generator=drawn)
    return torch.randn(rows[0], length, one.size, generator=drawn)


def test_an_axis_that_changes_nothing_would_be_seen() -> None:
    """Test the check itself: on two equal variants, and on a wrong declaration of cost only."""
    pair = next(pair for pair in _pairs("heads") if pair.axis == "heads")
    with pytest.raises(AssertionError):
        _check(replace(pair, other=pair.one))
    (model,) = pair.one.subjects
    same = replace(pair.one, subjects=(replace(model, runtime="compiled"),))
    with pytest.raises(AssertionError):
        _check(replace(pair, other=same))
    with pytest.raises(AssertionError):
        _check(replace(pair, axis="batch"))
