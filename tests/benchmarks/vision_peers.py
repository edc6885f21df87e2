"""Adapt timm's attention layers of vision models as mixers, on a grid of one row.

Each function takes one of our mixers and returns a module from `[batch, time, dim]` to the same
shape, with that mixer's parameters.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from tests.benchmarks.torch_peers import BetweenProjections, Wrapped
from tests.parity.without_torchvision import timm


def talking_heads(ours: Any) -> nn.Module:
    """Build `TalkingHeadAttn`, which copies the scores for each of its two maps."""
    timm()
    from timm.models.cait import TalkingHeadAttn

    theirs = TalkingHeadAttn(ours.dim, ours.heads, qkv_bias=True)
    _join(theirs.qkv, ours)
    for part, own in (("proj", "output"), ("proj_l", "before"), ("proj_w", "after")):
        getattr(theirs, part).load_state_dict(getattr(ours, own).state_dict())
    return theirs


class CausalTalkingHeads(BetweenProjections):
    """Masked talking heads by einsum, after the paper's listing (arXiv:2003.02436, appendix A)."""

    def __init__(self, ours: Any) -> None:
        super().__init__(ours, self._attend)
        self.before, self.after = copy.deepcopy(ours.before), copy.deepcopy(ours.after)

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        scores = torch.einsum("bhik,bhjk->bijh", queries, keys) * queries.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[1:3], dtype=torch.bool, device=scores.device).triu(1)
        scores = self.before(scores).masked_fill(hidden[:, :, None], -torch.inf)
        weights = self.after(scores.softmax(dim=2)).masked_fill(hidden[:, :, None], 0.0)
        return torch.einsum("bijh,bhjv->bhiv", weights, values)


def outlook(ours: Any) -> nn.Module:
    """Build `OutlookAttention`."""
    timm()
    from timm.models.volo import OutlookAttention

    side = ours.config.window_size
    theirs = OutlookAttention(ours.dim, ours.heads, side, side // 2, ours.config.stride)
    for part, own in (("v", "value"), ("attn", "weights"), ("proj", "output")):
        getattr(theirs, part).load_state_dict(getattr(ours, own).state_dict())
    return Wrapped(theirs, lambda layer, x: layer(x.unsqueeze(1)).squeeze(1))


def window(ours: Any) -> nn.Module:
    """Build Swin's `WindowAttention`, over windows of the largest length within one row."""
    timm()
    from timm.models.swin_transformer import WindowAttention

    side = ours.config.window
    theirs = WindowAttention(ours.dim, ours.heads, window_size=(1, side))
    _join(theirs.qkv, ours)
    theirs.proj.load_state_dict(ours.output.state_dict())
    of_one_row = ours.relative_bias.table.view(2 * side - 1, 2 * side - 1, ours.heads)[side - 1]
    theirs.load_state_dict({"relative_position_bias_table": of_one_row}, strict=False)

    def call(layer: Any, x: Tensor) -> Tensor:
        windows = x.reshape(-1, side, x.shape[2])
        mixed: Tensor = layer(windows).reshape(x.shape)
        return mixed

    return Wrapped(theirs, call)


def _join(theirs: nn.Linear, ours: Any) -> None:
    """Copy queries, keys and values into one map of theirs."""
    parts = (ours.query, ours.key, ours.value)
    state = {"weight": torch.cat([part.weight for part in parts])}
    theirs.load_state_dict(state | {"bias": torch.cat([part.bias for part in parts])})
