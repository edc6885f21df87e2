"""Plausible bugs of vision models and of their recipes, which the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_RESNET: tuple[Mutant, ...] = ()

_SWIN: tuple[Mutant, ...] = ()

_CAIT_AND_VOLO: tuple[Mutant, ...] = ()

_DEIT_AND_LEVIT: tuple[Mutant, ...] = ()

_RECIPES: tuple[Mutant, ...] = ()

MUTANTS_OF_VISION = (*_RESNET, *_SWIN, *_CAIT_AND_VOLO, *_DEIT_AND_LEVIT, *_RECIPES)
