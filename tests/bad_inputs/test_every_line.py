"""Check that every line of the list of bad inputs has a test.

The list is older than the code. A case of a table covers the line that its key begins with, as
``line-04 an unknown field``; any other test carries the marker ``bad_input``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LINES = {
    1: "an empty file",
    2: "a syntax error",
    3: "no ABLATION, two, or of another type",
    4: "an unknown field",
    5: "a value of another type",
    6: "NaN or infinity",
    7: "zero or negative length, batch, steps, seeds",
    8: "10^26 of anything",
    9: "heads that do not divide the width",
    10: "unknown mixer, task, probe, metric, position",
    11: "a claim about no variant or metric",
    12: "an axis that names no field",
    13: "an empty axis; the same value twice",
    14: "a cross of 10^9 trials",
    15: "a name that already ships",
    16: "a name that is a path, too long, or hides something",
    17: "a file that raises, imports what is missing, or never returns",
    18: "a mixer of the user's own that breaks the contract",
    19: "an impossible baseline; an impossible cell",
    20: "too few seeds for the claim",
    21: "cluster.yaml against Ray's schema",
    22: "published figures with a missing column",
    23: "an unknown flag, a missing value",
    25: "an output folder that cannot be one",
    26: "two runners on one output folder",
    28: "Ctrl-C twice",
    29: "shell metacharacters",
    30: "garbage for an address",
    31: "nobody at the address",
    32: "far away without a token",
    33: "a wrong token",
    34: "a cluster of another version",
    35: "tokens switched off, far away",
    36: "a password in the store's address",
    37: "a store in a folder that is none of ours",
    38: "a server that fails, hangs, or speaks HTML",
    39: "a database locked, read-only, or old",
    40: "names and values beyond the store's limits",
    41: "a missing, empty or short data file",
    42: "another digest",
    43: "content that is none: no number, no symbol, nothing",
    44: "an archive that does harm",
    45: "a pickled array",
    46: "a pickle for a checkpoint",
    47: "a damaged checkpoint",
    48: "hostile text and odd numbers in reports",
}
_KEY = re.compile(r"line-(\d\d)\b")


def _covered(file: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.bad_input":
            yield from (ast.literal_eval(line) for line in node.args)
        is_key = isinstance(node, ast.Dict) and file.parent == Path(__file__).parent
        for key in node.keys if is_key else ():  # type: ignore[attr-defined]
            if isinstance(key, ast.Constant) and (found := _KEY.match(str(key.value))):
                yield int(found[1])


def test_every_line_has_a_test_and_no_other_line_is_named() -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    covered = {line for file in files for line in _covered(file)}
    assert covered == set(LINES), sorted(covered ^ set(LINES))
