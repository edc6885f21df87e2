"""The norm of what a mixer makes inside: it runs at the precision of its input.

Under autocast a projection comes out in bfloat16 and a learned gain stays in float32. torch then
leaves its fused kernel and warns; with the gain rounded to the input's type it does neither, and
sums in float32 all the same.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class InnerNorm(nn.RMSNorm):
    """Divide the last axis by its root mean square and scale it by a learned gain.

    Args:
        width: Size of the last axis.
        eps: Added to the mean square, so that zeros stay zeros.
    """

    eps: float

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """`[..., width]` in the type of the input."""
        gain = self.weight.to(x.dtype)
        return functional.rms_norm(x, self.normalized_shape, gain, self.eps)


def norm_by_definition(vector: Tensor, norm: InnerNorm) -> Tensor:
    """`[width]`: the same, written out, for references."""
    return norm.weight * vector / ((vector * vector).mean() + norm.eps).sqrt()
