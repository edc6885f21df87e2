"""Bugs of CaiT and VOLO, and of their mixers."""

from __future__ import annotations

from mistakes import Mutant

_CLASS_ATTENTION = "vision/class_attention.py"
_OF_CLASS_ATTENTION = "vision/test_class_attention.py"
_OF_CAIT = "architectures/test_cait.py"
_VOLO = "architectures/volo.py"
_OF_VOLO = "architectures/test_volo.py"
_TALKING_HEADS = "mixers/attentions/talking_heads.py"
_OUTLOOK = "mixers/attentions/outlook_attention.py"
_OF_OUTLOOK = "mixers/attentions/test_outlook_attention.py"
MUTANTS_OF_CAIT_AND_VOLO: tuple[Mutant, ...] = (
    Mutant(
        "LayerScale is one number for all channels",
        "sublayers.py",
        "nn.Parameter(torch.full((dim,), start))",
        "nn.Parameter(torch.full((1,), start))",
        "layer_scale",
        battery=_OF_CAIT,
    ),
    Mutant(
        "the class token of CaiT gets a position",
        _CLASS_ATTENTION,
        "first, patches = x[:, :1], self.mixed(x[:, 1:])",
        "first, patches = self.position(x[:, :1]), self.mixed(x[:, 1:])",
        "papers_order or no_position",
        battery=_OF_CAIT,
    ),
    Mutant(
        "blocks of the class token change the patches",
        _CLASS_ATTENTION,
        "            first = block(first, patches)\n",
        "            first = block(first, patches)\n            patches = patches + first\n",
        "papers_order or keep_theirs",
        battery=_OF_CAIT,
    ),
    Mutant(
        "keys and values of class attention are those of patches alone",
        _CLASS_ATTENTION,
        "(self.key, x), (self.value, x)",
        "(self.key, x[:, 1:]), (self.value, x[:, 1:])",
        "papers_loop",
        battery=_OF_CLASS_ATTENTION,
    ),
    Mutant(
        "patches are not normed before the class token reads them",
        _CLASS_ATTENTION,
        'return cast("Tensor", add(x, call(normed(norm, read))))',
        'return cast("Tensor", add(x, call(torch.cat([normed(norm, x), read[:, 1:]], 1))))',
        "formula",
        battery=_OF_CLASS_ATTENTION,
    ),
    Mutant(
        "blocks of the class token are left out by chance",
        _CLASS_ATTENTION,
        "replace(config, stochastic_depth=0.0)",
        "config",
        "formula",
        battery=_OF_CLASS_ATTENTION,
    ),
    Mutant(
        "stochastic depth of CaiT grows with depth",
        "architectures/cait.py",
        'stochastic_depth_rule: Literal["linear", "constant"] = "constant"',
        'stochastic_depth_rule: Literal["linear", "constant"] = "linear"',
        "constant",
        battery=_OF_CAIT,
    ),
    Mutant(
        "the second map over heads comes before the softmax",
        _TALKING_HEADS,
        ", visible\n        )\n        weights = _over_heads(self.after, weights)\n",
        ", visible\n        ) if self.after is None else softmax_weights(_over_heads(self.after, "
        "_over_heads(self.before, self.scale * queries @ keys.transpose(-1, -2))), visible)\n",
        "talking_heads",
    ),
    Mutant(
        "the bias after the softmax reaches hidden keys",
        _TALKING_HEADS,
        "if not visible.is_everything() and",
        "if False and",
        "talking_heads",
    ),
    Mutant(
        "heads talk by the transposed map",
        _TALKING_HEADS,
        "torch.bmm(linear.weight.expand(",
        "torch.bmm(linear.weight.T.expand(",
        "talking_heads",
    ),
    Mutant(
        "weights of a window come from its neighbours, not its centre",
        _OUTLOOK,
        "        if side == 1:\n            return x, mask\n",
        "        if side == 1:\n            return x.roll(1, dims=1), mask\n",
        "loop or centre",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "what windows give a place is averaged",
        _OUTLOOK,
        "self.output(self._summed(taken, grid))",
        "self.output(self._summed(taken, grid) / self.places)",
        "loop or summed",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "what places take is added to the places across",
        _OUTLOOK,
        "taken.unbind(dim=3)",
        "taken.flip(3).unbind(dim=3)",
        "loop",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "the softmax of a window is over the places that take",
        _OUTLOOK,
        ".mul_(self.scale).softmax(dim=-1)",
        ".mul_(self.scale).softmax(dim=-2)",
        "loop or scale",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "around padding alone there are windows too",
        _OUTLOOK,
        "return weights if real is None else weights * real[:, :, None, None, None]",
        "return weights",
        "padding",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "padding has its share of a mean of centres",
        _OUTLOOK,
        "return pooled / share.masked_fill(share == 0, 1.0), real",
        "return pooled, real",
        "padding",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "a head of tokens adds its mean",
        _VOLO,
        "of_tokens.amax(dim=1)",
        "of_tokens.mean(dim=1)",
        "head_of_tokens",
        battery=_OF_VOLO,
    ),
    Mutant(
        "outlookers are left out by chance",
        _VOLO,
        "replace(config, stochastic_depth=0.0)",
        "replace(config)",
        "by_chance",
        battery=_OF_VOLO,
    ),
)
