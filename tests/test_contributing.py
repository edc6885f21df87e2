"""Test the diffs of CONTRIBUTING.md: each is small, applies, and adds something that works."""

from __future__ import annotations

import inspect
import multiprocessing
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
_PARTS = ("mixer", "architecture", "task", "probe", "metric", "field")
_FOUND = re.findall(r"```diff\n(.*?)```", TEXT, flags=re.DOTALL)
DIFFS = dict(zip(_PARTS, _FOUND, strict=True))
OURS = ("bakeoff", "tests")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code with all diffs applied; its data are linked."""
    home = tmp_path_factory.mktemp("tree")
    for folder in ("bakeoff", "models", "suite"):
        ignored = shutil.ignore_patterns("__pycache__", "data")
        shutil.copytree(ROOT / folder, home / folder, symlinks=True, ignore=ignored)
    for folder in ("ablations", "reports"):
        (home / folder).symlink_to(ROOT / folder)
    (home / "suite/tasks/data").symlink_to(ROOT / "suite/tasks/data")
    for diff in DIFFS.values():
        done = subprocess.run(
            ["git", "apply", "-"], cwd=home, input=diff, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, f"update a diff in CONTRIBUTING.md: {done.stderr}"
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


@pytest.mark.parametrize(
    ("part", "num_files", "num_lines"),
    [("mixer", 2, 1), ("architecture", 2, 1), ("task", 2, 1), ("probe", 3, 2), ("metric", 1, 14)],
)
def test_an_addition_is_a_file_and_few_lines_elsewhere(
    part: str, num_files: int, num_lines: int
) -> None:
    """Count files, and lines in files that are there already."""
    changed = DIFFS[part].split("diff --git ")[1:]
    assert len(changed) == num_files
    others = [each for each in changed if "new file" not in each]
    assert len(others) == (1 if num_files == 1 else num_files - 1)
    lines = re.findall(r"^[+-](?![+-]).*$", "\n".join(others), flags=re.MULTILINE)
    assert len(lines) - sum(line == "+" for line in lines if num_files == 1) <= num_lines


def test_a_field_of_a_recipe_is_in_at_most_four_files() -> None:
    assert DIFFS["field"].count("diff --git ") <= 4


def finished(
    task: str,
    model: dict[str, Any],
    axis: str,
    scale: dict[str, int],
    probes: Sequence[str] = ("quality", "parameters", "flops"),
) -> list[Any]:
    """Return the trials of a planned ablation, each with its numbers by metric."""
    from bakeoff import Ablation, Model, Scale, vary
    from bakeoff.suite.execution.trial import run_trial
    from bakeoff.suite.planning.plan import plan

    ablation = Ablation(
        question="Does it work?",
        baseline=Model(**model),
        axes=[vary(axis, [0.98, 0.5] if axis == "beta2" else [4, 8])],
        tasks=[task],
        probes=list(probes),
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


def the_mixer_works() -> None:
    """Check that it trains, is an axis, and keeps the contract of every mixer."""
    from tests.models import test_every_mixer

    scale = {"dim": 8, "depth": 1, "length": 8, "batch": 4}
    finished("parity", {"mixer": "cumulative_average"}, "dim", scale)
    num_checked = 0
    for name, law in vars(test_every_mixer).items():
        if name.startswith("test_") and (cases := cases_of(law, "cumulative_average")):
            num_checked += len(cases)
            for case in cases:
                law(**case)
    assert num_checked > 40


def cases_of(law: Callable[..., None], mixer: str) -> list[dict[str, Any]]:
    """Return the arguments of a test's cases that are of the mixer."""
    found: list[dict[str, Any]] = [{}]
    for mark in getattr(law, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args[:2]
            keys = names.replace(",", " ").split() if isinstance(names, str) else names
            rows = [getattr(each, "values", each) for each in values]
            several = [row if isinstance(row, (tuple, list)) else (row,) for row in rows]
            found = [each | dict(zip(keys, row, strict=True)) for each in found for row in several]
    return [case for case in found if any(mixer == _mixer_of(value) for value in case.values())]


def _mixer_of(value: Any) -> str:
    return value if isinstance(value, str) else getattr(value, "name", "")


def the_probe_works() -> None:
    """Check the number, and that a page has a column of it."""
    from bakeoff.suite.probes.probe import PROBES
    from bakeoff.suite.schema.metrics import metric_title

    assert "body_parameters" in PROBES
    scale = {"dim": 8, "depth": 1, "length": 8, "batch": 4}
    model = {"mixer": "attention", "heads": 2}
    found = finished("parity", model, "dim", scale, ["parameters", "body_parameters"])
    numbers = [(trial.subjects[0], each) for trial, each in found]
    whole = {spec.dim: each["num_parameters"] for spec, each in numbers if "num_parameters" in each}
    body = {s.dim: e["num_body_parameters"] for s, e in numbers if "num_body_parameters" in e}
    assert {dim: whole[dim] - body[dim] for dim in whole} == {4: 2 * 4, 8: 2 * 8}
    assert metric_title("num_body_parameters") == "parameters without embeddings"


def the_metric_works() -> None:
    """Check it by hand, on two numbers."""
    from bakeoff.models import Outputs
    from bakeoff.suite.tasks.metrics import MeanAbsoluteError
    from bakeoff.suite.tasks.task import Batch

    batch = Batch(inputs={"inputs": torch.zeros(2, 1, 1)}, targets=torch.tensor([1.0, 5.0]))
    outputs = Outputs(torch.tensor([[2.0], [1.0]]))
    assert MeanAbsoluteError().over([MeanAbsoluteError().sums(outputs, batch)]) == 2.5


def the_field_works() -> None:
    """Check that it is an axis that changes the training, and not the ids of other trials."""
    scale = {"dim": 8, "depth": 1, "length": 8, "batch": 4}
    model = {"mixer": "attention", "heads": 2}
    found = finished("kernel_regression", model, "beta2", scale, ["quality"])
    assert [trial.training.beta2 for trial, _ in found] == [0.98, 0.5]
    assert len({tuple(each.values()) for _, each in found}) == 2


CHECKS = [
    the_mixer_works,
    the_architecture_works,
    the_task_works,
    the_probe_works,
    the_metric_works,
    the_field_works,
]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("check", CHECKS)
def test_an_addition_works(tree: Path, check: Callable[[], None]) -> None:
    in_a_child(tree, check)
