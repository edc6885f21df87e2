"""Test that a report is complete, reproducible, harmless, and names what is missing."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bakeoff.reports import render as rendering
from bakeoff.reports.render import render, render_overview, write_whole
from bakeoff.reports.results.frame import (
    RESULT_KEY,
    FrameError,
    curves_frame,
    results_frame,
    to_parquet_bytes,
)
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import Registration
from tests.reports import conftest as synthetic
from tests.reports.read_page import ReadPage

pytestmark = pytest.mark.whole


def _bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


CLAIMED = "shakespeare_characters"
REGISTERED = Registration(sha256="c0ffee" * 10)


@pytest.mark.parametrize(
    ("registration", "said"),
    [
        (None, "The time at which this claim was stated is unknown"),
        (REGISTERED, "were fixed before its results (SHA-256 c0ffeec0ffee)."),
        (replace(REGISTERED, num_pairs_before=2, changes=("by 0.1 to 0.02",)), "by 0.1 to 0.02."),
        (
            replace(REGISTERED, changes=("by 0.1 to 0.02",)),
            "changed before any results existed: by 0.1 to 0.02.",
        ),
    ],
)
def test_a_page_says_when_its_claim_was_stated(
    tmp_path: Path, registration: Registration | None, said: str
) -> None:
    page = render("heads", [_plain(registration=registration)], tmp_path)
    words = " ".join(ReadPage(page).words.split())
    assert said in words
    is_late = registration is not None and registration.num_pairs_before > 0
    assert ("xploratory, because 2 seeds" in words) == is_late
    assert said in (page.parent / "report.md").read_text().replace("\\", "")


def test_a_page_says_in_words_what_is_learned_from(tmp_path: Path) -> None:
    settings = {"teacher": "attention (heads 2)", "distillation": "soft", "scheduled_sampling": 0.5}
    said = " ".join(ReadPage(render("heads", [_plain(settings=settings)], tmp_path)).words.split())
    assert "teacher model (teacher)" in said
    assert "In distillation, a model learns from the outputs of a teacher" in said
    assert "share of inputs replaced by predictions at the end (scheduled_sampling)" in said
    plain = " ".join(ReadPage(render("heads", [_plain()], tmp_path / "plain")).words.split())
    assert "teacher" not in plain


def test_a_published_figure_stands_on_the_first_screen(tmp_path: Path) -> None:
    claim = replace(synthetic.about().claim, published="25.8 BLEU against 24.9")
    page = render("heads", [_plain(claim=claim)], tmp_path)
    first_screen = page.read_text().partition("<h2>")[0]
    assert "25.8 BLEU against 24.9 (arXiv:1706.03762, Table 3 (A))." in first_screen


def _both() -> list[Sweep]:
    return [synthetic.sweep("standard", random_seed=3), synthetic.sweep("quick")]


def _plain(scale: str = "quick", **changes: Any) -> Sweep:
    """Return a sweep with one score on one task and no curves, which is fast to draw."""
    whole = synthetic.sweep(scale)
    kept = (whole.results["task"] == CLAIMED) & (whole.results["probe"] == "quality")
    said = synthetic.about(
        scale,
        tasks=(CLAIMED,),
        probes=("quality",),
        metrics={CLAIMED: whole.about.metrics[CLAIMED]},
        **changes,
    )
    return Sweep(said, whole.results[kept], curves_frame([]))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of two scales that shows the quick one; do not modify it."""
    return render("heads", _both(), tmp_path_factory.mktemp("reports"), scale="quick")


def test_the_files_that_are_promised(page: Path) -> None:
    assert (page.parent.name, page.name) == ("heads", "index.html")
    names = set(_bytes(page.parent))
    assert {"index.html", "report.md", "results.csv", "results.parquet"} <= names
    for task, score in synthetic.TASKS.items():
        assert {f"tables/{task}.csv", f"tables/{task}.tex"} <= names
        figures = {score.name, f"{score.name}-for-seconds", f"validation_{score.name}-by-step"}
        assert {f"figures/{task}-{figure}.svg" for figure in figures} <= names
    assert not [name for name in names if ".tmp" in name]


def test_twice_is_the_same_and_writes_nothing(tmp_path: Path) -> None:
    sweeps = [_plain("standard"), _plain()]
    render("heads", sweeps, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    render("heads", sweeps[::-1], tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


_FRESH = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("error")
from bakeoff.reports.view import read_sweep
from bakeoff.reports.render import render, render_overview, write_whole
here = Path(sys.argv[1])
sweep = read_sweep(here / "results.parquet", here / "curves.parquet")
render("heads", [sweep], Path(sys.argv[2]))
render_overview({"heads": [sweep]}, Path(sys.argv[2]))
loaded = {"torch", "mlflow", "ray", "deepspeed"} & set(sys.modules)
assert not loaded, loaded
"""


def test_another_process_makes_the_same_bytes_and_loads_nothing_heavy(tmp_path: Path) -> None:
    """Change the order of the rows, the hash seed and the time zone."""
    sweep = synthetic.sweep()
    (tmp_path / "results.parquet").write_bytes(to_parquet_bytes(sweep.results, sweep.about))
    (tmp_path / "curves.parquet").write_bytes(to_parquet_bytes(sweep.curves))
    environment = os.environ | {"PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", _FRESH, str(tmp_path), str(tmp_path / "there")]
    subprocess.run(command, env=environment, check=True)
    shuffled = Sweep(
        sweep.about,
        sweep.results.sample(frac=1, random_state=1),
        sweep.curves.sample(frac=1, random_state=2),
    )
    render("heads", [shuffled], tmp_path / "here")
    render_overview({"heads": [shuffled]}, tmp_path / "here")
    assert _bytes(tmp_path / "there") == _bytes(tmp_path / "here")


def test_the_page_is_sound_and_needs_nothing_from_elsewhere(page: Path) -> None:
    parsed = ReadPage(page)
    assert not {"img", "link", "iframe", "object"} & set(parsed.tags)
    assert parsed.tags.count("script") == 1
    local = [link for link in parsed.links if not link.startswith("#")]
    assert "../index.html" in local
    for link in set(local) - {"../index.html"}:
        assert (page.parent / link).is_file()
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "http://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    headings = re.findall("<h2>(.*?)</h2>", text)
    order = [
        "Statistical details",
        "shakespeare characters",
        "majority",
        "Failed, skipped and missing measurements (2)",
        "Settings",
        "Reproduce these results",
        "How to read the numbers",
    ]
    assert [heading for heading in headings if heading in order] == order


def test_the_first_screen_answers_shows_and_says_sample_and_scale_once(page: Path) -> None:
    for text, end in (
        (page.read_text(), "<nav"),
        ((page.parent / "report.md").read_text(), "<det"),
    ):
        screen = text.partition(end)[0].replace("\\", "")
        places = [
            screen.index(said)
            for said in (
                "How many attention heads at a fixed width?",
                "By heads, bits per character is 2.4",
                "8 heads beat one: 0.0",
                "The 95 % interval is that of 3 paired seeds",
                "Bits per character against heads on shakespeare",
                "5 variants on shakespeare characters and majority, with 3 seeds each.",
                "Quick (runs on two CPU cores",
                "The claim is from",
            )
        ]
        assert places == sorted(places)
        assert (screen.count("seeds each"), screen.count("in minutes")) == (1, 1)


def test_the_script_of_a_page_is_the_one_that_its_policy_allows(page: Path) -> None:
    text = page.read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


def test_page_and_markdown_say_the_same(page: Path) -> None:
    words = " ".join(ReadPage(page).words.split())
    markdown = (page.parent / "report.md").read_text().replace("\\", "")
    for fact in (
        "How many attention heads at a fixed width?",
        "8 heads beat one",
        "3 paired seeds",
        "2 of 3; 1 diverged",
        "skipped: heads=16 does not divide dim=24",
        "public domain",
        "the training loss is nan at step 112",
        "Tiny Shakespeare",
        "AMD EPYC 7B13",
        "1 CPU, 1 thread",
        "torch 2.13.0",
        synthetic.PLACE.commit,
        "bakeoff report heads",
        "bakeoff run heads --scale quick",
        "Student's t intervals at 95 %",
        "56 of 60 planned",
        "it cannot be measured, for the reason given",
        "layers (depth)",
        "lower is better",
        "The claim is from arXiv:1706.03762, Table 3 (A).",
        "5 variants on shakespeare",
    ):
        assert fact in words
        assert fact in markdown


def test_the_page_shows_the_largest_scale_with_results(tmp_path: Path) -> None:
    both = [_plain("standard"), _plain()]
    empty = Sweep(synthetic.about("paper"), results_frame([]), curves_frame([]))
    page = render("heads", [empty, *both], tmp_path)
    assert "Standard (runs on one GPU" in page.read_text()
    assert "indicative" not in page.read_text().lower()
    page = render("heads", [empty, *both], tmp_path, scale="quick")
    assert "Quick (runs on two CPU cores" in page.read_text()
    assert "not evidence for a paper" in page.read_text()
    with pytest.raises(FrameError, match="no results at scale 'quik'"):
        render("heads", both, tmp_path, scale="quik")


def test_a_page_at_smoke_says_that_it_answers_nothing(tmp_path: Path) -> None:
    about = replace(synthetic.about("smoke"), claim=None)
    page = render("heads", [replace(_plain("smoke"), about=about)], tmp_path).read_text()
    assert "Smoke (hardly trained" in page
    assert '<p class="sentence">Models are hardly trained at this scale, so no claim' in page
    assert "not evidence for a paper" not in page


def test_results_csv_holds_every_scale_under_its_key(page: Path) -> None:
    with (page.parent / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(sweep.results) for sweep in _both())
    assert [row["scale"] for row in rows] == ["quick"] * 60 + ["standard"] * 60
    assert len({tuple(row[name] for name in RESULT_KEY) for row in rows}) == len(rows)
    assert all(row["unit"] for row in rows)
    assert {(row["variant"], row["axis_heads"]) for row in rows} == {
        (variant, variant.removeprefix("heads=")) for variant in synthetic.about().variants
    }


def test_ablations_with_names_of_paths_stay_inside(tmp_path: Path) -> None:
    said = synthetic.about(ablation="../../x")
    page = render("../../x", [Sweep(said, results_frame([]), curves_frame([]))], tmp_path / "out")
    assert page.resolve().is_relative_to(tmp_path / "out")


def test_stale_figures_and_tables_go_and_nothing_else(tmp_path: Path) -> None:
    page = render("heads", [_plain()], tmp_path)
    stale = [page.parent / "figures/old.svg", page.parent / "tables/old.tex"]
    kept = [page.parent / "figures/notes.txt", page.parent / "mine.csv"]
    for path in stale + kept:
        path.write_text("x")
    render("heads", [_plain()], tmp_path)
    assert not any(path.exists() for path in stale)
    assert all(path.exists() for path in kept)


def test_a_failure_while_rendering_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render("heads", [_plain()], tmp_path)
    before = _bytes(tmp_path)

    def fail(*_: Any) -> str:
        raise RuntimeError("out of ink")

    monkeypatch.setattr(rendering, "to_latex", fail)
    with pytest.raises(RuntimeError, match="out of ink"):
        render("heads", [_plain("standard")], tmp_path)
    assert _bytes(tmp_path) == before


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_failure_while_writing_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = tmp_path / "x.txt"
    assert write_whole(path, b"old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, moment, fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert _bytes(tmp_path) == {"x.txt": b"old"}


def test_files_are_readable_as_the_umask_says(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    write_whole(path, b"x")
    (tmp_path / "y.txt").write_bytes(b"y")
    assert path.stat().st_mode == (tmp_path / "y.txt").stat().st_mode


def test_wrong_sweeps_are_refused(tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    with pytest.raises(FrameError, match="has no sweep to report"):
        render("heads", [], tmp_path)
    with pytest.raises(FrameError, match="this sweep is of 'heads', not of 'tails'"):
        render("tails", [sweep], tmp_path)
    with pytest.raises(FrameError, match="has 2 sweeps at 'quick'"):
        render("heads", [sweep, sweep], tmp_path)
    assert _bytes(tmp_path) == {}


def test_overview_shows_every_ablation_and_every_claim(tmp_path: Path) -> None:
    empty = Sweep(
        synthetic.about(ablation="zero", question="Nothing?", claim=None),
        results_frame([]),
        curves_frame([]),
    )
    page = render_overview({"zero": [empty], "heads": _both()}, tmp_path)
    parsed = ReadPage(page)
    words = " ".join(parsed.words.split())
    assert set(parsed.links) == {"heads/index.html", "zero/index.html"}
    markdown = (tmp_path / "index.md").read_text().replace("\\", "")
    for fact in (
        "How many attention heads at a fixed width?",
        "Nothing?",
        "8 heads beat one",
        "Scale standard (runs on one GPU in hours).",
        "56 of 60 planned measurements",
        "1 diverged, 3 skipped",
        "arXiv:1706.03762, Table 3 (A)",
        "supported",
        "How the claims are judged",
        "1 claim: 1 supported.",
    ):
        assert fact in words, fact
        assert fact in markdown, fact
    assert "No ablation" in ReadPage(render_overview({}, tmp_path)).words


def test_overview_shows_the_verdict_of_each_page_however_many_there_are(tmp_path: Path) -> None:
    """Check that forty claims are judged as one would be, and that their q-values are shown."""
    sweep = synthetic.sweep("standard", is_troubled=False)
    sweeps = {}
    for number in range(40):
        name = f"n{number:02}"
        frames = (sweep.results.assign(ablation=name), sweep.curves.assign(ablation=name))
        sweeps[name] = [Sweep(replace(sweep.about, ablation=name), *frames)]
    words = " ".join(ReadPage(render_overview(sweeps, tmp_path)).words.split())
    markdown = (tmp_path / "index.md").read_text().replace("\\", "")
    alone = sweep.in_order.verdict
    assert alone is not None
    assert alone.p is not None
    for text in (words, markdown):
        assert text.count(alone.effect) == 40
        # With equal p-values, q equals p, and so does the expected share of false findings.
        assert len(re.findall(rf"q-value\W*{alone.p:.2g}", text)) == 40
        expected = f"up to {40 * alone.p:.2g} are expected to be false."
        assert f"40 claims: 40 supported. Of the 40 supported that were tested, {expected}" in text
    assert "(Benjamini and Hochberg)" in words
