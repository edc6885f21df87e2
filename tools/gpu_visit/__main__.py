"""`python -m tools.gpu_visit --minutes 12 --out visit`: measure on a GPU what is worth most first.

Each result is in the folder at once, each part runs in processes of its own that end at its bound,
and the last output is a table of at most 60 lines, also when the visit is interrupted.
docs/gpu/README.md describes the parts and how to prepare a machine.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.gpu_visit.parts.ablations import counts_of, keep_journal
from tools.gpu_visit.results import ENVIRONMENT, JOURNAL, MOST_BYTES, TABLE, Results, Visit
from tools.gpu_visit.runner import ROOT, Part, run_parts
from tools.gpu_visit.table import table

_SECONDS_FOR_THE_END = 8.0  # to kill the last child, and for the table
_USAGE, _REFUSED, _UNAVAILABLE, _INTERRUPTED = 2, 3, 4, 130  # exit codes, as those of bakeoff
_HERE = "tools.gpu_visit.parts"
PARTS = (
    Part("tests", 90, f"{_HERE}.gpu_tests", 60, "tests marked gpu"),
    Part("steps", 150, f"{_HERE}.steps", 30, "three steps of every architecture and mixer"),
    Part("times", 110, f"{_HERE}.times", 60, "step times of standard baselines"),
    Part("sharing", 70, f"{_HERE}.sharing", 60, "trainings side by side"),
    Part("timings", 80, f"{_HERE}.timings", 80, "length of timing trials against the plan"),
    Part("places", 40, f"{_HERE}.places", 40, "mixers that were slow on a GPU"),
    Part("peers", 60, f"{_HERE}.peers", 60, "other implementations"),
    Part("ablations", 120, f"{_HERE}.ablations", 36_000, "shipped ablations, seed by seed"),
)


def main(arguments: Sequence[str] | None = None, parts: Sequence[Part] = PARTS) -> int:
    """Make the visit; return the exit code."""
    given = _parsed(arguments)
    end = time.monotonic() + max(
        0.7 * 60 * given.minutes, 60 * given.minutes - _SECONDS_FOR_THE_END
    )
    out = given.out.resolve()
    if not given.resume and out.exists() and any(out.iterdir()):
        return _refuse(_USAGE, f"{given.out} is not empty; --resume goes on with it")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    out.mkdir(parents=True, exist_ok=True)
    code = 0
    try:
        if message := _identify(out, given.device):
            return _refuse(*message)
        names = tuple(filter(None, given.ablations.split(",")))
        visit = Visit(device=given.device, out=out, ablations=names)
        run_parts(parts, visit, Results(out), end)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    _report(parts, out)
    return code


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_visit", description=__doc__)
    parser.add_argument("--minutes", type=_minutes, default=12.0, help="for all parts together")
    parser.add_argument("--out", type=Path, default=Path("visit"), help="folder of the results")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu runs dry")
    parser.add_argument("--resume", action="store_true", help="measure what the folder lacks")
    parser.add_argument(
        "--ablations", default="heads,complexity", help="names, joined by commas; run at standard"
    )
    return parser.parse_args(arguments)


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0.05 <= minutes <= 24 * 60:
        raise argparse.ArgumentTypeError(f"{text}: 0.05 to 1440 minutes are allowed")
    return minutes


def _identify(out: Path, device: str) -> tuple[int, str] | None:
    """Write where the numbers are made; return why not, if something stands against it."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.gpu_visit.environment", device],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return _UNAVAILABLE, (done.stderr.strip().splitlines() or ["no environment"])[-1]
    found = json.loads(done.stdout)
    file = out / ENVIRONMENT
    if file.exists():
        before = json.loads(file.read_text())
        for name in ("commit", "device", "torch"):
            if before[name] != found[name]:
                why = f"{file} names {name} {before[name]}, and this is {found[name]}"
                return _REFUSED, f"{why}; choose another --out"
        return None
    found |= {"started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "argv": sys.argv[1:]}
    file.write_text(json.dumps(found, indent=1) + "\n")
    return None


def _refuse(code: int, sentence: str) -> int:
    print(f"{sentence}.", file=sys.stderr)
    return code


def _report(parts: Sequence[Part], out: Path) -> None:
    """Write and print the table; remove what is too large to be carried."""
    environment: dict[str, Any] = {}
    if (out / ENVIRONMENT).exists():
        environment = json.loads((out / ENVIRONMENT).read_text())
    notes = list(filter(None, [keep_journal(out)]))
    for file in sorted(out.iterdir()):
        if file.stat().st_size > MOST_BYTES:
            notes.append(f"{file.name} is removed: it has more than {MOST_BYTES / 2**20:.0f} MiB")
            file.unlink()
    if counts := counts_of(out / JOURNAL):
        said = ", ".join(f"{number} trials {status}" for status, number in counts.items())
        notes.append(f"{JOURNAL}: {said}; `bakeoff record {out.name}/{JOURNAL}` takes them home")
    text = table(parts, Results(out), environment, notes)
    (out / TABLE).write_text(text)
    print(text, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
