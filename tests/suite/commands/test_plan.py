"""Tests for `bakeoff plan`: a table for people, and one JSON object per trial for programs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bakeoff.suite.commands.plan as plan_command
from bakeoff.suite.commands.plan import Asked, TrialState, count_states, show, trial_states
from bakeoff.suite.errors import UsageError
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Plan, Result, Status, Trial
from bakeoff.suite.spec import vary
from tests.suite.finished_sweep import FinishedSweep
from tests.suite.small_ablation import WriteAblation, make_ablation

FIELDS = [
    "trial_id",
    "ablation",
    "scale",
    "variant",
    "seed",
    "task",
    "probe",
    "state",
    "reason",
    "at",
    "steps",
    "num_steps",
    "training_flops",
    "num_parameters",
]


@pytest.fixture
def own(write_ablation: WriteAblation) -> str:
    return str(write_ablation(axes='[vary("heads", [1, 3, 4])]'))


def test_for_programs_there_is_one_object_a_trial(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Asked([own, own], "quick", 2), tmp_path / "out", as_json=True)
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
    show(Asked([own], "quick", 3), tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mine, quick: How many?"
    quality = [line.split() for line in lines if "quality" in line]
    assert quality[0][:5] == ["missing", "quality", "shakespeare_characters", "seeds", "0-2"]
    assert quality[0][5:] == ["heads=1;", "heads=4"]
    assert "heads=3: attention: heads=3 does not divide dim=16" in "\n".join(lines)
    assert lines[-2].startswith("18 trials: 11 missing, 7 skipped; estimate: about ")


def test_what_a_training_takes_is_shown_where_another_budget_than_steps_is_equal(
    write_ablation: WriteAblation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = str(write_ablation(axes='[vary("mixer", ["attention", "lstm"])]'))
    sizes = ["dim=64", "steps=1000", "length=64", "batch=16"]
    show(Asked([own], "quick", 2, [*sizes, "equal=flops"]), tmp_path / "out")
    said = capsys.readouterr().out
    assert "  shakespeare_characters, mixer=attention: 1,000 steps, " in said
    lines = [line.split(": ") for line in said.splitlines() if "GFLOP" in line]
    assert [name.strip() for name, _ in lines] == [
        "shakespeare_characters, mixer=attention",
        "shakespeare_characters, mixer=lstm",
    ]
    show(Asked([own], "quick", 2, [*sizes, "equal=flops"]), tmp_path / "out", as_json=True)
    trainings = [s for s in json.loads(capsys.readouterr().out) if s["probe"] == "quality"]
    steps = [entry["num_steps"] for entry in trainings]
    assert steps[:2] == [1_000, 1_000]
    assert steps[2] == steps[3] < 1_000
    assert lines[1][1].startswith(f"{steps[2]} steps, ")
    flops = trainings[0]["training_flops"]
    assert [entry["training_flops"] for entry in trainings] == [pytest.approx(flops, rel=0.01)] * 4
    assert all(entry["num_parameters"] for entry in trainings)
    show(Asked([own], "quick", 2, sizes), tmp_path / "out")
    assert "1,000 steps" not in capsys.readouterr().out


def test_on_a_narrow_terminal_variants_have_a_line_of_their_own(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(Asked([own], "quick", 3), tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("  missing, quality, shakespeare_characters, seeds 0-2")
    assert lines[first + 1] == "    heads=1; heads=4"
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(("settings", "num"), [([], 2), (["gpus=0.25"], 1)])
def test_a_price_is_of_all_cores_or_of_the_card_for_as_long(
    own: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    settings: list[str],
    num: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_command, "num_cpus", lambda: 2)
    monkeypatch.setattr(plan_command, "_seconds", lambda *_: 1800.0)
    show(Asked([own], "quick", 3, settings), tmp_path / "out", card="h100", price="2.50 USD")
    said = capsys.readouterr().out
    assert f"; estimate: about 30 min 0 s and {num * 1.25:.2f} USD to run on {num} " in said


def test_the_places_of_a_sweep_share_a_line(
    write_ablation: WriteAblation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = "lengths=[8, 16, 32], dims=[8, 16]"
    scale = f"Scale(dim=16, depth=1, length=8, steps=4, batch=2, {sweep})"
    path = str(write_ablation(probes='["mixer_flops"]', scales=f'{{"quick": {scale}}}'))
    show(Asked([path], "quick", 3), tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "mixer_flops" in line]
    assert "seed 0, length 8-32, dim 8-16" in line
    assert line.endswith("heads=1; heads=4")
    show(Asked([path], "quick", 3), tmp_path / "out", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert {entry["at"] for entry in found} == {
        "length=8",
        "length=16 | dim=16",
        "length=32",
        "dim=8",
    }


@pytest.fixture(scope="module")
def planned() -> Plan:
    axes = [vary("heads", [1, 3, 4])]
    return plan(make_ablation(axes=axes, probes=["quality", "step_time"]), seeds=2)


def _commit(
    out: Path, plan: Plan, trial: Trial, status: Status, reason: str = "", **more: Any
) -> None:
    result = Result(
        trial_id=trial.trial_id,
        status=status,
        provenance=provenance(plan.resources),
        reason=reason,
        **{"seconds": 1.0} | more,
    )
    with Journal(out / "journal.db") as journal:
        journal.commit(result, journal.begin(trial.trial_id, "here"))


def _of(states: list[TrialState], trial: Trial) -> TrialState:
    (found,) = [state for state in states if state.trial_id == trial.trial_id]
    return found


def test_without_a_journal_all_is_missing_or_skipped(planned: Plan, tmp_path: Path) -> None:
    states = trial_states(planned, tmp_path / "nothing")
    assert count_states(states) == {"missing": 6, "skipped": 4}
    assert not (tmp_path / "nothing").exists()
    skipped = [state for state in states if state.state == "skipped"]
    assert {state.variant for state in skipped} == {"heads=3"}
    assert {state.reason for state in skipped} == {"attention: heads=3 does not divide dim=16"}


def test_a_comparison_is_one_entry_that_names_its_variants(planned: Plan, tmp_path: Path) -> None:
    timings = [s for s in trial_states(planned, tmp_path) if s.probe == "step_time"]
    assert [s.variant for s in timings if s.state == "missing"] == ["heads=1 | heads=4"] * 2


@pytest.mark.parametrize("status", list(Status))
def test_a_finding_is_done_and_a_failure_is_failed(
    status: Status, planned: Plan, tmp_path: Path
) -> None:
    trial = planned.trials[0]
    _commit(tmp_path, planned, trial, status, "because")
    state = _of(trial_states(planned, tmp_path), trial)
    if status in (Status.TIMEOUT, Status.CRASHED, Status.ERROR):
        assert (state.state, state.reason) == ("failed", f"{status.value}: because")
    else:
        assert (state.state, state.reason) == ("done", "")


def test_a_timing_from_elsewhere_is_missing_here(planned: Plan, tmp_path: Path) -> None:
    timing = next(trial for trial in planned.trials if trial.probe == "step_time")
    elsewhere = replace(planned, resources=replace(planned.resources, num_threads=7))
    _commit(tmp_path, elsewhere, timing, Status.OK)
    assert _of(trial_states(planned, tmp_path), timing).state == "missing"
    assert _of(trial_states(elsewhere, tmp_path), timing).state == "done"


def test_reading_changes_nothing(planned: Plan, tmp_path: Path) -> None:
    _commit(tmp_path, planned, planned.trials[0], Status.OK)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    trial_states(planned, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_name_that_is_too_long_has_no_journal(planned: Plan) -> None:
    assert count_states(trial_states(planned, Path("a" * 300)))["missing"] == 6


def _uneven(trial: Trial, result: Result) -> Result:
    """Return a result in which the score of one head varies with the seed."""
    (found,) = result.measurements
    more = 0.01 * trial.seed**2 if trial.subjects[0].knobs["heads"] == 1 else 0.0
    return replace(result, measurements=(replace(found, value=(found.value or 0.0) + more),))


def test_the_smallest_effect_that_the_seeds_can_find_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimate it from the same edition with fewer seeds, and from an earlier edition."""
    earlier = FinishedSweep("heads")
    with Journal(tmp_path / "journal.db") as journal:
        journal.keep_plan(earlier.plan)
        for trial in earlier.plan.trials:
            result = _uneven(trial, earlier.result(trial))
            journal.commit(result, journal.begin(trial.trial_id, "here"))
    for planned in (FinishedSweep("heads", num_seeds=9), FinishedSweep("heads", steps=30)):
        monkeypatch.setattr(plan_command, "plans_of", lambda *_, p=planned, **__: [p.plan])
        show(Asked([], "quick", None), tmp_path)
        said = capsys.readouterr().out
        assert f"{planned.num_seeds} seeds detect a difference of " in said
        assert "given the spread of 3 earlier pairs" in said


@pytest.mark.parametrize("as_json", [False, True])
def test_a_card_or_a_price_that_is_none_is_refused(own: str, tmp_path: Path, as_json: bool) -> None:
    for wrong in ({"card": "h10"}, {"price": "cheap"}):
        with pytest.raises(UsageError):
            show(Asked([own], "quick", 1), tmp_path, as_json=as_json, **wrong)


def test_the_estimate_follows_the_trials_that_have_run_here(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(card: str | None = None) -> str:
        show(Asked([own], "quick", 2), tmp_path, card=card)
        return capsys.readouterr().out

    assert " h" not in said().partition("estimate: about ")[2].partition(" to run")[0]
    planned = plan(own, seeds=2)
    of_quality = next(trial for trial in planned.trials if trial.probe == "quality")
    _commit(tmp_path, planned, of_quality, Status.OK, seconds=7200.0)
    assert " h" in said().partition("estimate: about ")[2].partition(" to run")[0]
    assert " h" not in said("h100").partition("estimate: about ")[2].partition(" to run")[0]


def test_once_trainings_ran_on_a_gpu_it_says_which_share_holds_one(
    write_ablation: WriteAblation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scale = "Scale(dim=16, depth=1, length=8, steps=4, batch=2, gpus=0.5)"
    path = str(write_ablation(probes='["quality"]', scales=f'{{"quick": {scale}}}'))

    def said(card: str) -> str:
        show(Asked([path], "quick", 1), tmp_path, card=card)
        return capsys.readouterr().out

    assert "2 trainings share one" in said("h100")
    assert "took at most" not in said("h100")
    shared = plan(path, seeds=1)
    for trial, gib in zip(shared.trials, (1, 3), strict=True):
        _commit(tmp_path, shared, trial, Status.OK, gpu_bytes=gib * 2**30)
    sentence = "trainings took at most 3 GiB of a GPU: gpus={} holds one of them on {}; planned"
    assert sentence.format(0.0625, "H100 SXM") in said("h100")
    assert sentence.format(0.25, "L4") in said("l4")


def test_it_says_how_training_steps_run_on_a_gpu(
    write_ablation: WriteAblation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = '[vary("mixer", ["performer", "attention"]), vary("steps", [100_000_000])]'
    scale = "Scale(dim=16, depth=1, length=8, steps=4, batch=2, gpus={})"
    path = str(
        write_ablation(
            baseline='Model(mixer="attention")',
            axes=axes,
            probes='["quality"]',
            scales=f'{{"quick": {scale.format(1.0)}, "smoke": {scale.format(0)}}}',
        )
    )
    show(Asked([path], "quick", 1), tmp_path)
    line = next(x for x in capsys.readouterr().out.splitlines() if "steps on a GPU" in x)
    assert "1 training each one CUDA graph (compiling takes about" in line
    assert "1 training compiled; each one CUDA graph" in line
    assert "1 training eagerly: Performer draws random numbers during training" in line
    show(Asked([path], "quick", 1), tmp_path, as_json=True)
    by_variant = {each["variant"]: each["steps"] for each in json.loads(capsys.readouterr().out)}
    assert by_variant["steps=100000000"] == "compiled; each one CUDA graph"
    show(Asked([path], "smoke", 1), tmp_path)
    assert "steps on a GPU" not in capsys.readouterr().out


def test_a_data_set_that_has_to_be_fetched_is_named_with_its_command(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_command, "is_absent", lambda source: True)
    show(Asked([own], "quick", 1), tmp_path / "out")
    said = capsys.readouterr().out
    assert (
        "the data set shakespeare is not downloaded yet; run `bakeoff data fetch shakespeare`"
        in said
    )
