"""Tests for own architectures: planned, examined, refused and identified like own mixers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.planning.resolve import _why_unbuildable
from bakeoff.suite.probes.probe import exercise, initial_model
from bakeoff.suite.schema import MIXER_ALONE, Plan
from bakeoff.suite.spec import Model, SpecError, vary
from tests.suite.small_ablation import WriteAblation, make_ablation

NET = '''
"""Windows of three tokens."""

from dataclasses import dataclass

import torch
from torch import nn

from bakeoff.models import Architecture, StackArchitecture


class Net(Architecture):
    """Causal by its padding."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 8

    def build(self, seeds):
        spec, width = self.spec, self.config.width
        self.embed = nn.Embedding(spec.input_size, width)
        self.conv = nn.Conv1d(width, spec.output_size, 3)

    def forward(self, inputs):
        x = nn.functional.pad(self.embed(inputs).mT, (2, 0))
        return self.conv(x).mT


class Pooled(Net):
    def forward(self, inputs, mask=None):
        x = self.embed(inputs)
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        return self.conv(nn.functional.pad(x.mT, (2, 0))).sum(2)
'''
TEXT, PADDED = "shakespeare_characters", "movie_reviews"
Planned = Callable[..., Plan]


@pytest.fixture
def planned(write_ablation: WriteAblation, tmp_path: Path) -> Planned:
    """Return a function that plans an ablation with `NET` as baseline, after replacements."""

    def make(*replaced: tuple[str, str], model: str = '"own_net:Net"', **parts: str) -> Plan:
        source = NET
        for old, new in replaced:
            assert old in source
            source = source.replace(old, new)
        (tmp_path / "own_net.py").write_text(source)
        fields = {"axes": '[vary("width", [4, 8])]', "probes": '["quality", "flops"]', **parts}
        _why_unbuildable.cache_clear()  # the process loads several versions of the source
        return plan(str(write_ablation(baseline=f"Model({model})", **fields)), seeds=1)

    return make


def test_it_has_its_knobs_and_the_hash_of_its_file_and_no_mixer(planned: Planned) -> None:
    found = planned(model='"own_net:Net", width=16')
    assert found.about.variants == ("baseline", "width=4", "width=8")
    subjects = [trial.subjects[0] for trial in found.trials]
    assert [dict(subject.settings) for subject in subjects] == 2 * [
        {"width": n} for n in (16, 4, 8)
    ]
    assert {(s.mixer, s.position, s.dim, s.depth) for s in subjects} == {("", "", 0, 0)}
    assert set(found.about.model) == {"architecture", "width"}
    versions = found.trials[0].versions
    assert len(str(versions["skeleton own_net:Net"])) == 16
    assert not any(name.startswith(("mixer", "position")) for name in versions)
    reasons = {cell.probe: cell.reason for cell in found.cells}
    assert reasons == {"quality": "", "flops": ""}


FORWARD = "x = nn.functional.pad(self.embed(inputs).mT, (2, 0))"
POOLED = {"model": '"own_net:Pooled"', "tasks": f'["{PADDED}"]'}
FAULTS: dict[str, tuple[tuple[tuple[str, str], ...], dict[str, str], str]] = {
    "no such class": ((), {"model": '"own_net:Nett"'}, "did you mean 'Net'"),
    "no architecture": (
        (),
        {"model": '"own_net:nn"'},
        "not a subclass of bakeoff.models.architecture",
    ),
    "a class": ((), {"model": "Scale"}, "architecture is a class; name it by its import path"),
    "abstract": ((("def build", "def make"),), {}, "does not define build"),
    "raises on import": ((("import torch\n", "1 / 0\n"),), {}, "ZeroDivision"),
    "unknown knob": ((), {"model": '"own_net:Net", witdh=4'}, "did you mean 'width'"),
    "taken name": (
        (("width: int", "depth: int"), ("config.width", "config.depth")),
        {},
        "architecture 'own_net:Net': an ablation has a 'depth' already",
    ),
    "raises when built": ((("self.embed = nn", "self.embed = nm"),), {}, "NameError"),
    "shape": ((("spec.output_size, 3", "7, 3"),), {}, "must return the shape (2, 8, 81), not"),
    "a tuple": ((("self.conv(x).mT", "self.conv(x).mT, 1"),), {}, "not tuple"),
    "sees the future": (
        (("(2, 0))\n        return self.conv(x)", "(1, 1))\n        return self.conv(x)"),),
        {},
        "depends on later tokens",
    ),
    "draws": (((FORWARD, FORWARD + "; x = x * torch.rand(())"),), {}, "draws random numbers"),
    "rows": (((FORWARD, FORWARD + "; x = x - x.mean(0)"),), {}, "mixes the rows of a batch"),
    "no mask": ((("inputs, mask=None", "inputs"), ("if mask", "if inputs")), POOLED, "take mask="),
    "reads padding": ((("if mask is not None", "if False"),), POOLED, "reads padding"),
    "no parameters": (
        (("output_size, 3)", "output_size, 3); self.requires_grad_(False)"),),
        {},
        "has no parameter to train",
    ),
    "another task": (
        (('"""Causal by its padding."""', 'answers = ("class",)'),),
        {},
        "gives class, not next_symbols",
    ),
    "another input": (
        (('"""Causal by its padding."""', 'reads = {"inputs": ("vectors",)}'),),
        {},
        "takes vectors as inputs, not tokens",
    ),
    "a mixer": ((), {"model": '"own_net:Net", mixer="lstm"'}, "no slot for a mixer; leave mixer='"),
    "a position": ((), {"model": '"own_net:Net", position="none"'}, "no place for a position"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_faulty_one_is_refused_in_a_sentence(case: str, planned: Planned) -> None:
    replaced, fields, fragment = FAULTS[case]
    with pytest.raises(SpecError) as caught:
        planned(*replaced, **fields)
    assert fragment in str(caught.value)
    assert "mine.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_good_one_is_planned_on_padded_sequences(planned: Planned) -> None:
    assert planned(**POOLED).trials
    padding = ("def forward(self, inputs, mask=None)", "mask_mode = 'pads_as_tokens'\n\n    ")
    assert planned(
        (padding[0], padding[1] + padding[0]), ("if mask is not None", "if False"), **POOLED
    )


def test_one_with_a_hole_takes_a_mixer_and_the_sizes_of_the_scale(planned: Planned) -> None:
    stacked = (
        ("class Net(Architecture)", "class Net(StackArchitecture)"),
        ("    class Config:", "    class Config(StackArchitecture.Config):"),
    )
    found = planned(*stacked, model='"own_net:Net", width=16, mixer="lstm", dropout=0.5')
    subject = found.trials[0].subjects[0]
    assert (subject.mixer, subject.dim, subject.depth) == ("lstm", 16, 1)
    assert (subject.settings["dropout"], subject.settings["width"]) == (0.5, 16)


def test_one_that_takes_no_sizes_needs_none(planned: Planned) -> None:
    """Check that missing sizes appear in no table, and that unused ones do not change the ids."""
    bare = {"scales": '{"quick": Scale(length=8, steps=4, batch=2)}'}
    found, idle = planned(**bare), planned()
    assert [trial.trial_id for trial in found.trials] == [trial.trial_id for trial in idle.trials]
    assert "dim" in idle.about.settings
    assert not {"dim", "depth"} & found.about.settings.keys()


TWO_INPUTS = (
    ('"""Causal by its padding."""', 'reads = {"inputs": ("tokens",), "context": ("tokens",)}'),
    (
        "def forward(self, inputs):",
        "def step(self, tokens, state): ...\n\n    "
        "def forward(self, inputs, context, mask=None, context_mask=None):",
    ),
)


def test_one_with_two_inputs_and_no_formula_is_planned_and_estimated(planned: Planned) -> None:
    found = planned(*TWO_INPUTS, tasks='["reversal"]', probes='["quality"]')
    trial = found.trials[0]
    assert {name: each.length for name, each in trial.subjects[0].others.items()} == {"context": 7}
    assert seconds_of(trial, found.resources) > 0
    assert exercise(trial, initial_model(trial)).flops_per_step is None


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        ({"dim": None}, "attention needs dim, which the scale does not set; give Scale(dim=...)"),
        (
            {"depth": None},
            "language_model needs depth, which the scale does not set; give Scale(depth",
        ),
    ],
)
def test_a_size_that_is_needed_is_asked_for(scale: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        plan(make_ablation(scale=scale))


def _reasons(**fields: Any) -> dict[str, str]:
    return {cell.variant: cell.reason for cell in plan(make_ablation(**fields), seeds=1).cells}


def test_axes_compare_whole_models_with_and_without_a_mixer(planned: Planned) -> None:
    planned()  # this makes the module importable
    own = Model("own_net:Net", width=4)
    found = plan(make_ablation(axes=[vary("model", [Model(mixer="lstm"), own])]), seeds=1)
    assert found.about.variants[1:] == ("model=lstm", "model=own_net:Net (width 4)")
    assert {cell.reason for cell in found.cells} == {""}
    assert found.about.subjects["model=own_net:Net (width 4)"].mixer == ""
    reasons = _reasons(axes=[vary("architecture", ["language_model", "own_net:Net"])])
    assert "has no slot for the mixer attention" in reasons["architecture=own_net:Net"]
    assert reasons["architecture=language_model"] == ""


def test_probes_of_mixers_skip_what_has_none(planned: Planned) -> None:
    planned()
    found = plan(
        make_ablation(
            axes=[vary("model", [Model(mixer="attention"), Model("own_net:Net")])],
            probes=["quality", "softmax", "decode", "gradient_by_distance", "mixer_flops"],
            scale={"lengths": [8]},
        )
    )
    reasons = {c.probe: c.reason for c in found.cells if c.variant == "model=own_net:Net"}
    assert reasons.pop("quality") == ""
    assert re.search("no mixer", reasons.pop("softmax"))
    assert all(reasons.values()), reasons
    assert {c.reason for c in found.cells if c.task == MIXER_ALONE and "own" not in c.variant} == {
        ""
    }


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Model(), "language_model needs a mixer"),
        (Model("classifier"), "classifier needs a mixer; give Model('classifier', mixer=...)"),
        (Model("tagger", mixer="lstm"), "asks for next_symbols, and tagger gives symbols, not"),
    ],
)
def test_an_incomplete_or_impossible_baseline_is_refused(model: Model, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        plan(make_ablation(baseline=model, axes=[vary("depth", [1, 2])]))


def test_any_architecture_that_answers_serves_a_task() -> None:
    """Check an architecture that is not the default of the task."""
    found = plan(
        make_ablation(
            baseline=Model("tagger", mixer="lstm"),
            tasks=["shakespeare_masked"],
            axes=[vary("depth", [1, 2])],
        )
    )
    assert {trial.subjects[0].architecture for trial in found.trials} == {"tagger"}
