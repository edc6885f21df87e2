"""Plausible bugs in RWKV-7 and in rivals of the Long Range Arena that the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_REMOVAL = "kernels/removal_state.py"
_RWKV7 = "mixers/states/rwkv7.py"
_SYNTHESIZER = "mixers/sparse/synthesizer.py"
_SINKHORN = "mixers/sparse/sinkhorn.py"
_STRIDED = "mixers/sparse/strided_attention.py"

MUTANTS_OF_ARENA: tuple[Mutant, ...] = (
    Mutant(
        "what is erased is read after the decay, as in the delta rule",
        _REMOVAL,
        "queries, found = s.queries * since, s.found * (so_far - s.decay()).exp()",
        "queries, found = s.queries * since, s.found * since",
        "rwkv7",
    ),
    Mutant(
        "a padded token erases",
        _RWKV7,
        "        erased=erased,\n    )\n",
        "        erased=s.erased,\n    )\n",
        "rwkv7",
    ),
    Mutant(
        "a step meets the same token before it for ever",
        _RWKV7,
        "return out, ((matrix, x.squeeze(1)) if last else (matrix,))",
        "return out, (matrix, *last)",
        "rwkv7",
    ),
    Mutant(
        "the write is not scaled by the rate",
        _RWKV7,
        "replaced = keys * (1 + (rates - 1) * self.replacement.to(keys.dtype))",
        "replaced = keys * (1 + self.replacement.to(keys.dtype))",
        "rwkv7",
    ),
    Mutant(
        "the two factors of a column are swapped",
        _SYNTHESIZER,
        "fine[..., columns % self.period] * coarse[..., columns // self.period]",
        "fine[..., columns // self.period] * coarse[..., columns % self.period]",
        "synthesizer",
    ),
    Mutant(
        "hidden layers are not rectified",
        _SYNTHESIZER,
        "split_heads(torch.relu(self.hidden(x)), self.heads)",
        "split_heads(self.hidden(x), self.heads)",
        "synthesizer",
    ),
    Mutant(
        "a key of both sets counts twice",
        _STRIDED,
        "sets = [near, Rows(far.queries, far.keys, once)]",
        "sets = [near, far]",
        "strided_attention",
    ),
    Mutant(
        "the window is a token short",
        _STRIDED,
        "return (queries - keys).abs() <= self.stride\n",
        "return (queries - keys).abs() < self.stride\n",
        "strided_attention",
    ),
    Mutant(
        "a step gives all heads both sets",
        _STRIDED,
        'sets = [near | far] * 2 if self.config.joined == "merged" else [near, far]',
        "sets = [near | far] * 2",
        "strided_attention",
    ),
    Mutant(
        "blocks of padding take part in the sorting",
        _SINKHORN,
        "            is_block = real.any(dim=2)\n",
        "            is_block = torch.ones_like(real.any(dim=2))\n",
        "sinkhorn",
    ),
    Mutant(
        "columns are normed before rows",
        _SINKHORN,
        "for axis in (-1, -2) * iterations:",
        "for axis in (-2, -1) * iterations:",
        "sinkhorn",
    ),
    Mutant(
        "sorted values are those of the block itself",
        _SINKHORN,
        "sorted_to @ _sorted(sorting, values)",
        "sorted_to @ values",
        "sinkhorn",
    ),
)
