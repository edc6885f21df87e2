"""What `bakeoff status` prints: short, plain, and nothing of a stranger's taken for markup."""

from __future__ import annotations

import io

from rich.console import Console

from suite.journal.status_message import Standing
from suite.status_text import print_standing


def printed(standing: Standing) -> str:
    out = io.StringIO()
    print_standing(standing, Console(file=out, width=40))
    return out.getvalue()


def test_a_sweep_under_way() -> None:
    assert printed(
        Standing(
            counts={"error": 1, "missing": 4, "ok": 3, "running": 1},
            running={"a": "node 1 at 10.0.0.7, process 3"},
            labels={"a": "heads=4, seed 0"},
            waiting={"num_trials": 3, "reason": "no node is free"},
            failed={"b": "error: x"},
            eta_seconds=90.0,
            throughput_per_minute=1.25,
            cpu_hours_spent=2.5,
            cpu_hours_wasted=0.5,
            cpu_hours_left=12.0,
            gpu_hours_spent=0.0,
            gpu_hours_wasted=0.0,
            gpu_hours_left=0.0,
            num_lost=2,
            lost_cpu_hours_at_most=0.25,
        )
    ).splitlines() == [
        "1 error, 4 missing, 3 ok, 1 running",
        "running heads=4, seed 0 on node 1 at 10.0.0.7, process 3",
        "3 of the missing wait for a place: no node is free",
        "failed 1: error: x (b)",
        "1.25 trials a minute lately; 1 min 30 s left",
        "2.50 CPU-hours spent, 0.50 of them on failures and retries; 12.0 still to come",
        "2 attempts were lost with a driver or node before the end: not counted, at most 0.25 "
        "CPU-hours",
    ]


def test_a_sweep_at_its_end_says_nothing_of_what_is_left() -> None:
    said = printed(
        Standing(
            counts={"ok": 3},
            eta_seconds=0.0,
            throughput_per_minute=20.0,
            cpu_hours_spent=1234.5,
            cpu_hours_wasted=0.0,
            cpu_hours_left=0.0,
            gpu_hours_spent=0.001,
            gpu_hours_wasted=0.0,
            gpu_hours_left=0.0,
        )
    )
    assert said.splitlines() == [
        "3 ok", "20 trials a minute when it last ran", "1,234.5 CPU-hours spent",
        "less than 0.01 GPU-hours spent",
    ]  # fmt: skip


def test_several_ablations_have_a_line_each() -> None:
    said = printed(
        Standing(
            counts={"ok": 3, "missing": 2, "error": 1},
            by_ablation={"heads, quick": {"ok": 3}, "my own, paper": {"missing": 2, "error": 1}},
        )
    )
    assert "  heads, quick        3 of 3 done\n" in said
    assert "  my own, paper       0 of 3 done; 1 error\n" in said


def test_failures_are_grouped_by_their_reason() -> None:
    failed = {f"t{k}": f"timeout: it took {k}.5 seconds" for k in range(500)}
    failed |= {"u": "error: it raised"}
    lines = printed(Standing(counts={"timeout": 500, "error": 1}, failed=failed)).splitlines()
    assert lines[1:] == [
        "failed 500: timeout: it took 0.5 seconds (t0; t1; t2; and 497 more)",
        "failed 1: error: it raised (u)",
    ]


def test_many_reasons_are_cut_and_counted() -> None:
    failed = {f"t{k}": f"error: {'x' * k}" for k in range(50)}
    lines = printed(Standing(counts={"error": 50}, failed=failed)).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "failed 40: for 40 other reasons; --json tells them all"


def test_many_places_are_told_by_node() -> None:
    running = {f"t{k}": f"node {k % 2} at h, process {k}" for k in range(20)}
    lines = printed(Standing(counts={"running": 20}, running=running)).splitlines()
    assert lines[1] == "running 10 on node 0 at h: t0; t2; t4; and 7 more"
    assert lines[2].startswith("running 10 on node 1 at h: ")


def test_nothing_of_a_strangers_is_markup_or_a_control_code() -> None:
    said = printed(
        Standing(
            counts={"error": 1},
            failed={"t": "error: [red]x[/red]\x1b[31m\nnext"},
            labels={"t": ":smile: \u202e"},
        )
    )
    assert "[red]x[/red]\\x1b[31m\\nnext (:smile: \\u202e)" in said
    assert "\x1b" not in said
