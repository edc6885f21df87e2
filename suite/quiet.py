"""What must be said to libraries before they are imported, so that they do not talk on stderr?

torch's profiler, which counts bytes, announces itself at every use; only a variable that is set
before torch is imported silences it.
"""

from __future__ import annotations

import os

QUIET = {"KINETO_LOG_LEVEL": "5"}


def be_quiet() -> None:
    """Of this process and those that it starts; what a user has set stays."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
