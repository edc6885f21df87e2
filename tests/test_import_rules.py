"""Which room may import what, held over the syntax tree; and what the first moments may load."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ablations
import models
import reports
import suite
from models import ARCHITECTURES

ROOT = Path(suite.__file__).parents[1]
ROOMS = ("suite", "models", "ablations", "reports")
OURS = frozenset(ROOMS)
FILES = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
HEAVY = (
    "torch",
    "ray",
    "mlflow",
    "pandas",
    "numpy",
    "scipy",
    "matplotlib",
    "pyarrow",
    "deepspeed",
    "sacrebleu",
)
# The parameters of a command are its options; Typer reads them from the signature.
# Called with options by name, by people.
COMMANDS = frozenset(
    {
        ("suite/cli.py", "plan"),
        ("suite/cli.py", "run"),
        ("suite/cli.py", "submit"),
        ("suite/execution/run_task.py", "run_task"),
    }
)
MOST_PARAMETERS = 7

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), filename=str(file))


def _imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported anywhere in it, dotted; `from a import b` gives a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "import_module",
            "importlib.import_module",
            "__import__",
        ):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value


@cache
def _packages(file: Path) -> set[str]:
    return {name.partition(".")[0] for name in _imported(_tree(file))}


def _of(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def test_the_four_packages_are_ours() -> None:
    for room, package in zip(ROOMS, (suite, models, ablations, reports), strict=True):
        assert package.__file__ == str(ROOT / room / "__init__.py")
    assert (ROOT / "pyproject.toml").is_file()
    assert len(FILES) > 50


def test_ablations_import_the_specification_only() -> None:
    for file in _of("ablations"):
        assert _packages(file) <= {"suite"}, file
        of_suite = {name.split(".")[1] for name in _imported(_tree(file)) if "." in name}
        public = {"spec", "Ablation", "Claim", "Model", "Recipe", "Scale", "ScalingLaw", "vary"}
        assert of_suite <= public, file


def test_models_import_nothing_of_ours_and_torch_alone() -> None:
    allowed = sys.stdlib_module_names | {"models", "torch"}
    for file in _of("models"):
        assert _packages(file) <= allowed, file


def test_reports_import_the_schema_only() -> None:
    for file in _of("reports"):
        ours = {name for name in _imported(_tree(file)) if name.partition(".")[0] in OURS}
        foreign = {name for name in ours if name.partition(".")[0] != "reports"}
        assert all(name.startswith("suite.schema") for name in foreign), (file, foreign)
        assert not _packages(file) & {"ray", "mlflow", "torch", "deepspeed"}, file


def _said(file: Path) -> Iterator[str]:
    """Words of a file's strings; no docstrings, and no task's default."""
    spared = {node.value for node in ast.walk(_tree(file)) if isinstance(node, ast.Expr)}
    if _name(file).startswith("suite/tasks/"):
        kinds = (node for node in ast.walk(_tree(file)) if isinstance(node, ast.ClassDef))
        assigned = (node for kind in kinds for node in kind.body if isinstance(node, ast.Assign))
        spared |= {node.value for node in assigned if _targets(node) == ["architecture"]}
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in spared:
            yield from re.findall(r"\w+", node.value)


def _targets(node: ast.Assign) -> list[str]:
    return [ast.unparse(target) for target in node.targets]


def _kinds_asked_for(file: Path) -> Iterator[str]:
    """The classes in each `isinstance`, `issubclass` and `case Class()`."""
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            yield from re.findall(r"\w+", ast.unparse(node.args[1]))
        elif isinstance(node, ast.MatchClass):
            yield ast.unparse(node.cls)


def test_nothing_but_models_knows_an_architecture() -> None:
    """So that a new one is a file and a line. A task may name the one that it takes by default.

    The mixer alone is none of them: it serves no task, and is what some probes measure.
    """
    homes = {home.split(":")[0] for home in ARCHITECTURES.values()}
    names = {*ARCHITECTURES, *(home.split(":")[1] for home in ARCHITECTURES.values())}
    files = [ROOT / "models" / "architecture.py", *_of("models/architectures")]
    classes = (
        node for file in files for node in _tree(file).body if isinstance(node, ast.ClassDef)
    )
    kinds = {node.name for node in classes}
    assert {"Architecture", "StackArchitecture", "ViT", "MixerAlone"} < kinds
    for file in (*_of("suite"), *_of("reports")):
        assert not homes & set(_imported(_tree(file))), file
        assert not names & set(_said(file)), file
        assert not kinds & set(_kinds_asked_for(file)), file


@pytest.mark.parametrize(
    ("package", "home"),
    [
        ("ray", "suite/cluster/"),
        ("mlflow", "suite/tracking/"),
        ("ablations", "ablations/"),
        ("deepspeed", "suite/training/engines/sharded.py"),
    ],
)
def test_a_package_is_imported_in_its_home_only(package: str, home: str) -> None:
    importers = {_name(file) for file in FILES if package in _packages(file)}
    assert importers or package == "ablations"
    assert all(name.startswith(home) for name in importers), importers


def test_the_private_parts_of_ray_are_imported_by_one_file() -> None:
    private = ("ray._private", "ray.core")
    assert {
        _name(file)
        for file in _of("suite")
        if any(name.startswith(private) for name in _imported(_tree(file)))
    } == {"suite/cluster/ray_private.py"}


def test_the_commands_import_light_things_at_the_top() -> None:
    top = [node for node in _tree(ROOT / "suite" / "cli.py").body if not isinstance(node, Function)]
    imported = {name for node in top for name in _imported(node)}
    ours = {name for name in imported if name.startswith("suite") and name.count(".") == 1}
    assert ours <= {"suite.errors", "suite.terminal"}
    packages = {name.partition(".")[0] for name in imported}
    assert packages <= sys.stdlib_module_names | {"suite", "typer"}


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_a_file_has_a_note_and_a_name_that_says_something(file: Path) -> None:
    assert ast.get_docstring(_tree(file))
    assert not {"utils", "util", "helpers", "helper", "common", "misc", "core"} & {
        *file.relative_to(ROOT).parent.parts,
        file.stem,
    }


def test_no_function_has_more_parameters_than_can_be_held_in_mind() -> None:
    assert {
        f"{_name(file)}:{node.lineno} {node.name}": count
        for file in FILES
        for node in ast.walk(_tree(file))
        if isinstance(node, Function)
        and (count := _num_parameters(node)) > MOST_PARAMETERS
        and (_name(file), node.name) not in COMMANDS
    } == {}


def _num_parameters(node: Function) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in given)


LOADED = """
import sys
{code}
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


@pytest.mark.parametrize(
    "code",
    [
        "import suite, models, reports, ablations\n"
        "list(models.MIXERS); models.ModelSpec; models.ModelError",
        "sys.argv = ['bakeoff', '--help']\ntry: __import__('suite.cli').cli.main()\n"
        "except SystemExit as end: assert not end.code, end.code",
        "import suite.spec, suite.schema, suite.planning.loader, suite.sweep.folder_lock\n"
        "import suite.commands.status",
        "from suite import Ablation, Claim, Model, Scale, vary",
    ],
    ids=["import suite", "bakeoff --help", "specification and schema", "the public words"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(code=code)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(done.stdout.splitlines()[-1].split()) & set(HEAVY)


TRIAL = """
import sys
from pathlib import Path
from suite.planning.plan import plan
sizes = {"dim": 8, "depth": 1, "heads": 1, "length": 4, "batch": 500, "steps": 2}
others = {"num_evaluations": 1, "task": "parity", "probes": ["quality"], "claim": None}
planned = plan("size", seeds=1, settings={**sizes, **others})
from suite.events import Checkpoints, ExecutorSettings
from suite.execution.inline import InlineExecutor
executor = InlineExecutor(ExecutorSettings(checkpoints=Checkpoints(folder=Path(sys.argv[1]))))
*_, last = executor.execute([(planned.trials[0], planned.resources)])
assert last.result.status == "ok", last.result.reason
for module in list(sys.modules.values()):
    print(module.__name__, getattr(module, "__file__", ""))
"""


def test_one_trial_loads_nothing_that_only_a_sweep_or_a_store_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRIAL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert "suite.execution.trial" in loaded
    assert not {"sacrebleu", "ray", "mlflow", "pandas", "deepspeed"} & loaded.keys()


def test_an_address_is_checked_without_ray() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(code="import suite.cluster.address")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"ray", "mlflow"} & set(done.stdout.split())
