from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.suite.tracking.client import (
    KEY_LIMIT,
    MAX_ENTITIES,
    MAX_PARAMS,
    MAX_TAGS,
    PARAM_LIMIT,
    REQUEST_LIMIT,
    TAG_LIMIT,
    LogRequest,
    MetricRow,
    entity_key,
    requests_for,
    shortened,
)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("bits_per_character", "bits_per_character"),
        ("step_seconds/heads=4, dim=64/length=1024", "step_seconds/heads:4 dim:64/length:1024"),
        ("model.dim", "model.dim"),
    ],
)
def test_names_stay_readable(text: str, key: str) -> None:
    assert entity_key(text) == key


@pytest.mark.bad_input(40)
@settings(deadline=None)  # slow on two shared cores
@given(st.text(max_size=400))
def test_mlflow_accepts_every_name(text: str) -> None:
    from mlflow.utils.validation import _validate_metric_name, _validate_tag_name

    key = entity_key(text)
    assert len(key) <= KEY_LIMIT
    _validate_metric_name(f"final/{key}")
    _validate_tag_name(f"bakeoff.not_finite.{key}")


@settings(deadline=None)  # slow on two shared cores
@given(st.text(alphabet="a=:, /._-$", max_size=12), st.text(alphabet="a=:, /._-$", max_size=12))
def test_no_two_names_fall_together(one: str, other: str) -> None:
    assert (entity_key(one) == entity_key(other)) == (one == other)


def test_our_limits_are_no_wider_than_those_of_mlflow() -> None:
    from mlflow.utils import validation

    assert validation.MAX_PARAM_VAL_LENGTH >= PARAM_LIMIT
    assert validation.MAX_TAG_VAL_LENGTH >= TAG_LIMIT
    assert KEY_LIMIT + len("bakeoff.not_finite.") <= validation.MAX_ENTITY_KEY_LENGTH
    assert max(MAX_PARAMS, MAX_TAGS) <= validation.MAX_PARAMS_TAGS_PER_BATCH
    assert validation.MAX_ENTITIES_PER_BATCH >= MAX_ENTITIES
    assert validation.MAX_BATCH_LOG_REQUEST_SIZE >= REQUEST_LIMIT


@pytest.mark.bad_input(40)
def test_a_long_value_becomes_a_hash_and_is_kept_whole() -> None:
    long = "x" * 11
    fitting, body = shortened({"short": "y", "long": long}, 10, "long_params.json")
    assert fitting["short"] == "y"
    assert hashlib.sha256(long.encode()).hexdigest() in fitting["long"]
    assert "11 characters, whole in long_params.json" in fitting["long"]
    assert json.loads(body) == {"long": long}
    assert shortened({"short": "y"}, 10, "long_params.json") == ({"short": "y"}, "")


def _rows(count: int) -> list[MetricRow]:
    return [MetricRow("loss", float(step), step, step) for step in range(count)]


def test_what_fits_is_one_request() -> None:
    (batch,) = requests_for({"a": "1"}, _rows(3), {"b": "2"})
    assert batch == LogRequest([("a", "1")], _rows(3), [("b", "2")])
    assert requests_for({}, [], {}) == []


@settings(deadline=None)  # slow on two shared cores
@given(st.integers(0, 250), st.integers(0, 2300), st.integers(0, 250), st.sampled_from([1, 6_000]))
def test_every_request_is_within_the_limits_and_nothing_is_lost(
    params: int, rows: int, tags: int, length: int
) -> None:
    sent = requests_for(
        {f"p{i}": "x" * length for i in range(params)},
        _rows(rows),
        {f"t{i}": "x" * length for i in range(tags)},
    )
    for batch in sent:
        assert len(batch.params) <= MAX_PARAMS
        assert len(batch.tags) <= MAX_TAGS
        assert 0 < len(batch.params) + len(batch.tags) + len(batch.rows) <= MAX_ENTITIES
        assert sum(len(value) for _, value in [*batch.params, *batch.tags]) <= REQUEST_LIMIT
    assert [row for batch in sent for row in batch.rows] == _rows(rows)
    assert len({name for batch in sent for name, _ in batch.params}) == params
    assert [name for batch in sent for name, _ in batch.tags] == [f"t{i}" for i in range(tags)]
    if tags:
        assert f"t{tags - 1}" in dict(sent[-1].tags)  # the last tag marks the run as complete
