"""A page draws, describes and tabulates what runs along a number."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reports.document import Exhibit
from reports.export.printers import to_csv, to_latex
from reports.pages.ablation import page
from reports.pages.axis_series import axis_exhibits
from reports.plots.style import MAX_LINES
from reports.render import render
from reports.results.frame import curves_frame, results_frame
from reports.view import Sweep
from tests.reports import conftest as synthetic
from tests.reports import made_along
from tests.reports.conftest import series_of


@cache
def _sweep(name: str) -> Sweep:
    return getattr(made_along, name)()


@cache
def _exhibits(name: str) -> tuple[Exhibit, ...]:
    sweep = _sweep(name)
    measured = series_of(sweep)
    return tuple(axis_exhibits(sweep.about, measured, sweep.about.tasks[0]))


def test_each_question_has_its_exhibit() -> None:
    assert {
        name: [e.title for e in _exhibits(name)]
        for name in ("positions", "recall", "gradients", "scaling")
    } == {
        "positions": ["Bits per character by test length"],
        "recall": ["Accuracy by width, for each mixer", "Accuracy by pairs to recall"],
        "gradients": ["Gradient by distance"],
        "scaling": [
            f"{what} by d_k, for each scale, score and temperature"
            for what in ("Bits per character", "Attention entropy", "Score gradient")
        ],
    }


def test_before_and_after_training_are_two_views() -> None:
    (gradients,) = _exhibits("gradients")
    assert [view.title for view in gradients.views] == ["before training", "after training"]
    assert [len(view.drawings) for view in gradients.views] == [1, 1]
    assert len(gradients.folded) == 2
    by_width, by_pairs = _exhibits("recall")
    assert [view.title for view in by_width.views] == ["all together", "pairs 4", "pairs 8"]
    assert (len(by_pairs.drawings), len(by_pairs.views)) == (1, 0)


def test_a_figure_can_be_read_aloud_and_draws_every_line() -> None:
    sweep = _sweep("positions")
    (drawing,) = _exhibits("positions")[0].drawings
    described = ElementTree.fromstring(drawing.svg)[1].text or ""
    assert described.startswith("By test length (tokens). ")
    for variant in sweep.about.variants[1:]:
        assert re.search(rf"{variant}: [\d.]+ bit at 128, .*[\d.]+ bit at 1,024", described)
    assert "trained at this length" not in described
    assert "thick line is the baseline" in drawing.caption
    assert "95 % intervals" in drawing.caption


def test_of_too_many_variants_those_of_the_baselines_width_are_drawn() -> None:
    assert len(_sweep("recall").about.variants) > MAX_LINES
    (drawing,) = _exhibits("recall")[1].drawings
    described = ElementTree.fromstring(drawing.svg)[1].text or ""
    assert described.count("dim=64") == len(made_along.MIXERS)
    assert "dim=16" not in described
    assert "Drawn are 5 of 14 lines; the table has them all." in drawing.caption
    assert "1 of 15 have no number." in drawing.caption


def test_nothing_is_not_drawn_to_scale() -> None:
    """A gradient of 0 stands for 1e-38: to scale it would press all else together."""
    (gradients,) = _exhibits("gradients")
    drawing = gradients.views[1].drawings[0]
    assert "come to nothing" in drawing.caption
    assert "-37.93 log10 at 127" in (ElementTree.fromstring(drawing.svg)[1].text or "")
    assert any("−37.93 stands for" in note for note in gradients.folded[1].footnotes)


def test_tables_have_the_numbers_of_the_rows() -> None:
    sweep = _sweep("scaling")
    table = _exhibits("scaling")[2].folded[0]
    assert (table.row_title, table.has_coverage) == ("scale, score, temperature", False)
    assert [column.title for column in table.columns] == [
        "d_k 8",
        "d_k 64",
        "d_k 512",
    ]
    plain, unscaled = table.rows[:2]
    assert (plain.name, plain.is_baseline) == ("as the baseline", True)
    assert plain.note == "scale 1/sqrt(d), score dot, temperature 1.0; holds the baseline"
    values = sweep.results.query(
        "variant == 'key_dim=512, scale=none' and metric == 'initial_score_gradient'"
    )["value"]
    entry = unscaled.entries[2]
    assert entry.estimate.point == pytest.approx(values.mean())
    assert entry.text == f"{values.mean():.3g}"  # three digits, however small
    assert entry.interval.startswith("[")
    assert not entry.tone
    assert str(values.mean())[:6] in to_csv(table)
    assert to_latex(table).isascii()


def test_a_place_without_a_number_says_what_became_of_it() -> None:
    table = _exhibits("recall")[0].folded[0]
    lstm = next(row for row in table.rows if row.name == "mixer=lstm")
    assert lstm.entries[0].text == "skipped"
    pairs = _exhibits("recall")[1].folded[0]
    assert [row.name for row in pairs.rows] == list(_sweep("recall").about.variants)


def test_a_page_holds_them_under_its_task_and_is_the_same_again(tmp_path: Path) -> None:
    shown = page(_sweep("recall"), ["quick"])
    names = [drawing.name for drawing in shown.all_drawings]
    assert len(set(names)) == len(names)
    files = [table.name for table in shown.all_tables]
    assert len(set(files)) == len(files)
    render("recall", [_sweep("recall")], tmp_path)
    text = (tmp_path / "recall/index.html").read_text()
    assert text.count("<svg") == len(names)
    for drawing in shown.findings[0].drawings:
        assert drawing.svg in text


def test_an_ordinary_sweep_has_none() -> None:
    sweep = synthetic.sweep()
    measured = series_of(sweep)
    for task in sweep.about.tasks:
        assert not list(axis_exhibits(sweep.about, measured, task))


def test_so_many_rows_of_dots_are_left_to_the_lines() -> None:
    """The same scores by width, with a line a group, are a better picture."""
    labels = [f"mixer=m{m}, dim={d}" for m in range(11) for d in (16, 32, 64)]
    said = synthetic.about(
        variants=tuple(labels),
        baseline=labels[0],
        tasks=("t",),
        probes=("quality",),
        claim=None,
        metrics={"t": {"quality": (made_along.BITS,)}},
        num_seeds=1,
    )
    rows = [synthetic.row(said, v, "t", "quality", made_along.BITS, value=2.0) for v in labels]
    few = [row for row in rows if "m10" not in row["variant"]]
    for some, is_dotted in ((rows, False), (few, True)):
        names = [*dict.fromkeys(row["variant"] for row in some)]
        about = replace(said, variants=tuple(names))
        sweep = Sweep(about, results_frame(some), curves_frame([]))
        (section,) = page(sweep, ["quick"]).findings
        assert bool(section.exhibits[0].drawings) is is_dotted
        assert section.exhibits[1].title == "Bits per character by width, for each mixer"
