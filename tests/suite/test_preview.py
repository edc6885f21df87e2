"""`bakeoff plan`: the table for people, one object a trial for programs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.planning.plan import plan
from suite.preview import show
from suite.spec import SpecError

WriteAblation = Callable[..., Path]
FIELDS = [
    "trial_id", "ablation", "scale", "variant", "seed", "task", "probe", "state", "reason", "at",
]  # fmt: skip


@pytest.fixture
def own(write_ablation: WriteAblation) -> str:
    return str(write_ablation(axes='[vary("heads", [1, 3, 4])]'))


def test_for_programs_there_is_one_object_a_trial(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show([own, own], scale="quick", seeds=2, out=tmp_path / "out", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert all(list(entry) == FIELDS for entry in found)
    planned = plan(own, seeds=2)
    runnable = [entry["trial_id"] for entry in found if entry["state"] == "missing"]
    assert sorted(runnable) == sorted(trial.trial_id for trial in planned.trials)
    assert {entry["reason"] for entry in found if entry["state"] == "skipped"} == {
        "attention: heads=3 does not divide dim=16"
    }
    assert {(entry["ablation"], entry["scale"]) for entry in found} == {("mine", "quick")}
    assert {entry["seed"] for entry in found if entry["probe"] == "quality"} == {0, 1}
    assert not (tmp_path / "out").exists()


def test_for_people_seeds_and_variants_share_a_line(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show([own], scale="quick", seeds=3, out=tmp_path / "out", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mine, quick: How many?"
    quality = [line.split() for line in lines if "quality" in line]
    assert quality[0][:5] == ["missing", "quality", "shakespeare_characters", "seeds", "0-2"]
    assert quality[0][5:] == ["heads=1;", "heads=4"]
    assert "heads=3: attention: heads=3 does not divide dim=16" in "\n".join(lines)
    assert lines[-2].startswith("18 entries: 11 missing, 7 skipped; about ")


def test_two_files_of_one_name_are_refused(
    write_ablation: WriteAblation, tmp_path: Path, own: str
) -> None:
    (tmp_path / "other").mkdir()
    other = write_ablation(name="other/mine.py")
    with pytest.raises(SpecError, match="bear one name"):
        show([own, str(other)], scale="quick", seeds=1, out=tmp_path, as_json=True)


def test_the_places_of_a_sweep_share_a_line(
    write_ablation: WriteAblation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = "lengths=[8, 16, 32], dims=[8, 16]"
    scale = f"Scale(dim=16, depth=1, length=8, steps=4, batch=2, {sweep})"
    path = str(write_ablation(probes='["mixer_flops"]', scales=f'{{"quick": {scale}}}'))
    show([path], scale="quick", seeds=3, out=tmp_path / "out", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "mixer_flops" in line]
    assert "seed 0, length 8-32, dim 8-16" in line
    assert line.endswith("heads=1; heads=4")
    show([path], scale="quick", seeds=3, out=tmp_path / "out", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert {entry["at"] for entry in found} == {
        "length=8", "length=16 | dim=16", "length=32", "dim=8",
    }  # fmt: skip
