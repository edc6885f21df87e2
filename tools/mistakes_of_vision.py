"""Plausible bugs of vision models and of their recipes, which the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_RESNET: tuple[Mutant, ...] = ()

_SWIN: tuple[Mutant, ...] = ()

_CAIT_AND_VOLO: tuple[Mutant, ...] = ()

_DEIT = "architectures/deit.py"
_OF_DEIT = "architectures/test_deit.py"

_DEIT_AND_LEVIT: tuple[Mutant, ...] = (
    Mutant(
        "the class and the distillation head are swapped",
        _DEIT,
        "heads = self.head(own), self.distillation_head(taught)",
        "heads = self.distillation_head(own), self.head(taught)",
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "the class head learns from the teacher",
        _DEIT,
        "Outputs(own, {DISTILLATION: taught})",
        "Outputs(taught, {DISTILLATION: own})",
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "in evaluation the class head answers alone",
        _DEIT,
        "else (own + taught) / 2",
        "else own",
        "mean_of_both",
        battery=_OF_DEIT,
    ),
    Mutant(
        "the distillation token comes before the class token",
        _DEIT,
        '(*before, "distillation_token")',
        '("distillation_token", *before)',
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "learned tokens get no position",
        "stack.py",
        "x = self.dropout(self.position(x))\n        if self.is_reversible:",
        "places = self.position(0 * x)\n"
        "        places[:, :2] = 0\n"
        "        x = self.dropout(x + places)\n"
        "        if self.is_reversible:",
        "reads_its_token",
        battery=_OF_DEIT,
    ),
)

_RECIPES: tuple[Mutant, ...] = ()

MUTANTS_OF_VISION = (*_RESNET, *_SWIN, *_CAIT_AND_VOLO, *_DEIT_AND_LEVIT, *_RECIPES)
