"""`python -m tools.chaos.faulty kill:before:journal: commit:2 -- run FILE --out DIR`: to watch one.

Several faults may stand before the two dashes.
"""

from __future__ import annotations

import sys

from tools.chaos.faults import install, parsed


def main() -> None:
    """Install the faults, and run the command."""
    at = sys.argv.index("--")
    install([parsed(text) for text in sys.argv[1:at]])
    sys.argv[1 : at + 1] = []
    from suite.cli import main as bakeoff

    bakeoff()


if __name__ == "__main__":
    main()
