"""Bugs of DeiT and LeViT."""

from __future__ import annotations

from mistakes import Mutant

_DEIT = "architectures/deit.py"
_OF_DEIT = "architectures/test_deit.py"
_LEVIT = "architectures/levit.py"
_OF_LEVIT = "architectures/test_levit.py"
_BIASED = "vision/biased_attention.py"

MUTANTS_OF_DEIT_AND_LEVIT: tuple[Mutant, ...] = (
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
        "x = self.dropout(normed(self.embedding_norm, self.position(x), mask))\n",
        "places = self.position(0 * x)\n"
        "        places[:, :2] = 0\n"
        "        x = self.dropout(normed(self.embedding_norm, x + places, mask))\n",
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "the bias takes columns for rows",
        _BIASED,
        "places = down[:, None, :, None] * columns + across[None, :, None, :]",
        "places = down[:, None, :, None] + across[None, :, None, :] * rows",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "the bias has the sign of a distance",
        _BIASED,
        "torch.arange(columns)).abs()",
        "torch.arange(columns)) % columns",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "shrinking takes the queries of odd rows and columns",
        _BIASED,
        "return on_grid[:, :: self.stride, :: self.stride].flatten(1, 2)",
        "on_grid = on_grid.roll((-1, -1), (1, 2))\n"
        "        return on_grid[:, :: self.stride, :: self.stride].flatten(1, 2)",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "values of a shrinking attention are as wide as those of others",
        _BIASED,
        "(4 if shrinks else 2) * key_dim",
        "2 * key_dim",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "the last gain of an attention starts at 1",
        _BIASED,
        "(dim, 0.0) if shrinks_to is None",
        "(dim, 1.0) if shrinks_to is None",
        "identity",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "the last gain of a feed-forward starts at 1",
        _BIASED,
        "NormedLinear(hidden, dim, gain=0.0)",
        "NormedLinear(hidden, dim)",
        "identity",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "values do not pass Hardswish before the output map",
        _BIASED,
        "functional.hardswish(mixed) if self.has_activation else mixed",
        "mixed",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "scores are scaled by the width of values",
        _BIASED,
        "scale = self.widths[0] ** -0.5",
        "scale = self.widths[1] ** -0.5",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "a Hardswish stands behind the last convolution",
        _LEVIT,
        "return x.flatten(2).transpose(1, 2)",
        "return functional.hardswish(x).flatten(2).transpose(1, 2)",
        "papers_model",
        battery=_OF_LEVIT,
    ),
)
