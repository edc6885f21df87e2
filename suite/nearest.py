"""How a misspelt name is answered: with the nearest names, then with all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> str:
    """One sentence for a name that is not among those allowed.

    Example: ``no ablation 'heds'; did you mean 'heads'? Allowed: heads, mixers.``
    """
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(match) for match in near)}?" if near else "."
    return f"no {kind} {name!r}{hint} Allowed: {', '.join(names) or 'none'}."
