"""Compare the numbers of shipped ablations with those of an earlier commit, bit for bit.

    python -m tools.golden 78d362ab                # each run below, there and here
    python -m tools.golden main --only heads       # those of one ablation

Checks the commit out into a temporary folder and runs the same sweeps with its code and with the
code here, one after the other, on this machine and with these libraries. Times are not compared.
Prints the differences and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
KEY = ["scale", "variant", "seed", "task", "probe", "metric", "at"]
# These probes measure times and memory, which differ from run to run.
TIMED = ("step_time", "mixer_time", "decode", "peak_memory", "softmax", "data_parallel")


@dataclass(frozen=True)
class Sweep:
    """One ablation at one scale, run by one executor."""

    ablation: str
    scale: str
    executor: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of ``bakeoff run``."""
        few = ("--seeds", "1") if self.scale == "quick" else ()
        return (self.ablation, "--scale", self.scale, "--executor", self.executor, *few)


SWEEPS = [
    Sweep(ablation, scale, executor)
    for executor in ("inline", "ray")
    for ablation, scale in (
        ("heads", "smoke"),
        ("translation", "smoke"),
        ("complexity", "smoke"),
        ("hashing", "quick"),
        ("sampling", "quick"),
    )
]


def numbers(tree: Path, sweep: Sweep, out: Path) -> pd.DataFrame:
    """Run a sweep with the code in `tree` and return the rows that do not depend on time.

    Raises:
        subprocess.CalledProcessError: if the command fails.
    """
    script = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]["bakeoff"]
    command = [sys.executable, "-m", script.partition(":")[0], "run", *sweep.arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [*command, "--out", str(out)], cwd=tree, env=environment, capture_output=True, text=True
    )
    if done.returncode not in (0, 5):  # 5: a trial failed, which is a row to compare
        sys.stderr.write(done.stderr)
        done.check_returncode()
    rows = pd.read_csv(out / "reports" / sweep.ablation / "results.csv", keep_default_na=False)
    return rows[~rows["probe"].isin(TIMED)].set_index(KEY)[["value", "status"]].sort_index()


def differences(before: pd.DataFrame, after: pd.DataFrame) -> Iterator[str]:
    """Yield one line for each row that differs or that only one side has."""
    sides = [side.add_suffix(f"_{name}") for side, name in ((before, "before"), (after, "after"))]
    both = sides[0].join(sides[1], how="outer").astype(object).fillna("missing")
    for key, row in both.iterrows():
        if row["value_before"] != row["value_after"] or row["status_before"] != row["status_after"]:
            yield f"{key}: {row['value_before']} became {row['value_after']}"


def compare(ref: str, only: str | None) -> int:
    """Run the sweeps with the code of a commit and with that here; return how many differ."""
    num_different = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "before"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", tree, ref], cwd=ROOT, check=True
        )
        try:
            for sweep in (sweep for sweep in SWEEPS if only in (None, sweep.ablation)):
                name = "-".join((sweep.ablation, sweep.scale, sweep.executor))
                sides = [
                    numbers(where, sweep, Path(scratch) / name / side)
                    for side, where in (("before", tree), ("after", ROOT))
                ]
                found = list(differences(*sides))
                num_different += len(found)
                print(f"{name}: {len(sides[0])} numbers, {len(found)} differ", *found, sep="\n  ")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    return num_different


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ref", help="the commit to compare with, such as main or 78d362ab")
    parser.add_argument("--only", metavar="ABLATION", help="compare the sweeps of one ablation")
    asked = parser.parse_args()
    sys.exit(bool(compare(asked.ref, asked.only)))
