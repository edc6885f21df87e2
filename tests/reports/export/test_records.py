"""Test that benchmark records have the fields of PyTorch's dashboard, and every number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bakeoff.reports.export.records import Record, records
from tests.reports import conftest as synthetic
from tests.reports.shipped import sweep as shipped

# Version 3 of the schema: a text, a count, numbers, or a mapping of texts.
_TEXTS: dict[str, Any] = {}
RUNNER = {
    "name": str,
    "type": str,
    "cpu_info": str,
    "cpu_count": int,
    "gpu_info": str,
    "gpu_count": int,
    "extra_info": _TEXTS,
}
SCHEMA = {
    "benchmark": {"name": str, "mode": str, "dtype": str, "extra_info": _TEXTS},
    "model": {"name": str, "type": str, "backend": str, "extra_info": _TEXTS},
    "metric": {"name": str, "unit": str, "benchmark_values": [float], "extra_info": _TEXTS},
    "runners": [RUNNER],
    "dependencies": None,
}
DEPENDENCY = {"repo": str, "sha": str, "version": str}


def mistakes(value: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield where the value differs from the schema."""
    if wanted is _TEXTS:
        if not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
            yield path
    elif isinstance(wanted, dict):
        if value.keys() != wanted.keys():
            yield f"{path}: {sorted(value)}"
        for key in value.keys() & wanted.keys():
            yield from mistakes(value[key], wanted[key], f"{path}.{key}")
    elif isinstance(wanted, list):
        if not value:
            yield f"{path}: empty"
        for each in value:
            yield from mistakes(each, wanted[0], path)
    elif wanted is not None and not isinstance(value, wanted):
        yield f"{path}: {value!r}"


@pytest.fixture(scope="module")
def made() -> list[Record]:
    return list(records(synthetic.sweep()))


def test_every_record_has_the_fields_of_the_schema(made: list[Record]) -> None:
    written = json.loads(json.dumps(made, allow_nan=False))
    assert [wrong for record in written for wrong in mistakes(record, SCHEMA)] == []
    for record in written:
        assert record["dependencies"]["torch"] == {"repo": "pytorch/pytorch", "version": "2.13.0"}
        for each in record["dependencies"].values():
            assert each.keys() <= DEPENDENCY.keys()
            assert all(isinstance(value, str) for value in each.values())


def test_every_number_is_in_a_record_once(made: list[Record]) -> None:
    sweep = synthetic.sweep()
    values = sorted(v for record in made for v in record["metric"]["benchmark_values"])
    assert values == sorted(sweep.results["value"].dropna())
    keys = [
        (r["model"]["name"], r["metric"]["name"], *r["benchmark"]["extra_info"].values())
        for r in made
    ]
    assert len(set(keys)) == len(keys)
    one = next(r for r in made if r["model"]["name"] == "heads=16")
    assert one["model"]["extra_info"]["heads"] == "16"
    assert one["model"]["type"] == "language_model"
    assert len(one["metric"]["benchmark_values"]) == 2  # a seed of three diverged


@pytest.mark.whole
def test_a_forward_pass_is_inference_and_a_step_training() -> None:
    modes = {r["metric"]["name"]: r["benchmark"]["mode"] for r in records(shipped("complexity"))}
    assert modes["forward_seconds"] == "inference"
    assert modes["forward_backward_seconds"] == "training"
    trained = {r["metric"]["name"]: r["benchmark"]["mode"] for r in records(synthetic.sweep())}
    assert trained["bits_per_character"] == "training"
    assert trained["training_step_seconds"] == "training"
