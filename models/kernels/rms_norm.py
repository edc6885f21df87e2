"""RMS norm inside a mixer, computed in the dtype of its input.

Under autocast, the output of a projection is bfloat16 while a learned gain stays in float32. torch
then does not use its fused kernel and warns. With the gain rounded to the input's dtype it uses the
fused kernel without a warning, and still sums in float32.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class InnerNorm(nn.RMSNorm):
    """A norm that divides the last axis by its root mean square and applies a learned gain.

    Args:
        width: Size of the last axis.
        eps: Added to the mean square, so that zeros stay zeros.
    """

    eps: float

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `[..., width]`, in the dtype of the input."""
        gain = self.weight.to(x.dtype)
        return functional.rms_norm(x, self.normalized_shape, gain, self.eps)


def norm_by_definition(vector: Tensor, norm: InnerNorm) -> Tensor:
    """Compute the norm of one vector `[width]` by its formula, for references."""
    return norm.weight * vector / ((vector * vector).mean() + norm.eps).sqrt()
