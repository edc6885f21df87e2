"""Test that published scores are quoted correctly, with the right measured numbers."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bakeoff import reports
from bakeoff.reports.document import Exhibit
from bakeoff.reports.literature.scores import Counterpart, counterparts, published_exhibit
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.series import all_series
from bakeoff.reports.view import Sweep
from bakeoff.suite.planning.knobs import with_defaults
from bakeoff.suite.planning.loader import find, shipped
from bakeoff.suite.planning.variants import Baseline, variants_of
from bakeoff.suite.schema import About
from tests.reports import conftest as synthetic
from tests.reports import mixers_alone
from tests.reports.conftest import ends, known, series_of, t_interval

FOLDER = Path(reports.__file__).parent / "literature" / "published"
FILES = (
    "transformer.csv",
    "lra_accuracy.csv",
    "scaling.csv",
    "recall.csv",
    "lra_speed.csv",
    "linformer.csv",
    "fnet.csv",
    "reformer.csv",
    "decisions.csv",
)
SOURCES = ("arXiv:", "github.com/")
LINFORMER = "mixer=linformer against baseline: accuracy"
ROW = "heads=1 against heads=8: "  # the page's name for the baseline of its ablation


def _one(name: str, ablation: str = "heads", task: str = "shakespeare_characters") -> Counterpart:
    every = (one for one in counterparts() if (one.ablation, one.name) == (ablation, name))
    (found,) = (one for one in every if one.task == task)
    return found


def _exhibit(sweep: Any) -> Exhibit:
    return known(published_exhibit(sweep.about, series_of(sweep)))


def _texts(exhibit: Exhibit) -> dict[str, dict[str, str]]:
    (table,) = exhibit.tables
    keys = [column.key for column in table.columns]
    return {
        row.name: dict(zip(keys, (e.text for e in row.entries), strict=True)) for row in table.rows
    }


@pytest.mark.parametrize("name", FILES)
def test_the_files_say_where_each_number_stands(name: str) -> None:
    with (FOLDER / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert all(row["source"].startswith(SOURCES) and row["where"] for row in rows)


def test_only_checked_figures_are_quoted() -> None:
    """Check that each row of the mapping has its figure; otherwise `counterparts` raises."""
    quoted = {(one.ablation, one.task, one.name) for one in counterparts()}
    assert len(quoted) == len(counterparts())
    assert all(one.source.startswith(SOURCES) and one.differs for one in counterparts())


def test_effects_are_those_of_the_papers() -> None:
    """Vaswani et al. 2017, Table 3: 24.9 and 25.8 BLEU; perplexity 5.29 and 4.92."""
    bleu = _one("heads=1 against baseline: BLEU")
    assert bleu.printed == "24.9 against 25.8 BLEU"
    assert (bleu.low, bleu.is_better) == (pytest.approx(-0.9), False)
    bits = _one("heads=1 against baseline: perplexity")
    assert (bits.low, bits.is_better) == (pytest.approx(math.log2(5.29 / 4.92)), False)
    assert _one("heads=16 against baseline: BLEU").is_better is None  # both 25.8
    assert _one("heads=16 against baseline: perplexity").is_better is True  # 4.91 and 4.92
    clone = _one("has_returns=false against baseline: success rate", "decisions", "corridor_mixed")
    assert (clone.low, clone.unit, clone.is_better) == (pytest.approx(1.4 - 71.8), "points", False)
    linformer = _one(LINFORMER, "linear_attention", "listops")
    assert (linformer.low, linformer.unit) == (pytest.approx(35.70 - 36.37), "points")


def test_ours_is_the_paired_difference_of_the_same_variants() -> None:
    sweep = synthetic.sweep()
    frame = sweep.results.query("task == 'shakespeare_characters' and probe == 'quality'")
    a, b = (
        frame[frame["variant"] == v].sort_values("seed")["value"].to_numpy()
        for v in ("heads=1", "heads=8")
    )
    entry = next(
        row.entries[2] for row in _exhibit(sweep).tables[0].rows if row.name == f"{ROW}BLEU"
    )
    assert ends(entry.estimate) == t_interval(a - b)
    assert entry.estimate.low > 0
    assert entry.tone == "worse"
    texts = _texts(_exhibit(sweep))[f"{ROW}BLEU"]
    assert texts["their_effect"] == "−0.9 BLEU (worse)"
    assert texts["ours"].startswith("+0.0")
    assert " bit [" in texts["ours"]
    assert texts["same_direction"] == "yes"
    assert texts["comparable"].startswith("no: translation, not characters")


def test_what_is_open_is_called_open() -> None:
    sweep = synthetic.sweep()
    one_seed = sweep.results[sweep.results["seed"] == 0]
    found = known(published_exhibit(sweep.about, all_series(sweep.about, one_seed)))
    texts = _texts(found)[f"{ROW}BLEU"]
    assert texts["same_direction"] == "open"
    assert "[" not in texts["ours"]


def test_a_variant_that_is_not_there_says_so() -> None:
    sweep, about = synthetic.sweep(), synthetic.about(variants=("heads=1", "heads=8"))
    rows, curves = (f[f["variant"].isin(about.variants)] for f in (sweep.results, sweep.curves))
    texts = _texts(_exhibit(Sweep(about, rows, curves)))
    assert texts["heads=4 against heads=8: BLEU"]["ours"] == "not among the variants here"
    said = synthetic.about()
    nothing = known(published_exhibit(said, all_series(said, results_frame([]))))
    assert _texts(nothing)[f"{ROW}BLEU"]["ours"] == "no result"


def test_accuracy_is_in_points() -> None:
    sweep = mixers_alone.whole()
    rows = sweep.results.query("task == 'fashion_mnist_patches' and metric == 'accuracy'")
    by = {v: some.sort_values("seed")["value"].to_numpy() for v, some in rows.groupby("variant")}
    about = mixers_alone.about(
        ablation="linear_attention",
        tasks=("listops",),
        metrics={"listops": {"quality": (synthetic.ACCURACY,)}},
    )
    frame = rows.assign(ablation="linear_attention", task="listops")
    texts = _texts(_exhibit(Sweep(about, frame, sweep.curves)))
    points = 100 * np.mean(by["mixer=linformer"] - by["baseline"])
    ours = texts[LINFORMER]["ours"].replace("−", "-")
    assert float(ours.split()[0]) == pytest.approx(points, abs=0.06)


def test_an_ablation_that_no_paper_is_held_against_has_none() -> None:
    sweep = synthetic.sweep()
    measured = series_of(sweep)
    assert published_exhibit(synthetic.about(ablation="mine"), measured) is None
    others: About = synthetic.about(variants=("heads=3",), baseline="heads=3", claim=None)
    assert published_exhibit(others, measured) is None


def test_every_variant_is_one_of_its_ablation() -> None:
    """Check the variants, since rows of unknown ones would never be shown."""
    named = {one.ablation for one in counterparts()}
    assert named <= shipped().keys()
    for name in named:
        ablation = find(name).ablation
        scale = ablation.scale("standard")
        knobs = with_defaults(ablation, scale)
        _, variants = variants_of(Baseline(ablation=ablation, scale=scale, knobs=knobs))
        labels = {"baseline", *(variant.label for variant in variants)}
        tasks = {*ablation.tasks, *(t for s in ablation.scales.values() for t in s.tasks or ())}
        for one in (each for each in counterparts() if each.ablation == name):
            assert one.task in tasks, one.name
            assert {one.variant, one.against} <= labels, one.name


def test_rows_are_of_the_tasks_that_the_sweep_has() -> None:
    said: About = mixers_alone.about(ablation="linear_attention", tasks=("listops",))
    found = known(published_exhibit(said, ()))
    names = [row.name for row in found.tables[0].rows]
    assert len(set(names)) == len(names)
    assert "mixer=linformer against baseline: accuracy" in names  # only those of ListOps
