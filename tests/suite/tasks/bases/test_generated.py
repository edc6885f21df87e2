"""Test all generated tasks: random streams, kinds, and a digest of their definition."""

import dataclasses
import hashlib
from collections import Counter

import pytest
import torch

from bakeoff.suite.tasks.bases.generated import definition_source
from bakeoff.suite.tasks.mqar import MqarSmall
from bakeoff.suite.tasks.parity import Parity
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import UNSCORED

# Digests of the first training batch at seed 0, four sequences of 64 tokens. A change defines
# another experiment and must raise the version of the task.
FIRST_BATCHES = {
    "listops": "a433310d8869cd03",
    "mqar": "d7bec56e21e33996",
    "mqar_small": "f7872cda5c1574a7",
    "selective_copying": "f7c79077e93b707c",
    "parity": "f2fa3f2cd5bb7bba",
}
DEFINITION = {"a": 1, "b": [2, 3]}


@pytest.mark.parametrize("name", FIRST_BATCHES)
def test_the_examples_are_the_recorded_ones(name: str) -> None:
    batch = build_task(name, 64).training_batch(0, 4, seed=0)
    content = batch.inputs["inputs"].numpy().tobytes() + batch.targets.numpy().tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == FIRST_BATCHES[name]


def _source(**changes: object):
    fields = {"name": "n", "title": "t", "origin": "o", "definition": DEFINITION, "version": 1}
    return definition_source(**(fields | changes))


def test_a_digest_stands_for_name_definition_and_version() -> None:
    first = _source()
    assert _source(definition={"b": [2, 3], "a": 1}) == first
    changed = [_source(name="m"), _source(version=2), _source(definition={"a": 1, "b": [2, 4]})]
    assert len({source.sha256 for source in (first, *changed)}) == 4
    assert dataclasses.replace(_source(title="other"), title="t") == first


def test_a_training_batch_is_of_one_kind_and_all_kinds_come() -> None:
    task = MqarSmall(128)
    kinds = Counter()
    for step in range(300):
        pairs = set((task.training_batch(step, 5, seed=0).targets != UNSCORED).sum(1).tolist())
        assert len(pairs) == 1
        kinds.update(pairs)
    assert set(kinds) == set(task.kinds()) == {4, 8, 16}
    assert min(kinds.values()) > 70


def test_a_split_has_as_many_examples_of_each_kind() -> None:
    task = MqarSmall(128)
    pairs = torch.cat([(b.targets != UNSCORED).sum(1) for b in task.held_out("test", 64)])
    assert Counter(pairs.tolist()) == {4: 500, 8: 500, 16: 500}


def test_the_splits_are_the_same_for_a_task_made_anew() -> None:
    first, again = (next(Parity(40).held_out("validation", 9)) for _ in range(2))
    assert torch.equal(first.inputs["inputs"], again.inputs["inputs"])
    other = next(Parity(40).held_out("test", 9))
    assert not torch.equal(first.inputs["inputs"], other.inputs["inputs"])
