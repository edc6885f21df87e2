"""Test the recipes of CONTRIBUTING.md: each diff is one file and one line, and works."""

from __future__ import annotations

import inspect
import multiprocessing
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ARCHITECTURE, TASK = re.findall(r"```diff\n(.*?)```", TEXT, flags=re.DOTALL)
OURS = ("bakeoff", "tests")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code with both diffs applied; its data are linked."""
    home = tmp_path_factory.mktemp("tree")
    for folder in ("bakeoff", "models", "suite"):
        ignored = shutil.ignore_patterns("__pycache__", "data")
        shutil.copytree(ROOT / folder, home / folder, symlinks=True, ignore=ignored)
    for folder in ("ablations", "reports"):
        (home / folder).symlink_to(ROOT / folder)
    (home / "suite/tasks/data").symlink_to(ROOT / "suite/tasks/data")
    for diff in (ARCHITECTURE, TASK):
        subprocess.run(["git", "apply", "-"], cwd=home, input=diff, text=True, check=True)
    return home


def in_a_child(tree: Path, check: Callable[[], None]) -> None:
    """Run the check in a fork of this process, which has torch loaded, with that tree's code."""
    child = multiprocessing.get_context("fork").Process(target=_checked, args=(tree, check))
    child.start()
    child.join()
    assert child.exitcode == 0, "its traceback is on standard error"


def _checked(tree: Path, check: Callable[[], None]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    sys.path[:0] = [str(tree), str(ROOT)]
    torch.set_num_threads(1)
    check()
    assert Path(sys.modules["bakeoff"].__file__ or "").is_relative_to(tree)


@pytest.mark.parametrize("diff", [ARCHITECTURE, TASK], ids=["architecture", "task"])
def test_a_recipe_is_one_file_and_one_line(diff: str) -> None:
    changed = dict(re.findall(r"^--- (\S+)\n\+\+\+ b/(\S+)$", diff, flags=re.MULTILINE))
    registry = changed["/dev/null"]
    assert len(changed) == 2
    assert registry.endswith(".py")
    *_, of_registry = [part for part in diff.split("diff --git ") if "registry" in part]
    lines = [line for line in of_registry.splitlines() if re.match(r"[+-](?![+-])", line)]
    assert len(lines) == 1


def finished(task: str, model: dict[str, Any], axis: str, scale: dict[str, int]) -> list[Any]:
    """Return the trials of a planned ablation, each with its numbers by metric."""
    from bakeoff import Ablation, Model, Scale, vary
    from bakeoff.suite.execution.trial import run_trial
    from bakeoff.suite.planning.plan import plan

    ablation = Ablation(
        question="Does it work?",
        baseline=Model(**model),
        axes=[vary(axis, [4, 8])],
        tasks=[task],
        probes=["quality", "parameters", "flops"],
        scales={"quick": Scale(steps=3, **scale)},
    )
    planned, found = plan(ablation, seeds=1), []
    for trial in planned.trials:
        *_, last = run_trial(trial, planned.resources, "here")
        assert last.result.status == "ok", last.result.reason
        found.append((trial, {each.metric: each.value for each in last.result.measurements}))
    return found


def the_architecture_works() -> None:
    """Check that it trains and passes the laws of all architectures and of a user's own."""
    from bakeoff.suite.planning.examination import try_own_architecture
    from tests.models.test_architecture_laws import laws_of

    model = {"architecture": "bag_of_words"}
    found = finished("movie_reviews", model, "width", {"length": 16, "batch": 64})
    numbers = [number for _, each in found for number in each.items()]
    assert len({value for metric, value in numbers if metric == "num_parameters"}) == 3
    assert len([value for metric, value in numbers if metric == "accuracy"]) == 3
    for trial, _ in found:
        try_own_architecture(trial.subjects[0], "class", is_padded=True)
    for law in laws_of("bag_of_words"):
        law("bag_of_words")


def the_task_works() -> None:
    """Check that a model with two inputs trains on it and that it keeps every task's contract."""
    from bakeoff.suite.tasks.registry import build_task
    from tests.suite.tasks import test_contract

    scale = {"dim": 8, "depth": 1, "length": 5, "batch": 64}
    found = finished("addition", {"mixer": "attention", "heads": 4}, "heads", scale)
    assert {"exact_match", "num_parameters", "forward_flops"} <= {m for _, e in found for m in e}
    of_a_task = [
        law
        for name, law in vars(test_contract).items()
        if name.startswith("test_") and list(inspect.signature(law).parameters) == ["task"]
    ]
    assert len(of_a_task) > 10
    for law in of_a_task:
        law(build_task("addition", test_contract.LENGTH))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("check", [the_architecture_works, the_task_works])
def test_what_a_recipe_adds_works(tree: Path, check: Callable[[], None]) -> None:
    in_a_child(tree, check)
