"""How a misspelt name is answered: with the nearest names, then with all of them."""

from __future__ import annotations

from collections.abc import Iterable

from models.errors import did_you_mean


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> str:
    """One sentence for a name that is not among those allowed.

    Example: ``no ablation 'heds'; did you mean 'heads'? Allowed: complexity, heads.``
    """
    names = sorted(allowed)
    hint = did_you_mean(name, names) or "."
    return f"no {kind} {name!r}{hint} Allowed: {', '.join(names) or 'none'}."
