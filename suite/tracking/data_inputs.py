"""Which data did a trial see? As the inputs that MLflow shows beside a run. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from suite.schema import DataSet

_NAME_LIMIT = 500  # characters; it stands in mlflow/utils/validation.py
_DIGEST_LENGTH = 12  # of 36 that MLflow takes: it stands in every row of the table
_ADDRESS = re.compile(r"https?://[^\s,;]+")


@dataclass(frozen=True, kw_only=True)
class DataInput:
    """A data set, in MLflow's words.

    Attributes:
        digest: The first characters of the SHA-256.
        source_type: ``http`` where the source has an address that the dashboard can open.
        source: JSON: the address, where the data came from, the licence, the whole SHA-256.
    """

    name: str
    digest: str
    source_type: str
    source: str


def data_input(data_set: DataSet) -> DataInput:
    """One data set; the same always looks the same."""
    address = _ADDRESS.search(data_set.origin)
    source = {
        "licence": data_set.licence,
        "origin": data_set.origin,
        "sha256": data_set.sha256,
        **({"url": address.group()} if address else {}),
    }
    return DataInput(
        name=data_set.title[:_NAME_LIMIT],
        digest=data_set.sha256[:_DIGEST_LENGTH],
        source_type="http" if address else "external",
        source=json.dumps(source, sort_keys=True),
    )


def data_inputs(data_sets: Mapping[str, DataSet]) -> list[DataInput]:
    """Each data set once, in the order of the tasks: several tasks may look at one."""
    return list(dict.fromkeys(map(data_input, data_sets.values())))
