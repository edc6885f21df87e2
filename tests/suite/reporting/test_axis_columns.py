"""Tests that the columns of axes hold the values of variants, whatever the labels look like."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from bakeoff.reports.render import render
from bakeoff.reports.results.axis_values import values_of
from bakeoff.reports.results.frame import about_from_json, about_to_json
from bakeoff.reports.results.variant_labels import label_axis
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.planning.overrides import parsed
from bakeoff.suite.planning.plan import plan, plans_of
from bakeoff.suite.reporting.build import findings_of
from bakeoff.suite.reporting.frames import (
    CURVES_FILE,
    RESULTS_FILE,
    by_trial,
    sweep_files,
    sweep_of,
)
from bakeoff.suite.schema import Measurement, Plan, Provenance, Result, Status
from bakeoff.suite.spec import Model, SpecError, vary
from bakeoff.suite.tracking.run_fields import trial_params
from tests.suite.small_ablation import WriteAblation, make_ablation

HERE = Provenance(
    commit="abc",
    device="a CPU",
    num_threads=1,
    num_cpus=1.0,
    num_gpus=0.0,
    versions={"torch": "2.11"},
)
NET = '''"""A network with a text, a bool and a number that may be missing."""

from dataclasses import dataclass

from torch import nn

from bakeoff.models.architecture import Architecture


class Net(Architecture):
    name = "{module}:Net"
    reads = {{"inputs": ("tokens",)}}
    answers = ("next_symbols",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        kernels: str = "3"
        width: int = 4
        gate: bool = False
        scale: float | None = None

    def build(self, seeds):
        self.embed = nn.Embedding(self.spec.input_size, self.config.width)
        self.head = nn.Linear(self.config.width, self.spec.output_size)

    def forward(self, inputs):
        return self.head(self.embed(inputs))
'''
TEXTS = ["3, 5", "5, 7", "1=9", 'a "b", c', "=1+1", "width=8", "7"]
TEXT = "shakespeare_characters"


def _own(write_ablation: WriteAblation, module: str, **parts: str) -> str:
    path = write_ablation(name=f"asks_{module}.py", **parts)
    path.with_name(f"{module}.py").write_text(NET.format(module=module))
    return str(path)


def _measured(planned: Plan) -> Sweep:
    """Return a sweep in which the result of each trial is its position in the plan."""
    results = [
        Result(
            trial_id=trial.trial_id,
            status=Status.OK,
            provenance=HERE,
            seconds=1.0,
            measurements=(
                Measurement(
                    metric="bits_per_character", value=float(place), unit="bit", better="lower"
                ),
            ),
        )
        for place, trial in enumerate(planned.trials)
    ]
    return sweep_of(planned, by_trial(results))


@pytest.fixture
def crossed(write_ablation: WriteAblation) -> Plan:
    axes = f'[vary("kernels", {TEXTS!r}), vary("width", [8, 16])]'
    path = _own(
        write_ablation,
        "texts_net",
        axes=axes,
        combine='"cross"',
        probes='["quality"]',
        baseline='Model("texts_net:Net")',
    )
    return plan(path, seeds=1)


@pytest.mark.whole
def test_texts_that_look_like_labels_are_told_from_other_axes(
    crossed: Plan, tmp_path: Path
) -> None:
    settings = {trial.trial_id: trial.subjects[0].settings for trial in crossed.trials}
    sweep = _measured(crossed)
    home = render(crossed.about.ablation, [sweep], tmp_path).parent
    frame = pd.read_parquet(home / "results.parquet")
    assert frame["axis_width"].dtype == "int64"
    assert len(frame) == 2 * len(TEXTS) + 1
    for row in frame.to_dict("records"):
        expected = settings[row["trial_id"]]
        assert row["axis_kernels"] == expected["kernels"]
        assert row["axis_width"] == expected["width"]
    with (home / "results.csv").open(newline="") as file:
        texts = {(r["axis_kernels"], r["axis_width"]) for r in csv.DictReader(file)}
    # A spreadsheet must not evaluate the text "=1+1".
    shown = ["'" + text if text.startswith("=") else text for text in TEXTS]
    assert texts == {("3", "4"), *((text, width) for text in shown for width in ("8", "16"))}
    of_store = sweep_files(crossed, {})
    assert {"axis_kernels", "axis_width"} <= set(_columns(of_store[RESULTS_FILE], tmp_path))


def _columns(content: bytes, folder: Path) -> list[str]:
    path = folder / "some.parquet"
    path.write_bytes(content)
    return list(pd.read_parquet(path).columns)


def test_figures_and_variants_in_mlflow_have_the_same_values(crossed: Plan) -> None:
    sweep = _measured(crossed)
    axis = label_axis(sweep.about, TEXT)
    assert axis is not None
    assert axis.name == "width"
    groups = {group.name: list(group.variants) for group in axis.groups}
    assert groups == {f"kernels={t}": [8.0, 16.0] for t in TEXTS} | {"kernels=3": [4.0]}
    found = {one.variant: one.axes for one in findings_of(sweep).variants}
    assert found["kernels=3, 5, width=8"] == {"kernels": "3, 5", "width": "8"}
    assert found["kernels=width=8, width=16"] == {"kernels": "width=8", "width": "16"}
    assert found["baseline"] == {"kernels": "3", "width": "4"}
    trial = next(t for t in crossed.trials if t.subjects[0].settings["kernels"] == "3, 5")
    cells = [cell for cell in crossed.cells if cell.trial_id == trial.trial_id]
    assert trial_params(trial, cells, crossed.about.axes)["kernels"] == "3, 5"


def test_the_frames_are_read_again(crossed: Plan, tmp_path: Path) -> None:
    for name, content in sweep_files(crossed, {}).items():
        (tmp_path / name).write_bytes(content)
    again = read_sweep(tmp_path / RESULTS_FILE, tmp_path / CURVES_FILE)
    assert again.about == crossed.about
    assert about_from_json(about_to_json(crossed.about)) == crossed.about


def test_each_type_stays_itself(write_ablation: WriteAblation, tmp_path: Path) -> None:
    path = _own(
        write_ablation,
        "types_net",
        probes='["quality"]',
        baseline='Model("types_net:Net")',
        axes='[vary("gate", [False, True]), vary("scale", [None, -1.0, 0.5])]',
    )
    planned = plan(path, seeds=1)
    home = render(planned.about.ablation, [_measured(planned)], tmp_path).parent
    columns = ["variant", "axis_gate", "axis_scale"]
    frame = pd.read_parquet(home / "results.parquet", columns=columns)
    assert (frame["axis_gate"].dtype, frame["axis_scale"].dtype) == ("bool", "float64")
    read = pd.read_csv(home / "results.csv")[columns]
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)
    assert read["axis_scale"].dtype == "float64"
    assert read.set_index("variant")["axis_scale"].to_dict() == pytest.approx(
        {"baseline": float("nan"), "gate=true": float("nan"), "scale=-1.0": -1.0, "scale=0.5": 0.5},
        nan_ok=True,
    )


def test_what_a_variant_does_not_set_is_as_in_its_own_model() -> None:
    models = [Model(mixer="lstm"), Model(mixer="attention", heads=2), Model(mixer="fnet")]
    axes = [vary("model", models), vary("heads", [1, 4]), vary("steps", [4, 8])]
    about = plan(make_ablation(axes=axes), seeds=1).about
    values = about.axis_values
    assert values["baseline"] == {"model": "attention (heads 4)", "heads": 4, "steps": 4}
    assert values["heads=1"] == {"model": "attention (heads 4)", "heads": 1, "steps": 4}
    assert values["model=attention (heads 2)"]["heads"] == 2
    assert values["model=fnet"] == {"model": "fnet", "heads": None, "steps": 4}
    assert values_of(about, "steps=8") == {"steps": 8}


def test_two_variants_of_one_label_are_refused(write_ablation: WriteAblation) -> None:
    path = _own(
        write_ablation,
        "twin_net",
        baseline='Model("twin_net:Net")',
        combine='"first_with_each"',
        probes='["quality"]',
        axes='[vary("kernels", ["5", "5, gate=true"]), vary("gate", [True])]',
    )
    with pytest.raises(SpecError, match="two variants would both be called 'kernels=5, gate=true'"):
        plan(path, seeds=1)


def test_options_of_a_command_respect_quotes(write_ablation: WriteAblation) -> None:
    assert parsed(['kernels="3, 7",3']) == {"kernels": ("3, 7", "3")}
    path = _own(
        write_ablation,
        "quoted_net",
        probes='["quality"]',
        baseline='Model("quoted_net:Net")',
        axes='[vary("width", [8])]',
    )
    (planned,) = plans_of([path], scale="quick", seeds=1, options=['kernels="3, 7",3', "width=4"])
    values = planned.about.axis_values.values()
    assert [each["kernels"] for each in values] == ["3", "3", "3, 7"]
    assert "--set 'kernels=\"3, 7\",3'" in planned.about.regenerate
