"""Test files with several ablations: each is found, planned and recorded under its own name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import bakeoff
from bakeoff.suite import cli
from bakeoff.suite.cluster.code_bundle import bundle_code
from bakeoff.suite.cluster.job_spec import JobSpec
from bakeoff.suite.cluster.jobs import Job
from bakeoff.suite.journal.editions import bare_json, edition_sha256
from bakeoff.suite.planning.loader import find, find_all, recorded_as
from bakeoff.suite.planning.own_modules import source_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import SpecError
from tests.suite.small_ablation import WriteAblation, make_ablation

pytestmark = pytest.mark.whole

SEVERAL = '''"""Two questions about one small model."""
from bakeoff import Ablation, Model, Scale, vary

_SHARED = Ablation(
    question="How many?",
    baseline=Model(mixer="attention", heads=4),
    axes=[vary("heads", [1, 4])],
    tasks=["parity"],
    probes=["quality"],
    scales={"quick": Scale(dim=16, depth=1, length=8, steps=4, batch=500, seeds=1)},
)
HEADS = _SHARED.model_copy(update={"name": "own_heads"})
ALIAS = HEADS
RATES = Ablation(**{**dict(_SHARED), "name": "own_rates", "axes": [vary("dim", [8, 16])]})
'''


@pytest.fixture
def several(write_ablation: WriteAblation) -> Path:
    return write_ablation(SEVERAL)


def test_a_file_gives_each_of_its_ablations(several: Path) -> None:
    entries = find_all([str(several), f"{several}::own_rates"])
    assert [entry.name for entry in entries] == ["own_heads", "own_rates"]
    assert {entry.note for entry in entries} == {"Two questions about one small model."}
    assert find(f"{several}::own_rates").ablation.axes[0].name == "dim"


def test_one_of_them_may_have_the_name_of_the_file(write_ablation: WriteAblation) -> None:
    path = write_ablation(SEVERAL.replace('"own_rates"', '"mine"'))
    assert plan(f"{path}::mine").about.regenerate == "bakeoff run mine.py::mine --scale quick"


def test_a_single_one_may_have_a_name_of_its_own(write_ablation: WriteAblation) -> None:
    path = write_ablation(SEVERAL.partition("ALIAS")[0])
    assert find(str(path)).name == "own_heads"
    assert recorded_as([str(path)]) == {"own_heads": path}


def test_the_trials_are_those_of_a_file_with_one(
    several: Path, write_ablation: WriteAblation
) -> None:
    one = write_ablation(
        SEVERAL.partition("HEADS")[0].replace("_SHARED", "ABLATION"), name="own_heads.py"
    )
    alone, shared = plan(str(one)), plan(f"{several}::own_heads")
    assert [each.trial_id for each in alone.trials] == [each.trial_id for each in shared.trials]
    assert edition_sha256(alone) == edition_sha256(shared)
    assert alone.key == shared.key
    assert "shared_module" not in json.loads(bare_json(alone))  # ids stay
    assert (alone.own_module, shared.own_module) == ("own_heads", "mine")
    assert source_of(shared)["mine.py"] == SEVERAL


def test_a_cluster_runs_the_same_one(several: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    plans = [plan(f"{several}::{name}") for name in ("own_heads", "own_rates")]
    bundle = bundle_code(plans, tmp_path / "bundle")
    assert set(bundle.sizes()) == {"mine.py"}
    assert bundle.names == ("mine.py::own_heads", "mine.py::own_rates")
    for name, each in zip(bundle.names, plans, strict=True):
        assert plan(str(tmp_path / "bundle" / name)).trials == each.trials
    spec = JobSpec(
        names=bundle.names, scale="quick", seeds=1, out=Path("out"), tracking_uri=None, trial_ids=()
    )
    assert spec.first_id.startswith("bakeoff-own_heads-own_rates-quick-")
    job = Job(
        submission_id=spec.first_id,
        status="RUNNING",
        message="",
        names=" ".join(bundle.names),
        scale="quick",
        out="~/out",
        start_seconds=0.0,
        exit_code=None,
    )
    assert all(map(job.is_called, ("own_rates", "mine.py", "mine.py::own_heads", spec.first_id)))
    assert not job.is_called("mine.py::own_width")


REFUSED = {
    "two of one name": (SEVERAL.replace("own_rates", "own_heads"), "given to two ablations"),
    "a shipped one's name": (SEVERAL.replace("own_rates", "size"), "'size' is a shipped ablation"),
    "all": (SEVERAL.replace("own_rates", "all"), "'all' means every shipped ablation"),
    "one without a name": (SEVERAL.replace("_SHARED", "FIRST"), "FIRST has no name; give it"),
    "none": (SEVERAL.partition("HEADS")[0], "named ABLATION; this file contains no Ablation"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_clash_is_told_in_one_sentence(case: str, write_ablation: WriteAblation) -> None:
    source, fragment = REFUSED[case]
    path = write_ablation(source)
    with pytest.raises(SpecError) as caught:
        find_all([str(path)])
    assert str(caught.value).startswith(f"{path}: ")
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_one_is_answered_with_the_nearest(several: Path) -> None:
    with pytest.raises(SpecError, match="did you mean 'own_heads'"):
        find_all([f"{several}::own_head"])
    with pytest.raises(SpecError, match=f"choose one, as {several}::own_heads"):
        bakeoff.plan(str(several))


def test_two_files_with_one_name_in_both_are_refused(
    several: Path, write_ablation: WriteAblation
) -> None:
    other = write_ablation(SEVERAL, name="mine_too.py")
    with pytest.raises(SpecError, match="both have an ablation 'own_heads'; rename one"):
        find_all([str(several), str(other)])


@pytest.mark.usefixtures("fast_sweeps")
def test_they_run_and_every_command_knows_their_names(
    several: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(several.parent)

    def called(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["bakeoff", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert not ended.value.code, said
        return said.out

    for name in ("own_heads", "own_rates"):
        assert name in called("plan", "mine.py")
    outcome = bakeoff.run("mine.py", executor="inline")
    pages = {page.parent.name: page.read_bytes() for page in outcome.reports if page.parent.name}
    assert {"own_heads", "own_rates"} <= pages.keys()
    assert bakeoff.run("mine.py::own_rates", executor="inline").num_run == 0
    assert called("verify", "mine.py").endswith("journal, store and reports agree\n")
    assert "own_heads/index.html" in called("report", "mine.py::own_heads")
    reported = called("report", "mine.py")
    assert all(f"{name}/index.html" in reported for name in ("own_heads", "own_rates"))
    assert (several.parent / "out/reports/own_heads/index.html").read_bytes() == pages["own_heads"]
    assert "--scale quick" in (several.parent / "out/reports/own_heads/report.md").read_text()


def test_a_list_from_python_is_planned_as_its_ablations(tmp_path: Path) -> None:
    both = [make_ablation(name="own_a"), make_ablation(name="own_a", tasks=["parity"])]
    with pytest.raises(SpecError, match="two ablations are called 'own_a'"):
        bakeoff.run(both, out=tmp_path / "out", executor="inline")
    with pytest.raises(SpecError, match="3 is not an ablation"):
        bakeoff.run([make_ablation(), 3], out=tmp_path / "out", executor="inline")  # type: ignore[list-item]


def test_the_names_of_a_broken_file_are_those_of_a_file_with_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def f(:")
    assert recorded_as([str(path), "heads", "gone.py"]) == {
        "mine": path,
        "heads": None,
        "gone": None,
    }
