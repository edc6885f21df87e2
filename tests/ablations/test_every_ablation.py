"""Test the contract of an ablation file on every shipped file and every scale that it declares."""

import ast
import json
import re
from dataclasses import asdict
from functools import cache
from hashlib import sha256

import pytest
import torch

from bakeoff.models import ModelSpec, build_model
from bakeoff.reports.literature.csv import FOLDER, rows_of
from bakeoff.suite.commands.list import overview
from bakeoff.suite.planning.cost_model import planned_work
from bakeoff.suite.planning.loader import find, shipped
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import MIXER_ALONE, Plan, Trial
from bakeoff.suite.spec import Ablation, Axis, Claim
from tools.build_catalogue import SIZES

# By default one scale; `make slow-test` plans all of them, which takes a minute.
CASES = [
    pytest.param(name, scale, marks=() if scale == "quick" else pytest.mark.slow)
    for name in shipped()
    for scale in find(name).ablation.scales
]


@cache
def planned(name: str, scale: str) -> Plan:
    return plan(name, scale=scale)


@pytest.fixture(params=shipped())
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def ablation(name: str) -> Ablation:
    return find(name).ablation


@pytest.fixture
def tree(name: str) -> ast.Module:
    return ast.parse(shipped()[name].read_text())


def test_there_are_ablations() -> None:
    assert {"heads", "complexity"} <= set(shipped())


def test_it_says_what_is_asked_why_and_at_what_cost(tree: ast.Module, ablation: Ablation) -> None:
    note = ast.get_docstring(tree) or ""
    assert note.splitlines()[0].endswith("?")
    cost = note.partition("Cost:")[2].lower()
    assert [scale for scale in ablation.scales if scale not in cost] == []
    assert re.search(r"arXiv:\d{4}\.\d{4,5}", note)
    assert "Expected:" in note
    assert ablation.question.endswith("?")


def test_it_is_a_declaration_and_nothing_else(tree: ast.Module) -> None:
    docstring, *statements = tree.body
    assert isinstance(docstring, ast.Expr)
    assert [type(statement) for statement in statements] == [ast.ImportFrom, ast.Assign]
    imported, assigned = statements
    assert imported.module in {"bakeoff", "bakeoff.suite.spec"}
    assert [ast.unparse(target) for target in assigned.targets] == ["ABLATION"]
    logic = (ast.comprehension, ast.IfExp, ast.Lambda, ast.BinOp, ast.JoinedStr)
    assert not any(isinstance(node, logic) for node in ast.walk(assigned))


def test_it_tests_one_claim_and_says_whose(ablation: Ablation) -> None:
    assert isinstance(ablation.claim, Claim)
    assert re.search(r"\b(19|20)\d\d\b", ablation.claim.source)
    assert ablation.claim.published
    assert ablation.claim.by >= 0


def test_quick_asks_for_two_cores_and_no_gpu(ablation: Ablation) -> None:
    assert ablation.scales["quick"].gpus == 0
    assert ablation.scales["quick"].cpus <= 2


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_it_can_be_planned_with_its_baseline_and_claim(name: str, scale: str) -> None:
    found = planned(name, scale)
    about = found.about
    assert about.baseline in about.variants
    assert len(about.variants) > 1
    assert found.trials
    if about.claim is None:
        assert scale == "smoke"
        return
    measured = {
        (cell.variant, metric.name)
        for cell in found.cells
        if cell.task == about.claim.task and not cell.reason
        for metric in cell.metrics
    }
    assert {(about.claim.a, about.claim.metric), (about.claim.b, about.claim.metric)} <= measured


def test_the_committed_overview_is_of_these_files_and_their_quick_scales(name: str) -> None:
    said, found = json.loads(SIZES.read_text()), planned(name, "quick")
    assert list(said) == list(shipped()), "run `make catalogue`"
    known = said[name]
    assert known["sha256"] == sha256(shipped()[name].read_bytes()).hexdigest(), "make catalogue"
    ablation = find(name).ablation
    assert known["question"] == ablation.question
    assert known["tasks"] == [task for task in found.about.tasks if task != MIXER_ALONE]
    work = planned_work(found.trials, found.resources)
    assert known["scales"]["quick"] == asdict(work), "run `make catalogue`"


@pytest.mark.slow
def test_the_committed_overview_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "bakeoff.suite.planning.plan.plan", lambda name, scale: planned(name, scale)
    )
    assert json.loads(SIZES.read_text()) == overview(), "run `make catalogue`"


@pytest.mark.slow
def test_at_smoke_it_has_the_same_variants_hardly_trained(name: str) -> None:
    small, quick = planned(name, "smoke"), planned(name, "quick")
    assert len(small.about.variants) == len(quick.about.variants)
    if not any("steps=" in label for label in quick.about.variants):
        assert small.about.variants == quick.about.variants
    assert small.about.claim is None
    assert small.about.num_seeds == 1
    steps = [t.training.steps for t in small.trials if t.training is not None]
    assert max(steps, default=0) <= 100


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_every_axis_changes_what_is_trained(name: str, scale: str) -> None:
    """Check that each axis alone gives at least two different trials on some task.

    The axes of the mixer and of its distillation are kept, since the baseline may have knobs of its
    mixer and a teacher is needed. The axes of a search change the text that a model generates, not
    its training.
    """
    ablation = find(name).ablation.at_scale(scale)
    kept = {"mixer", "distillation"}
    mixers = tuple(axis for axis in ablation.axes if axis.name in kept)

    def num_trials(*axes: Axis, probe: str = "quality") -> int:
        update = {
            "axes": axes,
            "claim": None,
            "scaling_law": None,
            "probes": tuple(dict.fromkeys(("quality", probe))),
        }
        trials = plan(ablation.model_copy(update=update), scale=scale, seeds=1).trials
        return sum(trial.probe == probe for trial in trials)

    for axis in ablation.axes:
        probe = "written_scores" if axis.name in {"beam", "length_penalty"} else "quality"
        others = () if axis in mixers else mixers
        without = num_trials(*others) if others else len(ablation.tasks)
        assert num_trials(axis, *others, probe=probe) > without, axis.name


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_where_steps_do_not_vary_searches_are_as_long_as_the_scale_says(
    name: str, scale: str
) -> None:
    """Check that the searches of a longer variant change no ids of other ablations."""
    ablation = find(name).ablation
    if any(axis.name in ("steps", "equal") for axis in ablation.axes):
        return
    said, found = ablation.scale(scale), planned(name, scale)
    own = {cell.trial_id for cell in found.cells}
    searches = (t.search.training for t in found.trials if t.search and t.trial_id in own)
    wanted = said.search_steps or -(-said.steps // 3)
    assert {each.steps for each in searches if each} <= {wanted}


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_no_variant_is_impossible_everywhere(name: str, scale: str) -> None:
    found = planned(name, scale)
    possible = {cell.variant for cell in found.cells if not cell.reason}
    assert set(found.about.variants) <= possible  # floors are cells but not variants


@pytest.mark.parametrize("name", shipped())
def test_variants_match_in_parameters_or_the_table_shows_the_difference(name: str) -> None:
    """Match means within 1 % at quick scale."""
    if "parameters" in find(name).ablation.probes:
        return
    found = planned(name, "quick")
    for task in found.about.tasks:
        sizes = {_num_parameters(spec) for trial in found.trials for spec in _of(trial, task)}
        assert max(sizes, default=0) <= 1.01 * min(sizes, default=0), task


def _of(trial: Trial, task: str) -> tuple[ModelSpec, ...]:
    return trial.subjects if trial.task == task else ()


def _num_parameters(spec: ModelSpec) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(spec).parameters())


def test_a_published_figure_with_a_unit_is_a_row_of_the_literature(ablation: Ablation) -> None:
    """Compare the text of a claim with the files of reports/literature/published."""
    claims = [ablation.claim] if isinstance(ablation.claim, Claim) else []
    files = sorted(FOLDER.glob("*.csv"))
    values = {row.get("value") for path in files for row in rows_of(path.name)}
    for claim in claims:
        for figure in re.findall(r"(\d+\.\d+)(?= BLEU| %)", claim.published):
            assert figure in values, f"{figure} of {claim.published!r} stands in no file"
