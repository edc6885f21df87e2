"""One trial can be followed: how many of the project's files does `bakeoff run` enter for it?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import suite

ROOT = Path(suite.__file__).parents[1]
MOST_FILES = 140
ABLATION = '''"""One trial."""

from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Does one trial run?",
    baseline=Model(mixer="attention", heads=4),
    axes=[vary("heads", [4])],
    tasks=["shakespeare_characters"],
    probes=["quality"],
    scales={"quick": Scale(dim=16, depth=1, length=16, steps=4, batch=2, seeds=1)},
)
'''
# Counts functions, not the bodies of modules and classes: what is imported is not yet entered.
TRACED = """
import inspect, sys, threading
import matplotlib.figure, mlflow, pandas, pyarrow, scipy.stats, torch  # whose calls are not counted
root, files = sys.argv[1], set()

def note(frame, event, argument):
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    if event == "call" and is_function and code.co_filename.startswith(root):
        files.add(code.co_filename)

threading.setprofile(note)
sys.setprofile(note)
from suite.cli import main
sys.argv = ["bakeoff", "run", *sys.argv[2:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.setprofile(None)
print("\\n".join(sorted(file for file in files if file.endswith(".py"))))
"""


def test_one_trial_enters_few_files(tmp_path: Path) -> None:
    ablation = tmp_path / "one_trial.py"
    ablation.write_text(ABLATION)
    command = [sys.executable, "-c", TRACED, str(ROOT), str(ablation), "--executor", "inline"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    entered = [line for line in done.stdout.splitlines() if line.startswith(str(ROOT))]
    ours = [line for line in entered if ".venv" not in line]
    assert "suite/execution/trial.py" in {Path(line).relative_to(ROOT).as_posix() for line in ours}
    assert len(ours) <= MOST_FILES, "\n".join(ours)
    assert (tmp_path / "out" / "reports" / "one_trial" / "index.html").is_file()
