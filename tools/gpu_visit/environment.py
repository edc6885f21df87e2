"""Prints the hardware, the versions and the commit as JSON; a child process, since it asks CUDA."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("numpy", "pandas", "scipy", "pydantic", "pytest", "triton", "fla-core")


def environment(device: str) -> dict[str, Any]:
    """Return what the numbers of a visit depend on.

    Raises:
        SystemExit: with one sentence, if there is no such device.
    """
    import torch

    from bakeoff.suite.provenance import allowed_cpus, commit, conditions, cpu_model, versions

    if device != "cpu" and not torch.cuda.is_available():
        sys.exit("torch finds no CUDA device here; --device cpu runs all parts in tiny sizes")
    found: dict[str, Any] = {
        "commit": commit(),
        "device": "no GPU",
        "driver": "",
        "cpu": cpu_model(),
        "num_cpus": len(allowed_cpus()) or os.cpu_count(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "versions": versions() | _installed(),
        "conditions": dict(conditions()),
    }
    if device != "cpu":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "device": properties.name,
            "driver": _driver(),
            "gib": round(properties.total_memory / 2**30, 1),
            "num_gpus": torch.cuda.device_count(),
        }
    return found


def _installed() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _driver() -> str:
    """Return the version of NVIDIA's driver, from the kernel or from `nvidia-smi`."""
    module = Path("/sys/module/nvidia/version")
    if module.exists():
        return module.read_text().strip()
    if shutil.which("nvidia-smi") is None:
        return ""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    return (done.stdout.strip().splitlines() or [""])[0]


if __name__ == "__main__":
    print(json.dumps(environment(sys.argv[1])))
