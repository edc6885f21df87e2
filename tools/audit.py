"""Asks pip-audit whether an installed package has a known vulnerability; `make audit`.

If the service cannot be reached, or knows none of the packages, this prints a note and passes.
pip-audit itself prints "no known vulnerabilities" for packages that it skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

ASK = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--format", "json"]
_SECONDS = 300


def main() -> int:
    """Print the known vulnerabilities; return the exit code."""
    try:
        asked = subprocess.run(ASK, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _print_unknown(f"no answer within {_SECONDS} s")
    try:
        packages = json.loads(asked.stdout)["dependencies"]
    except ValueError:
        return _print_unknown((asked.stderr.strip() or "no reason given").splitlines()[-1])
    return _print_known(packages)


def _print_known(packages: list[dict[str, Any]]) -> int:
    """Print the known vulnerabilities; return 1 if there are any."""
    known = [each for each in packages if "vulns" in each]
    if not known:
        return _print_unknown(f"it knows none of the {len(packages)} packages")
    found = [(each, weakness) for each in known for weakness in each["vulns"]]
    for each, weakness in found:
        mended = ", ".join(weakness["fix_versions"]) or "none yet"
        print(f"{each['name']} {each['version']}: {weakness['id']}, mended in {mended}")
    print(f"{len(known)} of {len(packages)} packages asked about, {len(found)} known weaknesses")
    return 1 if found else 0


def _print_unknown(reason: str) -> int:
    """Print that nothing is known."""
    print(f"the service of pip-audit could not be asked ({reason}): nothing is known either way")
    return 0


if __name__ == "__main__":
    sys.exit(main())
