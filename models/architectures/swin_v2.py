"""The second Swin transformer: the first one with other default knobs.

Paper: Liu et al. 2022, "Swin Transformer V2: Scaling Up Capacity and Resolution"
    (arXiv:2111.09883), section 3: branches are normed after they are computed, scores are cosines,
    and a network computes the bias of a displacement, on a logarithmic scale.
Departures: those of `bakeoff.models.architectures.swin`. The norms that the paper adds to its
    largest models every six blocks are left out, as is the transfer of a model to larger windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bakeoff.models.architectures.swin import Swin


class SwinV2(Swin):
    """An image `[batch, rows, columns, channels]` -> `[batch, output_size]`."""

    name = "swin_v2"
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(Swin.Config):
        """Knobs of the first version, with the values of the second.

        Attributes:
            norm_placement: See `bakeoff.models.sublayers.StackConfig`.
            relative_bias: See `bakeoff.models.mixers.attentions.window_attention`.
            score: See `bakeoff.models.mixers.attentions.window_attention`.
        """

        norm_placement: Literal["pre", "post", "res_post"] = "res_post"
        relative_bias: Literal["table", "mlp", "none"] = "mlp"
        score: Literal["scaled", "cosine"] = "cosine"
