"""What becomes of the claims of several ablations when they are judged together?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.evidence import evidence
from reports.multiplicity import holm
from reports.series import Series
from reports.strength import smallest_levels
from reports.verdict import Verdict, judged
from suite.schema import About


def judged_together(cases: Mapping[str, tuple[About, Sequence[Series]]]) -> dict[str, Verdict]:
    """The verdicts under Holm's rule: the more claims are shown, the clearer each must be.

    Every claim counts, also one that lacks seeds: so the level does not hang on what is missing.

    Args:
        cases: Ablation -> what it says and what was measured, as `verdict` takes them.

    Returns:
        Ablation -> verdict, of those that make a claim, in the order of `cases`.
    """
    found = {name: evidence(about, measured) for name, (about, measured) in cases.items()}
    claims = {name: each for name, each in found.items() if each is not None}
    families = holm({name: smallest_levels(each) for name, each in claims.items()})
    return {name: judged(cases[name][0], each, families[name]) for name, each in claims.items()}
