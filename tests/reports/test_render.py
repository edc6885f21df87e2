"""Is a report whole, the same every time, harmless, and honest about what is not there?"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reports import render as rendering
from reports.files import write_whole
from reports.frame import FrameError, Sweep, curves_frame, results_frame, write_parquet
from reports.render import render, render_overview
from suite.schema import RESULT_KEY, ClaimSpec, DataSet

_VOID = {"meta", "link", "br", "img", "hr", "input"}


class _Balanced(HTMLParser):
    """Fails on a tag that is not closed in order; collects what is said and which tags stand."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _parsed(page: Path) -> _Balanced:
    parser = _Balanced()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    assert parser.open == []
    return parser


def _bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _both(synthetic: ModuleType) -> list[Sweep]:
    return [synthetic.sweep("standard", random_seed=3), synthetic.sweep("quick")]


def test_the_files_that_are_promised(synthetic: ModuleType, tmp_path: Path) -> None:
    assert render("heads", _both(synthetic), tmp_path) == tmp_path / "heads/index.html"
    names = set(_bytes(tmp_path / "heads"))
    assert {"index.html", "report.md", "results.csv", "results.parquet"} <= names
    for task in synthetic.TASKS:
        assert {f"tables/{task}.csv", f"tables/{task}.tex"} <= names
        assert sum(name.startswith(f"figures/{task}-") for name in names) == 4
    assert not [name for name in names if ".tmp" in name]


def test_twice_is_the_same_and_writes_nothing(synthetic: ModuleType, tmp_path: Path) -> None:
    render("heads", _both(synthetic), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    render("heads", _both(synthetic)[::-1], tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_the_order_of_rows_does_not_matter(synthetic: ModuleType, tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    shuffled = Sweep(
        sweep.about,
        sweep.results.sample(frac=1, random_state=1),
        sweep.curves.sample(frac=1, random_state=2),
    )
    render("heads", [sweep], tmp_path / "a")
    render("heads", [shuffled], tmp_path / "b")
    assert _bytes(tmp_path / "a") == _bytes(tmp_path / "b")


_FRESH = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("error")
from reports.frame import read_sweep
from reports.render import render, render_overview
here = Path(sys.argv[1])
sweep = read_sweep(here / "results.parquet", here / "curves.parquet")
render("heads", [sweep], Path(sys.argv[2]))
render_overview({"heads": [sweep]}, Path(sys.argv[2]))
loaded = {"torch", "mlflow", "ray", "deepspeed"} & set(sys.modules)
assert not loaded, loaded
"""


def test_another_process_makes_the_same_bytes_and_loads_nothing_heavy(
    synthetic: ModuleType, tmp_path: Path
) -> None:
    sweep = synthetic.sweep()
    write_parquet(tmp_path / "results.parquet", sweep.results, sweep.about)
    write_parquet(tmp_path / "curves.parquet", sweep.curves)
    made = []
    for salt, zone in (("0", "UTC"), ("4711", "Asia/Tokyo")):
        out = tmp_path / salt
        environment = os.environ | {"PYTHONHASHSEED": salt, "TZ": zone}
        subprocess.run(
            [sys.executable, "-c", _FRESH, str(tmp_path), str(out)], env=environment, check=True
        )
        made.append(_bytes(out))
    render("heads", [sweep], tmp_path / "here")
    render_overview({"heads": [sweep]}, tmp_path / "here")
    assert made[0] == made[1] == _bytes(tmp_path / "here")


def test_the_page_is_sound_and_needs_nothing_from_elsewhere(
    synthetic: ModuleType, tmp_path: Path
) -> None:
    page = render("heads", _both(synthetic), tmp_path, scale="quick")
    parsed = _parsed(page)
    assert not {"script", "img", "link", "iframe", "object"} & set(parsed.tags)
    local = [link for link in parsed.links if not link.startswith("#")]
    assert "../index.html" in local
    for link in set(local) - {"../index.html"}:
        assert (page.parent / link).is_file()
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "http://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    headings = [text.index(f"<h2>{name}") for name in ("shakespeare", "What failed", "Setting",
                                                       "Make it again")]  # fmt: skip
    assert text.index("<h1>") < text.index("8 heads beat one") < headings[0]
    assert headings == sorted(headings)


def test_page_and_markdown_say_the_same(synthetic: ModuleType, tmp_path: Path) -> None:
    page = render("heads", _both(synthetic), tmp_path, scale="quick")
    words = " ".join("".join(_parsed(page).words).split())
    markdown = (page.parent / "report.md").read_text().replace("\\", "")
    for fact in (
        "How many attention heads at a fixed width?", "8 heads beat one", "3 paired seeds",
        "2 of 3; 1 diverged", "skipped: heads=16 does not divide dim=24", "public domain",
        "the training loss is nan at step 112", "Tiny Shakespeare", "AMD EPYC 7B13",
        "1 CPU, 1 thread", "torch 2.13.0", synthetic.PLACE.commit, "bakeoff report heads",
        "bakeoff run heads --scale quick", "Student's t at 95 %", "56 of 60",
    ):  # fmt: skip
        assert fact in words
        assert fact in markdown


def test_the_page_shows_the_largest_scale_with_results(
    synthetic: ModuleType, tmp_path: Path
) -> None:
    empty = Sweep(synthetic.about("paper"), results_frame([]), curves_frame([]))
    page = render("heads", [empty, *_both(synthetic)], tmp_path)
    assert "scale <b>standard</b>" in page.read_text()
    assert "indicative" not in page.read_text().lower()
    page = render("heads", [empty, *_both(synthetic)], tmp_path, scale="quick")
    assert "scale <b>quick</b>" in page.read_text()
    assert "Indicative: this scale" in page.read_text()
    with pytest.raises(FrameError, match="no results at scale 'quik'"):
        render("heads", _both(synthetic), tmp_path, scale="quik")


def test_results_csv_holds_every_scale_under_its_key(synthetic: ModuleType, tmp_path: Path) -> None:
    page = render("heads", _both(synthetic), tmp_path)
    with (page.parent / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(sweep.results) for sweep in _both(synthetic))
    assert [row["scale"] for row in rows] == ["quick"] * 60 + ["standard"] * 60
    assert len({tuple(row[name] for name in RESULT_KEY) for row in rows}) == len(rows)
    assert all(row["unit"] for row in rows)


def test_zero_finished_trials(synthetic: ModuleType, tmp_path: Path) -> None:
    empty = Sweep(synthetic.about(provenances={}), results_frame([]), curves_frame([]))
    page = render("heads", [empty], tmp_path)
    words = "".join(_parsed(page).words)
    assert "no result" in words
    assert "0 of 3; 3 missing" in words
    assert words.count("not yet measured") == 2 * 4  # once a task and probe
    assert list((tmp_path / "heads/figures").glob("*")) == []


def test_a_single_seed_and_all_nan(synthetic: ModuleType, tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    one = Sweep(
        synthetic.about(num_seeds=1),
        sweep.results[sweep.results["seed"] == 0],
        sweep.curves[sweep.curves["seed"] == 0],
    )
    assert "underpowered" in render("heads", [one], tmp_path).read_text()
    nan = Sweep(sweep.about, sweep.results.assign(value=float("nan")), sweep.curves)
    assert "not a number" in "".join(_parsed(render("heads", [nan], tmp_path)).words)


HOSTILE = (
    "<script>alert(1)</script>", "{{7*7}}{% raise %}", "=HYPERLINK(\"http://x\")", r"$\input{x}$",
    "</td></table>", "\x1b[31mred", "\u202egnp.exe", "a|b", "`" * 3, "n" * 300, "--></title>",
    "![x](javascript:alert(1))",
)  # fmt: skip


def _hostile(synthetic: ModuleType) -> Sweep:
    spec = synthetic.BITS
    task = HOSTILE[0]
    said = synthetic.about(
        ablation="heads", question=HOSTILE[4], note=HOSTILE[0], baseline=HOSTILE[0],
        variants=HOSTILE, tasks=(task, "../../up"), probes=("quality",),
        settings={HOSTILE[0]: HOSTILE[4]},
        model={HOSTILE[4]: HOSTILE[1]}, regenerate="```\n</code><script>",
        metrics={task: {"quality": (spec,)}, "../../up": {"quality": (spec,)}},
        claim=ClaimSpec(statement=HOSTILE[0], metric=spec.name, a=HOSTILE[1], b=HOSTILE[4],
                        by=0.0, source="<img src=x>", task=task),
        data_sets={HOSTILE[4]: DataSet(title="<b>", licence="|", origin="http://u:CANARY@h",
                                       sha256="<i>")},
    )  # fmt: skip
    rows = [
        synthetic.row(said, name, task, "quality", spec, seed=seed, value=seed + index / 7.0)
        for index, name in enumerate(HOSTILE[1:])
        for seed in range(3)
    ]
    rows += [
        synthetic.row(said, HOSTILE[0], task, "quality", spec, seed=seed, status="error",
                      reason=f"{text} http://u:CANARY@h")
        for seed, text in enumerate(HOSTILE[:3])
    ]  # fmt: skip
    points = [
        {"ablation": "heads", "scale": "quick", "variant": name, "seed": 0, "task": task,
         "metric": "<b>$x$", "step": step, "flops": 1e9 * step, "value": 1.0 / step,
         "unit": "<i>", "better": "lower", "trial_id": name, "environment_id": "x"}
        for name in HOSTILE for step in (1, 2, 3)
    ]  # fmt: skip
    return Sweep(said, results_frame(rows), curves_frame(points))


def test_hostile_names_stay_text_everywhere(synthetic: ModuleType, tmp_path: Path) -> None:
    sweep = _hostile(synthetic)
    page = render("heads", [sweep], tmp_path / "in/reports")
    overview = render_overview({"heads": [sweep]}, tmp_path / "in/reports")
    for path in (page, overview):
        parsed = _parsed(path)
        assert not {"script", "img"} & set(parsed.tags)
        assert "</td></table>" in "".join(parsed.words)
    words = "".join(_parsed(page).words)
    assert "{{7*7}}" in words
    assert "49" not in re.findall(r"\d+", "".join(_parsed(overview).words))
    files = _bytes(tmp_path)
    assert all(name.startswith("in/reports/") for name in files)
    for name, content in files.items():
        assert b"CANARY" not in content, name
        if name.endswith((".html", ".md", ".csv", ".tex", ".svg")):
            text = content.decode("utf-8")
            assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e]", text), name
        if name.endswith((".md", ".svg")):
            outside_code = re.sub(r"(?s)^(````+)\n.*?\n\1$", "", text, flags=re.MULTILINE)
            assert "<script" not in outside_code, name
        if name.endswith(".tex"):
            assert r"\input" not in text


def test_hostile_names_are_no_formulas(synthetic: ModuleType, tmp_path: Path) -> None:
    page = render("heads", [_hostile(synthetic)], tmp_path)
    for path in [page.parent / "results.csv", *page.parent.glob("tables/*.csv")]:
        with path.open(newline="") as file:
            for row in csv.reader(file):
                for cell in row:
                    is_number = bool(re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell))
                    assert is_number or not cell.lstrip().startswith(tuple("=+-@\t\r")), cell


def test_ablations_with_names_of_paths_stay_inside(synthetic: ModuleType, tmp_path: Path) -> None:
    said = synthetic.about(ablation="../../x")
    page = render("../../x", [Sweep(said, results_frame([]), curves_frame([]))], tmp_path / "out")
    assert page.resolve().is_relative_to(tmp_path / "out")


def test_stale_figures_and_tables_go_and_nothing_else(
    synthetic: ModuleType, tmp_path: Path
) -> None:
    page = render("heads", _both(synthetic), tmp_path)
    stale = [page.parent / "figures/old.svg", page.parent / "tables/old.tex"]
    kept = [page.parent / "figures/notes.txt", page.parent / "mine.csv"]
    for path in stale + kept:
        path.write_text("x")
    render("heads", _both(synthetic), tmp_path)
    assert not any(path.exists() for path in stale)
    assert all(path.exists() for path in kept)


def test_a_failure_while_rendering_leaves_the_old_report(
    synthetic: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render("heads", [synthetic.sweep()], tmp_path)
    before = _bytes(tmp_path)

    def fail(*_: Any) -> str:
        raise RuntimeError("out of ink")

    monkeypatch.setattr(rendering, "to_latex", fail)
    with pytest.raises(RuntimeError, match="out of ink"):
        render("heads", [synthetic.sweep(random_seed=99)], tmp_path)
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


def test_wrong_sweeps_are_refused(synthetic: ModuleType, tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    with pytest.raises(FrameError, match="has no sweep to report"):
        render("heads", [], tmp_path)
    with pytest.raises(FrameError, match="a sweep of 'heads' is no sweep of 'tails'"):
        render("tails", [sweep], tmp_path)
    with pytest.raises(FrameError, match="has 2 sweeps at 'quick'"):
        render("heads", [sweep, sweep], tmp_path)
    assert _bytes(tmp_path) == {}


def test_ten_thousand_rows(synthetic: ModuleType, tmp_path: Path) -> None:
    """In about two seconds; what grows with the square of the rows would take a minute."""
    names = tuple(f"v={number}" for number in range(10_000))
    said = synthetic.about(
        variants=names, baseline="v=0", tasks=("t",), probes=("quality",), claim=None,
        metrics={"t": {"quality": (synthetic.BITS,)}}, num_seeds=1,
    )  # fmt: skip
    rows = [synthetic.row(said, v, "t", "quality", synthetic.BITS, value=1.0) for v in names]
    start = time.process_time()
    page = render("heads", [Sweep(said, results_frame(rows), curves_frame([]))], tmp_path)
    assert time.process_time() - start < 10
    assert _parsed(page).tags.count("tr") == (1 + 10_000) + (1 + 2) + (
        1 + 1
    )  # results, data, places


def test_overview_shows_every_ablation(synthetic: ModuleType, tmp_path: Path) -> None:
    empty = Sweep(
        synthetic.about(ablation="zero", question="Nothing?"), results_frame([]), curves_frame([])
    )
    page = render_overview({"zero": [empty], "heads": _both(synthetic)}, tmp_path)
    parsed = _parsed(page)
    words = "".join(parsed.words)
    assert parsed.links == ["heads/index.html", "zero/index.html"]
    assert "standard" in words
    assert "56 of 60; 1 diverged; 3 skipped" in words
    assert "8 heads beat one" in words
    assert "invalid" in words
    assert "No ablation" in "".join(_parsed(render_overview({}, tmp_path)).words)
