"""Tests for `bakeoff list`, which shows everything available with its size."""

import json
import re

import pytest

from bakeoff.models import ARCHITECTURES, MIXERS, mixer_class
from bakeoff.suite.commands import list as list_command
from bakeoff.suite.commands.list import show
from bakeoff.suite.planning.loader import find, shipped
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.tasks.registry import TASKS

COST = ("time", "sequential_operations", "maximum_path_length")


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
        for size in entry["scales"].values():
            assert re.fullmatch(
                r"[\d,]+ trials, about .* on (\d+ GPU|this machine's \d+ cores)", size
            )
    num_trials = len(plan("heads").trials)
    assert entries["heads"]["scales"]["quick"].startswith(f"{num_trials} trials, about ")


def test_an_ablation_that_has_changed_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_command, "shipped", lambda: {"heads": shipped()["heads"]})
    now = list_command.overview()
    stale = {"question": "an older one?"}
    assert list_command.overview({"heads": now["heads"] | stale}) == {"heads": now["heads"] | stale}
    assert list_command.overview({"heads": stale | {"sha256": "of an older file"}}) == now


def test_every_architecture_with_its_knobs(capsys: pytest.CaptureFixture[str]) -> None:
    entries = _entries("architectures", capsys)
    assert list(entries) == list(ARCHITECTURES)
    assert "is_tied=True" in entries["language_model"]["knobs"]


def test_every_mixer_with_its_paper_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    entries = _entries("mixers", capsys)
    assert list(entries) == list(MIXERS)
    for entry in entries.values():
        assert all(entry[key] for key in ("paper", "family", "mask_mode", *COST))


def test_every_mixer_with_its_traits_and_its_knobs_and_their_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entries = _entries("mixers", capsys)
    for name, entry in entries.items():
        kind = mixer_class(name)
        assert entry["knobs"] == [f"{key}={value}" for key, value in vars(kind.Config()).items()]
        assert ("relative positions" in entry["traits"]) == kind.supports_relative
        assert ("causal" in entry["traits"]) == kind.supports_causal
    assert "heads=4" in entries["attention"]["knobs"]
    show("mixers", as_json=False)
    told = capsys.readouterr().out
    assert re.search(r"^attention\n(  .*\n)*  knobs +heads=4, ", told, re.MULTILINE)
    assert re.search(r"^fnet\n(  .*\n)*  knobs +norm=none$", told, re.MULTILINE)


def test_every_task_with_its_licence(capsys: pytest.CaptureFixture[str]) -> None:
    entries = _entries("tasks", capsys)
    assert list(entries) == list(TASKS)
    assert all(entry["licence"] and entry["metric"] for entry in entries.values())
    assert entries["parity"]["inputs"] == {"inputs": "tokens"}
    written = entries["reversal"]
    assert written["inputs"] == {"inputs": "tokens", "context": "tokens"}
    assert (written["asks_for"], written["length"]) == ("sequence", "2 to 4,096 tokens")
    assert written["metric"].endswith("higher is better), of generated text")


@pytest.mark.parametrize("kind", ["ablations", "mixers", "architectures", "tasks"])
def test_people_see_the_same_names(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = set(_entries(kind, capsys))
    show(kind, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines if not line.startswith(" ")} == names
    if kind == "ablations":
        assert len(lines) == 2 * len(names)
