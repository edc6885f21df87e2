"""Plausible bugs in what reads through a few latents or slots, that the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_PERCEIVER = "architectures/perceiver.py"
_OF_PERCEIVER = "architectures/test_perceiver.py"

MUTANTS_OF_LATENTS: tuple[Mutant, ...] = (
    Mutant(
        "the first cross-attend shares its parameters with the others",
        _PERCEIVER,
        "self.stages[min(cross_attend, len(self.stages) - 1)]",
        "self.stages[len(self.stages) - 1]",
        "papers_loop",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "frequencies are in radians",
        _PERCEIVER,
        "angles = math.pi * p.flatten()",
        "angles = p.flatten()",
        "written_out",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "scores are scaled by the latents' width, not the keys'",
        _PERCEIVER,
        "scale=keys.shape[-1] ** -0.5",
        "scale=self.dim**-0.5",
        "papers_loop",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "latents see padding",
        _PERCEIVER,
        "visible = whole_sequence(latents, None, keys, real, is_causal=False)",
        "visible = whole_sequence(latents, None, keys, None, is_causal=False)",
        "papers_loop",
        battery=_OF_PERCEIVER,
    ),
)
