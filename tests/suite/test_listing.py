"""`bakeoff list` shows everything that there is, with its size."""

import json
import re

import pytest

from models import MIXERS
from suite.catalogue import find, shipped
from suite.listing import show
from suite.planning import plan
from suite.tasks.registry import TASKS


def _entries(kind: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict]:
    show(kind, as_json=True)
    return {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}


def test_every_ablation_with_its_trials_at_every_scale(capsys: pytest.CaptureFixture[str]) -> None:
    entries = _entries("ablations", capsys)
    assert list(entries) == list(shipped())
    for name, entry in entries.items():
        ablation = find(name).ablation
        assert entry["question"] == ablation.question
        assert list(entry["scales"]) == list(ablation.scales)
        for scale, size in entry["scales"].items():
            assert size.startswith(f"{len(plan(name, scale=scale).trials)} trials, about ")
            assert re.search(r"cores$|GPU$", size)


def test_every_mixer_with_its_paper_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    entries = _entries("mixers", capsys)
    assert list(entries) == list(MIXERS)
    assert all(entry["paper"] and entry["time"] for entry in entries.values())


def test_every_task_with_its_licence(capsys: pytest.CaptureFixture[str]) -> None:
    entries = _entries("tasks", capsys)
    assert list(entries) == list(TASKS)
    assert all(entry["licence"] and entry["metric"] for entry in entries.values())


@pytest.mark.parametrize("kind", ["ablations", "mixers", "tasks"])
def test_people_see_the_same_names(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = set(_entries(kind, capsys))
    show(kind, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert {line for line in lines if not line.startswith(" ")} == names
