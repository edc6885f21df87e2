"""Tests for `bakeoff list`, which shows everything available with its size."""

import json
import re
import shutil
from pathlib import Path

import pytest

import bakeoff
from bakeoff.ablations import THEMES
from bakeoff.models import ARCHITECTURES, MIXERS, mixer_class
from bakeoff.suite.commands import list as list_command
from bakeoff.suite.commands.list import show
from bakeoff.suite.planning.loader import find, shipped, themes
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import SpecError
from bakeoff.suite.tasks.registry import TASKS

COST = ("time", "sequential_operations", "maximum_path_length")


def _entries(kind: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict]:
    show(kind, as_json=True)
    key = "ablation" if kind == "ablations" else "name"
    return {entry[key]: entry for entry in json.loads(capsys.readouterr().out)}


def test_every_ablation_has_one_theme() -> None:
    listed = [name for names in THEMES.values() for name in names]
    assert sorted(listed) == list(shipped())
    assert list(themes()) == listed


def test_every_ablation_with_its_trials_at_every_scale(capsys: pytest.CaptureFixture[str]) -> None:
    entries = _entries("ablations", capsys)
    assert list(entries) == list(shipped())
    for name, entry in entries.items():
        ablation = find(name).ablation
        assert entry["question"] == ablation.question
        assert (entry["claim"] or {}).get("statement") == getattr(ablation.claim, "statement", None)
        assert list(entry["scales"]) == list(ablation.scales)
        for size in entry["scales"].values():
            assert re.fullmatch(
                r"[\d,]+ trials, about .* on (\d+ GPU|this machine's \d+ cores)", size
            )
    first = plan("complexity")
    assert entries["complexity"]["tasks"] == list(first.about.tasks)[:-1]  # without mixers alone
    assert entries["complexity"]["variants"] == list(first.about.variants)
    num_trials = len(plan("heads").trials)
    assert entries["heads"]["scales"]["quick"].startswith(f"{num_trials} trials, about ")


@pytest.mark.whole
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


@pytest.mark.parametrize("kind", ["mixers", "architectures", "tasks"])
def test_people_see_the_same_names(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = set(_entries(kind, capsys))
    show(kind, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert {line for line in lines if not line.startswith(" ")} == names


def test_one_of_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    show("mixers", name="gru", as_json=True)
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == ["gru"]
    with pytest.raises(SpecError, match=r"no mixer 'gr'; did you mean 'gru'\?"):
        show("mixers", name="gr", as_json=False)
    with pytest.raises(SpecError, match=r"no ablation 'heds'; did you mean 'heads'\?"):
        show("ablations", name="heds", as_json=False)


def test_a_line_an_ablation_with_the_verdict_of_the_package(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    show("ablations", out=tmp_path, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("  ")]
    assert [row.split()[0] for row in rows] == list(themes())
    assert [line for line in lines[: lines.index("")] if line[0] != " "] == list(THEMES)
    shown = bakeoff.published_results().set_index("ablation")["verdict"]
    for row in rows:
        name, verdict, question = re.split(r"  +", row.strip(), maxsplit=2)
        assert (verdict, question) == (shown.get(name, "-"), find(name).ablation.question)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_lines_fit_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show("ablations", out=tmp_path, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    row = next(line for line in lines if line.startswith("  linear_attention "))
    question = find("linear_attention").ablation.question
    said = row.split(maxsplit=2)[2:]
    assert said == [] if width < 60 else question.startswith(said[0].removesuffix(" ..."))


def test_the_verdict_of_own_results_replaces_that_of_the_package(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    home = Path(__file__).parents[3] / "docs/results/heads"
    (tmp_path / "reports").mkdir()
    shutil.copytree(home, tmp_path / "reports/heads")
    (tmp_path / "reports/size").mkdir()
    (tmp_path / "reports/size/results.parquet").write_bytes(b"damaged")
    show("ablations", out=tmp_path, as_json=False)
    told = capsys.readouterr().out
    assert re.search(r"^  heads +supported \*  ", told, re.MULTILINE)
    assert re.search(r"^  size +supported  ", told, re.MULTILINE)
    assert f"those with * are of the results in {tmp_path}" in told


def test_all_of_one_ablation(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show("ablations", name="heads", out=tmp_path, as_json=False)
    told = capsys.readouterr().out
    claim = find("heads").ablation.claim
    assert claim is not None
    for part in (
        "attention",
        claim.statement,
        "bits_per_character of heads=8 against heads=1, by at least 0.02",
        claim.source,
        claim.published,
        "supported, of the shipped report",
        "heads=1; heads=2; heads=4; heads=8",
        "shakespeare_tragedies",  # at quick; shakespeare_characters at standard
    ):
        assert part in told
    assert re.search(r"^  quick +53 trials, about ", told, re.MULTILINE)


def test_a_file_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from bakeoff import Ablation, Model, Scale, vary\n"
        "ABLATION = Ablation(question='How many?', baseline=Model(mixer='attention'),\n"
        "    axes=[vary('heads', [1, 2])], tasks=['mqar_small'], probes=['quality'],\n"
        "    scales={'quick': Scale(dim=8, depth=1, length=32, steps=2, batch=2)})\n"
    )
    show("ablations", name=str(file), out=tmp_path, as_json=True)
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["ablation"], entry["theme"], entry["verdict"]) == ("mine", "", "")
    assert entry["claim"] is None
    assert entry["scales"]["quick"].startswith("9 trials, about ")
