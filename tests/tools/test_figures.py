"""Test the harness of `make chaos`: totals of figures, broken promises, processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bakeoff.suite.planning.plan import plan
from tools.chaos import arena, week
from tools.chaos.__main__ import SCENARIOS, text
from tools.chaos.arena import (
    MARK,
    TIMED_OUT,
    count_orphans,
    marked,
    orphans,
    prove_each,
    wait,
    wait_until,
)
from tools.chaos.checkpoints import Damage, damages_of
from tools.chaos.disk import is_said_plainly
from tools.chaos.faults import STEPS
from tools.chaos.figures import HEAD, Figures, Scale, markdown, plain, rows, total
from tools.chaos.points import crashes_of
from tools.chaos.trials import WANTED, differences

KEPT = Figures(
    faults=Counter({"driver killed": 2}),
    num_submitted=4,
    num_acknowledged=4,
    num_resumed=1,
    num_resumed_equal=1,
    num_repeated=4,
    recovery_seconds=(1.0, 3.0),
    safety_seconds=0.2,
    safety_of_seconds=20.0,
)


def test_figures_add_up() -> None:
    both = total([KEPT, KEPT])
    assert (both.num_submitted, both.faults["driver killed"]) == (8, 4)
    assert both.recovery_seconds == (1.0, 3.0, 1.0, 3.0)
    assert both.share_of_safety == pytest.approx(0.01)


def test_where_all_is_kept_nothing_is_broken() -> None:
    assert KEPT.broken_promises() == []


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Figures(num_lost=1), "1 results lost"),
        (Figures(num_doubled=2), "2 results doubled"),
        (Figures(num_alarms=3), "3 determinism alarms"),
        (Figures(num_orphans=4), "4 orphans"),
        (Figures(num_resumed=3, num_resumed_equal=1), "2 resumed trials that differ"),
        (Figures(safety_seconds=0.7, safety_of_seconds=20.0), "3.5% of the time"),
        (Figures(problems=("it hung",)), "it hung"),
    ],
    ids=lambda value: value.split()[1] if isinstance(value, str) else "",
)
def test_each_promise_can_be_broken(broken: Figures, sentence: str) -> None:
    (found,) = broken.broken_promises()
    assert found.startswith(sentence)


def test_the_table_has_a_row_for_each_scenario_and_one_for_all() -> None:
    found = rows({"a": KEPT, "b": Figures(num_lost=1)})
    assert [row[0] for row in found] == ["a", "b", "all"]
    assert [row[HEAD.index("lost")] for row in found] == ["0", "1", "1"]
    assert found[0][HEAD.index("resumed equal")] == "1 of 1"
    assert [row[-2] for row in found] == ["1.0 / 3.0 / 3.0 s", "", "1.0 / 3.0 / 3.0 s"]
    assert {len(row) for row in found} == {len(HEAD)}
    assert len(plain({"a": KEPT}).splitlines()) == 3
    assert "Faults: driver killed 2." in markdown({"a": KEPT})


def test_the_text_of_the_document_names_commit_time_and_machine() -> None:
    found = text({"a": KEPT}, Scale.SHORT, 3.0)
    assert re.search(r"Measured at commit \S+ in 3 minutes, the short form, on \d+ cores", found)


def _prove(number: int) -> Figures:
    if number == 3:
        raise RuntimeError("no")
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return Figures(num_submitted=number)


def test_figures_of_items_add_up_and_a_check_that_fails_is_a_problem() -> None:
    found = prove_each([1, 2, 3, 4], _prove)
    assert found.num_submitted == 7
    assert found.problems == ("3: the check itself failed: RuntimeError('no')",)


def test_a_process_of_checks_that_dies_is_a_problem() -> None:
    (problem,) = prove_each([5], _prove).problems
    assert problem.startswith("5: the check itself failed: BrokenProcessPool")


@pytest.mark.parametrize(("seconds", "limit", "code"), [("0", 30, 0), ("100", 0.1, TIMED_OUT)])
def test_a_process_is_killed_at_its_limit(seconds: str, limit: float, code: int) -> None:
    run = subprocess.Popen(["sleep", seconds], start_new_session=True)
    assert wait(run, limit) == code
    assert run.poll() is not None


def test_what_never_comes_is_waited_for_until_the_limit() -> None:
    assert wait_until(lambda: True, "this", limit_seconds=0.0) >= 0.0
    with pytest.raises(TimeoutError, match="that: not within 0 s"):
        wait_until(lambda: False, "that", limit_seconds=0.0)


def test_what_is_left_is_found_by_its_mark_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    left = subprocess.Popen(["sleep", "100"], env={**os.environ, MARK: "test-of-a-mark"})
    try:
        assert list(marked("test-of-a-mark")) == [left.pid]
        assert marked("test-of-a-mar") == {}
        assert orphans("test-of-a-mark", limit_seconds=0.0) == {left.pid: "sleep 100"}
        monkeypatch.setattr(arena, "orphans", marked)
        found = count_orphans("test-of-a-mark")
        assert (found.num_orphans, found.problems) == (1, ("left behind: sleep 100",))
        assert left.wait(timeout=10) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()
    assert orphans("test-of-a-mark") == {}


def test_every_step_that_is_taken_is_a_crash() -> None:
    step, other = list(STEPS)[:2]
    crashes = crashes_of(Counter({step: 5}), Counter({step: 9, other: 1}), Scale.FULL)
    assert [str(crash) for crash in crashes] == [f"after '{step}' (3)", f"after '{other}' (1)"]
    assert [crash.has_store for crash in crashes] == [True, False]
    assert len(crashes_of(Counter({step: 5}), Counter(), Scale.LONG)) == 6


def test_a_damage_changes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    Damage("file", 0.5, is_cut=False).do(file)
    flipped = file.read_bytes()
    assert sum(bin(byte).count("1") for byte in flipped) == 1
    Damage("file", 0.3, is_cut=True).do(file)
    assert len(file.read_bytes()) == 30


def test_every_file_is_cut_and_flipped_and_damaged_in_both() -> None:
    damages = damages_of(["a", "b"], num_cuts=2, num_flips=4)
    alone = [damage for damage in damages if not damage.is_by_command]
    assert Counter((one.file, one.is_cut, one.num_generations) for one in alone) == {
        ("a", True, 1): 2,
        ("b", True, 1): 2,
        ("a", False, 1): 2,
        ("b", False, 1): 2,
        ("a", False, 2): 1,
        ("b", False, 2): 1,
    }


def test_a_wrong_class_and_too_many_attempts_are_seen() -> None:
    found = {name: status for name, (status, _) in WANTED.items()}
    starts = Counter({name: most for name, (_, most) in WANTED.items()})
    assert differences(found, starts) == []
    assert differences(found | {"Hangs": "crashed"}, starts) == [
        "Hangs is called crashed, not timeout"
    ]
    assert differences(found, starts + Counter({"Good": 1})) == [
        "Good was started 2 times, at most 1 are allowed"
    ]
    assert differences(found, starts - Counter({"Poison": 1})) == [
        "Poison was tried 2 times, not 3"
    ]


@pytest.mark.parametrize(
    ("said", "is_plain"),
    [
        ("bakeoff: out/journal.db: the journal cannot be used: database or disk is full.", True),
        ("--out out: cannot be made: No space left on device.", True),
        ("bakeoff: it did not work", False),
    ],
    ids=["sqlite", "kernel", "neither"],
)
def test_a_full_disk_is_said(said: str, is_plain: bool) -> None:
    assert is_said_plainly(said) is is_plain


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_is_a_file(name: str) -> None:
    folder = Path(arena.__file__).parent
    assert (
        "def prove(scale: Scale, folder: Path) -> Figures:" in (folder / f"{name}.py").read_text()
    )


FILES = ["model.safetensors", "moments.safetensors", "rates.json", "worker-0.json"]


@pytest.mark.parametrize(("num_cuts", "num_flips"), [(1, 6), (10, 100), (10, 1_000)])
def test_no_two_damages_have_one_name(num_cuts: int, num_flips: int) -> None:
    names = Counter(map(str, damages_of(FILES, num_cuts, num_flips)))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "num_trials"), [("one", 1), ("resumable", 2), ("many", 200), ("long", 1)]
)
def test_the_ablations_for_faults_can_be_planned(
    name: str, num_trials: int, tmp_path: Path
) -> None:
    assert len(plan(str(arena.ablation(tmp_path / "new", name))).trials) == num_trials


@pytest.mark.parametrize("number", range(len(week.EDITIONS)))
def test_the_editions_of_the_week_can_be_planned(number: int, tmp_path: Path) -> None:
    file = week.Week(folder=tmp_path, server="")._write(week.EDITIONS[number], "own")
    assert plan(str(file)).trials
