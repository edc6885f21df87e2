"""`bakeoff doctor`: what this machine can run, what is missing and how to get it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bakeoff.suite.errors import DONE, UNAVAILABLE
from bakeoff.suite.provenance import cpu_model, installed_version, num_cpus
from bakeoff.suite.tasks.data_files import is_absent
from bakeoff.suite.tasks.registry import verify_data
from bakeoff.suite.text import number_of

_NEEDED = ("torch", "numpy", "pandas", "scipy", "pydantic", "typer", "rich")
_FOR = {
    "ray": "running trials in parallel or on a cluster (not needed with `--executor inline`)",
    "mlflow": "recording and the dashboard (`bakeoff record` can record later, on another machine)",
    "pyarrow": "recording and reports",
    "matplotlib": "reports",
    "jinja2": "reports",
    "safetensors": "checkpoints of long trials",
    "deepspeed": "trials of several workers",
    "sacrebleu": "the metrics BLEU and chrF",
    "scikit-learn": "the floor TF-IDF, which is skipped without it",
}
_GIGABYTE = 1e9


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check; sweeps cannot run without what `is_needed`."""

    what: str
    is_well: bool
    remedy: str = ""
    is_needed: bool = True


def show(out: Path) -> int:
    """Print every finding and return the exit code."""
    findings = list(examine(out))
    for finding in findings:
        mark = "ok     " if finding.is_well else "MISSING" if finding.is_needed else "absent "
        remedy = "" if finding.is_well else f"; {finding.remedy}"
        print(f"{mark} {finding.what}{remedy}")
    is_fit = all(finding.is_well for finding in findings if finding.is_needed)
    return DONE if is_fit else UNAVAILABLE


def examine(out: Path) -> Iterator[Finding]:
    """Yield a finding for everything that a sweep on this machine depends on."""
    yield Finding(what=f"{number_of(num_cpus(), 'CPU')}, {cpu_model()}", is_well=True)
    yield from (_package(name, "pip install bakeoff") for name in _NEEDED)
    yield from (_package(name, f"only for {use}", is_needed=False) for name, use in _FOR.items())
    yield _gpu()
    yield from _data()
    yield _disk(out)


def _package(name: str, remedy: str, *, is_needed: bool = True) -> Finding:
    if found := installed_version(name):
        return Finding(what=f"{name} {found}", is_well=True)
    return Finding(what=name, is_well=False, remedy=remedy, is_needed=is_needed)


def _gpu() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding(what=f"GPU {torch.cuda.get_device_name(0)}", is_well=True)
    remedy = "quick scale runs without one; standard and paper need one"
    return Finding(what="GPU", is_well=False, remedy=remedy, is_needed=False)


def _data() -> Iterator[Finding]:
    for source, problem in verify_data():
        yield Finding(
            what=f"data {source.name}",
            is_well=not problem,
            remedy=problem,
            is_needed=not is_absent(source),
        )


def _disk(out: Path) -> Finding:
    folder = next(path for path in (out.resolve(), *out.resolve().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free / _GIGABYTE
    is_well = free > 1 and os.access(folder, os.W_OK)
    return Finding(
        what=f"{free:.0f} GB free at {folder}",
        is_well=is_well,
        remedy="set --out to a writable folder with at least 1 GB free",
    )
