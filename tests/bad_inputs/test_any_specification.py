"""Test that any specification gives either a plan or one sentence of refusal."""

from __future__ import annotations

import time
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from bakeoff.models import ARCHITECTURES, MIXERS, POSITIONS
from bakeoff.suite.errors import MOST_CHARACTERS, USAGE, exit_code_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import PROBES
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import Ablation, Claim, Model, RepeatedValue, Scale, SpecError, vary
from bakeoff.suite.tasks.registry import TASKS

pytestmark = pytest.mark.whole

SECONDS = 20.0  # CPU time; a plan of a few variants takes 1 % of it

# Values that are never valid numbers, names or lists; none has effects outside this process.
STRANGE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.binary(max_size=4), st.complex_numbers(), st.decimals(), st.fractions(),
    st.sampled_from([10**26, -1, 0, 2**53, 2**63, 10**400, "tuned", "", "a\nb", "\ud800", "x" * 999,
                     [], {}, (), range(3), object(), int, float("nan"), "a=b", "../x", "baseline"]),
)  # fmt: skip
WORDS = ["heads", "dim", "depth", "steps", "mixer", "position", "task", "learning_rate", "batch",
         "length", "kernel_size", "runtime", "architecture", "norm_placement", "dropout", "workers",
         "precision", "seeds", "gpus", "zero", "test_lengths", "lengths"]  # fmt: skip
TEXT = "shakespeare_characters"
SMALL = st.integers(1, 16)
SENSIBLE = {
    "dim": st.sampled_from([8, 16]), "depth": st.integers(1, 2), "length": st.sampled_from([8, 64]),
    "steps": SMALL, "batch": SMALL, "learning_rate": st.sampled_from([1e-3, 1, "tuned"]),
    "seeds": st.integers(1, 3), "workers": st.integers(1, 2), "zero": st.integers(0, 3),
    "accumulation": SMALL, "cpus": SMALL, "label_smoothing": st.sampled_from([0.0, 0.1]),
    "test_lengths": st.just([8, 16]), "lengths": st.just([8, 32]), "dims": st.just([8]),
}  # fmt: skip


def _mostly(sensible: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a plausible value in 39 of 40 cases, so that most plans reach deep checks."""
    return st.integers(0, 39).flatmap(lambda chance: sensible if chance else STRANGE)


def _one_of(*names: str) -> st.SearchStrategy[Any]:
    return _mostly(st.sampled_from(names))


@st.composite
def _scales(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the required fields and at most two others."""
    rare = st.sampled_from(["seeds", "cpus", "label_smoothing", "learning_rate", *SENSIBLE])
    names = ["dim", "depth", "length", "steps", "batch", *draw(st.lists(rare, max_size=2))]
    return {name: draw(_mostly(SENSIBLE.get(name, SMALL))) for name in names}


KNOBS = st.dictionaries(st.sampled_from(["dropout", "norm_placement", *WORDS]), STRANGE, max_size=1)
MODELS = st.fixed_dictionaries(
    {"mixer": _one_of("attention", "attention", "lstm", *MIXERS)},
    optional={
        "position": _one_of("none", "learned", *POSITIONS),
        "architecture": st.integers(0, 19).flatmap(
            lambda chance: st.none() if chance else _one_of(*ARCHITECTURES)
        ),
    },
)
SOUND_AXES = [
    ("heads", [1, 4]), ("dim", [8, 16]), ("depth", [1, 2]), ("mixer", ["attention", "lstm"]),
    ("position", ["none", "rope"]), ("learning_rate", [1e-3, 1]), ("steps", range(2, 9)),
    ("norm_placement", ["pre", "post"]), ("task", ["shakespeare_characters", "parity"]),
    ("batch", [2, 3]), ("workers", [1, 2]), ("dropout", [0, 0.1]), ("heads", [3, 4, 16]),
]  # fmt: skip
VALUES = st.lists(STRANGE, max_size=3) | st.lists(_one_of(*MIXERS), max_size=3) | STRANGE
AXIS = st.integers(0, 9).flatmap(
    lambda chance: st.sampled_from(SOUND_AXES) if chance else st.tuples(_one_of(*WORDS), VALUES)
)
CLAIMS = st.fixed_dictionaries(
    {
        "metric": _one_of("bits_per_character", "accuracy", "num_parameters"),
        "a": _one_of("baseline", "heads=1", "dim=8"), "b": _one_of("heads=4", "dim=16", "depth=2"),
        "by": _mostly(st.floats(0, 1)),
    },
    optional={"task": _one_of(*TASKS), "at": _one_of("", "length=8")},
)  # fmt: skip
WHOLE = st.fixed_dictionaries(
    {
        "question": _one_of("Which?"), "scale": _scales(), "model": MODELS,
        "knobs": _mostly(st.just({})).flatmap(lambda one: st.just(one) if one == {} else KNOBS),
        "axes": st.lists(AXIS, min_size=1, max_size=3, unique_by=lambda axis: str(axis[0])),
        "tasks": _mostly(st.lists(_one_of(TEXT, TEXT, *TASKS), min_size=1, max_size=2)),
        "probes": _mostly(st.lists(_one_of(*PROBES), min_size=1, max_size=3)),
        "claim": st.integers(0, 4).flatmap(lambda chance: st.none() if chance else CLAIMS),
        "seeds": st.none() | _mostly(st.integers(1, 3)),
        "combine": _one_of("one_at_a_time", "cross", "first_with_each"),
    }
)  # fmt: skip


def _planned(said: dict[str, Any]) -> Plan:
    """Return the plan of a specification, built as in a user's file."""
    fields = {
        "question": said["question"],
        "baseline": Model(**{**said["knobs"], **said["model"]}),
        "axes": [vary(name, values) for name, values in said["axes"]],
        "tasks": said["tasks"],
        "probes": said["probes"],
        "scales": {"quick": Scale(**said["scale"])},
        "combine": said["combine"],
        "claim": Claim("better", **said["claim"]) if said["claim"] else None,
    }
    return plan(Ablation(**fields), seeds=said["seeds"])


def _outcome(said: dict[str, Any]) -> Plan | SpecError:
    """Return the plan or the SpecError, the only allowed outcomes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedValue)
        try:
            return _planned(said)
        except SpecError as error:  # and no other exception
            return error


def _hold(said: dict[str, Any]) -> None:
    start = time.process_time()
    outcome = _outcome(said)
    assert time.process_time() - start < SECONDS
    event(type(outcome).__name__)
    if isinstance(outcome, Plan):
        assert outcome.cells
        return
    assert exit_code_of(outcome) == USAGE
    assert str(outcome).isprintable()
    assert 0 < len(str(outcome)) <= MOST_CHARACTERS + 100


LENIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=200, deadline=None, suppress_health_check=LENIENT)
@given(WHOLE)
def test_any_specification_is_planned_or_refused(said: dict[str, Any]) -> None:
    _hold(said)


@pytest.mark.slow
@settings(max_examples=5_000, deadline=None, suppress_health_check=LENIENT)
@given(WHOLE)
def test_many_specifications_are_planned_or_refused(said: dict[str, Any]) -> None:
    _hold(said)


FIELDS = {
    "scale": {"dim": 8, "depth": 1, "length": 8, "steps": 2, "batch": 2}, "question": "Which?",
    "model": {"mixer": "attention"}, "knobs": {"heads": 4}, "axes": [("heads", [1, 4])],
    "tasks": ["shakespeare_characters"], "probes": ["quality"], "claim": None, "seeds": 1,
    "combine": "one_at_a_time",
}  # fmt: skip
CLAIM = {"metric": "bits_per_character", "a": "heads=1", "b": "heads=4", "by": 0.1}


@settings(max_examples=200, deadline=None, suppress_health_check=LENIENT)
@given(place=st.sampled_from(sorted(FIELDS)), name=st.sampled_from(WORDS), value=STRANGE)
@example(place="axes", name="position", value=None)
@example(place="axes", name="task", value=None)
def test_one_strange_value_in_a_sound_specification(place: str, name: str, value: object) -> None:
    """Keep all other values valid, so that the strange one is reached as deep as possible."""
    said = {**FIELDS, "claim": CLAIM}
    if place in ("scale", "model", "knobs"):
        said[place] = {**FIELDS[place], name: value}
    elif place == "axes":
        said[place] = [(name, [value])]
    elif place == "claim":
        said[place] = {**CLAIM, "metric": value}
    else:
        said[place] = value
    _hold(said)
