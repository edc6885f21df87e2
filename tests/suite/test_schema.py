"""Tests for trial ids: hashes of the content, the same everywhere, different for any change."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.models import ModelSpec
from bakeoff.models.model_spec import canonical_json, content_hash
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Measurement, Provenance, Result, Status, Training, Trial

MODEL = ModelSpec(
    architecture="language_model",
    mixer="attention",
    knobs={"heads": 4, "bias": True},
    position="sinusoidal",
    dim=16,
    depth=1,
    length=8,
    input_kind="tokens",
    input_size=81,
    output_size=81,
    settings={"is_tied": True, "norm_placement": "pre"},
)
TRAINING = Training(
    steps=4, learning_rate=1e-3, warmup_steps=50, weight_decay=0.01, num_evaluations=8
)
TRIAL = Trial(
    probe="quality",
    task="shakespeare_characters",
    task_digest="00" * 32,
    length=8,
    batch=2,
    subjects=(MODEL,),
    training=TRAINING,
    seed=0,
    versions={"probe quality": 1, "training": 1},
)
PROVENANCE = Provenance(
    commit="abc",
    device="a CPU",
    num_threads=1,
    num_cpus=1.0,
    num_gpus=0.0,
    versions={"torch": "2.11", "python": "3.11"},
)


def test_an_id_is_the_same_in_every_release() -> None:
    """Check the id; changing this constant orphans every recorded result."""
    assert TRIAL.trial_id == "3f20845cd2eaa7110b085f4996d907f2"


def test_a_model_is_read_back_from_its_spelling() -> None:
    assert ModelSpec.of_spelling(MODEL.spelling) == MODEL


def test_the_order_of_mappings_is_nothing() -> None:
    model = replace(MODEL, knobs={"bias": True, "heads": 4})
    other = replace(TRIAL, subjects=(model,), versions={"training": 1, "probe quality": 1})
    assert other.trial_id == TRIAL.trial_id


def _with_model(**changes: Any) -> Trial:
    return replace(TRIAL, subjects=(replace(MODEL, **changes),))


CHANGED = {
    "probe": replace(TRIAL, probe="flops"),
    "task": replace(TRIAL, task="other"),
    "data": replace(TRIAL, task_digest="01" * 32),
    "length": replace(TRIAL, length=9),
    "batch": replace(TRIAL, batch=3),
    "seed": replace(TRIAL, seed=1),
    "version": replace(TRIAL, versions={"probe quality": 2, "training": 1}),
    "steps": replace(TRIAL, training=replace(TRAINING, steps=5)),
    "learning rate": replace(TRIAL, training=replace(TRAINING, learning_rate=2e-3)),
    "no training": replace(TRIAL, training=None),
    "subjects": replace(TRIAL, subjects=(MODEL, replace(MODEL, dim=32))),
    "mixer": _with_model(mixer="lstm"),
    "knob": _with_model(knobs={"heads": 2, "bias": True}),
    "a bool for a whole number": _with_model(knobs={"heads": 4, "bias": 1}),
    "a float for a whole number": _with_model(knobs={"heads": 4.0, "bias": True}),
    "a string for a whole number": _with_model(knobs={"heads": "4", "bias": True}),
    "depth": _with_model(depth=2),
    "setting": _with_model(settings={"is_tied": False, "norm_placement": "pre"}),
}


def test_every_part_of_a_trial_is_in_its_id() -> None:
    ids = {name: trial.trial_id for name, trial in CHANGED.items()} | {"none": TRIAL.trial_id}
    assert len(set(ids.values())) == len(ids)


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)


def _exactly(value: object) -> tuple[type, str]:
    return type(value), repr(value)


@given(scalars, scalars)
def test_only_the_same_scalars_share_a_hash(a: object, b: object) -> None:
    assert (content_hash([a]) == content_hash([b])) == (_exactly(a) == _exactly(b))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_id(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"learning_rate": value})


def test_an_environment_is_its_device_threads_and_torch() -> None:
    same = replace(PROVENANCE, commit="def", versions={"torch": "2.11", "python": "3.12"})
    assert same.environment_id == PROVENANCE.environment_id
    others = [
        replace(PROVENANCE, device="another CPU"),
        replace(PROVENANCE, num_threads=2),
        replace(PROVENANCE, versions={"torch": "2.12"}),
    ]
    ids = {PROVENANCE.environment_id, *(other.environment_id for other in others)}
    assert len(ids) == 4


def test_a_results_hash_is_all_of_it() -> None:
    measurement = Measurement(metric="m", value=1.0, unit="1", better="none")
    result = Result(
        trial_id="t",
        status=Status.OK,
        provenance=PROVENANCE,
        seconds=1.0,
        measurements=(measurement,),
    )
    others = [
        replace(result, measurements=(replace(measurement, value=math.nextafter(1.0, 2.0)),)),
        replace(result, reason="x"),
        replace(result, seconds=2.0),
    ]
    assert len({result.sha256, *(other.sha256 for other in others)}) == 4


def test_a_result_recorded_before_there_were_conditions_keeps_its_hash() -> None:
    """Check the hash; changing this constant makes every store differ from its journal."""
    result = Result(
        trial_id="t",
        status=Status.OK,
        provenance=PROVENANCE,
        seconds=1.0,
        measurements=(Measurement(metric="m", value=1.0, unit="1", better="none"),),
    )
    assert result.sha256 == "268c56ae07e07e1f96acb03335b299c2"
    with_joules = replace(result, joules=3.0)
    assert with_joules.sha256 != result.sha256
    assert with_joules.finding_sha256 == result.finding_sha256
    places = [replace(PROVENANCE, conditions={"smt": smt}) for smt in ("on", "off")]
    others = [replace(result, provenance=place) for place in places]
    assert len({result.sha256, *(other.sha256 for other in others)}) == 3
    assert {place.environment_id for place in places} == {PROVENANCE.environment_id}


def test_a_plan_is_printed_as_one_line() -> None:
    assert repr(plan("heads", scale="smoke")).startswith("<Plan of heads at smoke: ")
