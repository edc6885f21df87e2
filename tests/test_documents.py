"""Check the documents: commands exist, code blocks work, figures match the results."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_breast_cancer

import bakeoff
from bakeoff.suite.execution.run_task import TaskResult

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/cluster.md",
    "docs/benchmarks.md",
    "docs/catalogue.md",
    "docs/comparing.md",
    "docs/design.md",
    "docs/gpu/README.md",
    "docs/guide.md",
    "docs/measuring.md",
    "docs/reliability.md",
    "docs/results-columns.md",
    "docs/statistics.md",
]


def code_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_exists(name: str) -> None:
    from bakeoff.suite.cli import app

    known = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    used = set(re.findall(r"(?<!from )bakeoff ([a-z]+)\b(?! heads`)", (ROOT / name).read_text()))
    words = {"trains", "is", "not", "run", "developers", "did"}
    assert used <= known | words, used - known


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_that_is_named_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    named = re.findall(
        r"`((?:suite|models|reports|ablations|tests|docs|tools)/[\w/.]+\.\w+)`", text
    )
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    wanted = [ROOT / path for path in named] + [(ROOT / name).parent / path for path in linked]
    missing = [path for path in wanted if "NAME" not in path.name and not path.exists()]
    assert missing == []


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for name in DOCUMENTS:
        used = re.findall(
            r"(?:^    |`)make ([a-z-]+(?: [a-z-]+)*)", (ROOT / name).read_text(), re.M
        )
        assert {target for words in used for target in words.split()} <= targets


@pytest.mark.parametrize(
    "target",
    ["battery", "bench", "cluster-test", "parity-test", "statistics-test", "timing-test"],
)
def test_a_target_that_names_folders_has_every_file_of_its_marker(target: str) -> None:
    makefile, marker = (ROOT / "Makefile").read_text(), target.removesuffix("-test")
    (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
    folders = [ROOT / folder for folder in re.findall(r" (tests/\S+)", recipe)]
    marked = [f for f in (ROOT / "tests").rglob("test_*.py") if f"mark.{marker}" in f.read_text()]
    assert marked
    left_out = [f for f in marked if not any(f.is_relative_to(folder) for folder in folders)]
    assert left_out == []


def test_the_ablation_of_the_readme_is_the_demo() -> None:
    block = next(block for block in code_blocks(README) if "ABLATION" in block)
    assert block == (ROOT / "docs/demo.py").read_text()
    assert len(block.splitlines()) <= 25
    assert "bakeoff run docs/demo.py" in README
    assert "bakeoff run docs/demo.py" in (ROOT / "Makefile").read_text()


def test_the_demo_is_short_and_answers_first_and_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for an immediate result, a learnt one, and lengths around the crossover."""
    from bakeoff.suite.planning.cost_model import planned_work, seconds_of
    from bakeoff.suite.planning.plan import plan
    from bakeoff.suite.sweep.pending import pending_work

    monkeypatch.setattr(sys, "path", sys.path[:])
    planned = plan(str(ROOT / "docs/demo.py"))
    assert planned.about.variants == ("mixer=attention", "mixer=linear_transformer")
    assert planned.about.claim is not None
    missing = pending_work([planned], {})
    assert seconds_of(*missing.packed[0]) < 1.0
    assert {trial.length for trial, _ in missing.alone} >= {128, 1024}
    assert planned_work(planned.trials, planned.resources).seconds(1) < 260  # measured: 160


@pytest.mark.slow
def test_the_demo_answers_in_four_minutes_and_then_at_once(tmp_path: Path) -> None:
    """Check the limits for two idle cores."""
    lines = timed_demo(tmp_path)
    first = next(seconds for seconds, line in lines if line.startswith("[1/"))
    assert (first < 20, lines[-1][0] < 240) == (True, True), (first, lines[-1][0])
    said = {line.partition(":")[0]: line for _, line in lines}
    assert "against mixer=attention: " in said["crossover"]
    assert "faster from" in said["crossover"]
    assert "supported" in said["verdict"]
    assert (tmp_path / said["figure"].partition(":")[2].strip()).is_file()
    again = timed_demo(tmp_path)
    assert again[0][1].startswith("0 trials run")
    assert again[-1][0] < 15


def timed_demo(folder: Path) -> list[tuple[float, str]]:
    """Run the demo and return its lines with the seconds since its start."""
    command = [sys.executable, "-m", "bakeoff.suite.cli", "run", str(ROOT / "docs/demo.py")]
    start = time.monotonic()
    with subprocess.Popen(
        [*command, "--executor", "inline"],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        lines = [(time.monotonic() - start, line) for line in process.stdout]
    assert process.returncode == 0, lines
    return [*lines, (time.monotonic() - start, "")]


@pytest.mark.whole
@pytest.mark.usefixtures("fast_sweeps")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("average.py", {"batch": 500, "dim": 8}, [r"average:Average"]),
        ("net.py", {"batch": 500}, ["net:Net", "width=8"]),
        ("tumours.py", {"batch": 64}, ["tumours", "position=none"]),
        pytest.param(
            "reverse.py",
            {"batch": 500, "length": 3, "dim": 8},
            ["position=none", "digits=2"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_ablation_of_the_guide_runs_to_its_report(
    name: str,
    options: dict[str, int],
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = code_blocks((ROOT / "docs/guide.md").read_text())
    blocks = [block for block in blocks if "ABLATION = " in block]
    names = re.findall(r"This file, `(\w+\.py)`, is complete", (ROOT / "docs/guide.md").read_text())
    assert len(blocks) == len(names)
    (tmp_path / name).write_text(blocks[names.index(name)])
    load_breast_cancer(as_frame=True).frame.to_csv(tmp_path / "tumours.csv", index=False)
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    bakeoff.run(name, executor="inline", scale="smoke", steps=2, **options)
    folder = tmp_path / "out/reports" / Path(name).stem
    results = (folder / "results.csv").read_text()
    assert all(each in (folder / "report.md").read_text() + results for each in said)
    assert not re.search("(error|crashed|skipped),", results)


def test_own_data_of_the_readme_are_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = next(block for block in code_blocks(README) if "Table(" in block)
    rows = [f"{'good' if n % 2 else 'bad'} film {n},{n % 2}" for n in range(300)]
    (tmp_path / "reviews.csv").write_text("\n".join(["review,stars", *rows]) + "\n")
    (tmp_path / "my_reviews.py").write_text(block)
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert "bakeoff plan my_reviews.py" in README
    planned = bakeoff.plan("my_reviews.py")
    assert planned.about.tasks == ("reviews",)
    assert planned.about.floors["reviews"] == ("uniform", "majority", "TF-IDF")


@pytest.mark.whole
def test_the_module_of_the_readme_learns_what_the_readme_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    block = next(block for block in code_blocks(README) if "run_task" in block)
    stated = re.search(r"# (accuracy) (0\.\d+), after (\d+) seconds", block)
    assert stated is not None
    torch.set_num_threads(1)  # others test on the other cores
    names: dict[str, object] = {}
    exec(block, names)
    result = names["result"]
    assert isinstance(result, TaskResult)
    metric, value = capsys.readouterr().out.split()
    assert metric == result.metric == stated[1]
    assert float(value) == pytest.approx(float(stated[2]), abs=0.02)  # other processors round
    assert result.value > 0.7  # guessing gives 0.1
    assert result.num_parameters == 784 * 256 + 256 + 256 * 10 + 10
    assert int(stated[3]) < 60


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
    assert len(README) <= 9000
    paragraphs = re.sub(r"```.*?```", "", README, flags=re.DOTALL).split("\n\n")
    prose = [each for each in paragraphs if not each.startswith(("    ", "|", "- "))]
    assert max(len(each.strip().splitlines()) for each in prose) <= 4


def test_contributing_is_short() -> None:
    """Count the lines without the two diffs."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(re.sub(r"```diff.*?```", "", text, flags=re.DOTALL).splitlines()) <= 200


def test_the_last_chaos_lost_nothing() -> None:
    """Check the README's claim against the numbers in docs/reliability.md."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| all |"))
    _, _, _, _, acknowledged, lost, doubled, _, orphans, twice, *_ = row.split("|")
    assert int(acknowledged) > 1000
    assert [int(number) for number in (lost, doubled, orphans)] == [0, 0, 0]
    assert int(twice.split(":")[1]) == 0
