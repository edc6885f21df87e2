"""Bugs of scaling laws: of the fit, of what it is given, of what is said of it, of the plan."""

from __future__ import annotations

from mistakes import Mutant

_FIT = "analysis/test_scaling_law.py"
_SECTION = "sections/test_scaling_law.py"
_PLAN = "planning/test_scaling_laws.py"

MUTANTS_OF_SCALING_LAWS: tuple[Mutant, ...] = (
    Mutant(
        "the law takes tokens for parameters",
        "analysis/scaling_law.py",
        "return x - x.mean(), z - z.mean(), (float(x.mean()), float(z.mean()))",
        "return z - z.mean(), x - x.mean(), (float(z.mean()), float(x.mean()))",
        "taken_for_each_other or without_noise",
        battery=_FIT,
        room="reports",
    ),
    Mutant(
        "the law is fitted to what is held out, too",
        "sections/scaling_law.py",
        "seen=tuple(one for one in here if not _is_held_out(about, one.variant)),",
        "seen=tuple(here),",
        "held_out",
        battery=_SECTION,
        room="reports",
    ),
    Mutant(
        "all laws have the same draws",
        "analysis/scaling_law.py",
        "zlib.crc32(name.encode())",
        "0",
        "drawn_apart",
        battery=_FIT,
        room="reports",
    ),
    Mutant(
        "the scale of a term is taken off its centre the wrong way",
        "analysis/scaling_law.py",
        "self.theta[:, 1] + self.parameter_exponent",
        "self.theta[:, 1] - self.parameter_exponent",
        "without_noise or formula",
        battery=_FIT,
        room="reports",
    ),
    Mutant(
        "the difference of two laws has the wrong sign",
        "analysis/scaling_law.py",
        "float(quantity(a.best)[0] - quantity(b.best)[0])",
        "float(quantity(b.best)[0] - quantity(a.best)[0])",
        "as_much_as",
        battery=_FIT,
        room="reports",
    ),
    Mutant(
        "an outlier has its full weight",
        "analysis/scaling_law.py",
        "return max(_WIDTH * spread, _FINEST)",
        "return max(1e3 * spread, _FINEST)",
        "outlier",
        battery=_FIT,
        room="reports",
    ),
    Mutant(
        "tokens are counted without the batch",
        "sections/scaling_law.py",
        "num_tokens = steps * batch * _length",
        "num_tokens = steps * _length",
        "parameters_are_of",
        battery=_SECTION,
        room="reports",
    ),
    Mutant(
        "a budget buys as many tokens as their cost",
        "sections/scaling_law.py",
        "fitted = law.best.log_losses(sizes, flops / costs)[0]",
        "fitted = law.best.log_losses(sizes, flops * costs)[0]",
        "best_size",
        battery=_SECTION,
        room="reports",
    ),
    Mutant(
        "a worse training is called better",
        "sections/scaling_law.py",
        'side = "worse" if one.miss > 0 else "better"',
        'side = "better" if one.miss > 0 else "worse"',
        "miss_is_said",
        battery=_SECTION,
        room="reports",
    ),
    Mutant(
        "what is held out may be as small as what is seen",
        "planning/claims.py",
        "if value <= max(numbers):",
        "if value < max(numbers):",
        "refused",
        battery=_PLAN,
        room="suite",
    ),
    Mutant(
        "the rate rises with the width",
        "planning/resolve.py",
        "((usual.dim or 1) / (scale.dim or 1))",
        "((scale.dim or 1) / (usual.dim or 1))",
        "fall_with",
        battery=_PLAN,
        room="suite",
    ),
)
