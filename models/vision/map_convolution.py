"""Convolutions of feature maps `[batch, channels, rows, columns]`, and the sizes of those maps."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

Grid = tuple[int, int]  # rows and columns


class MapConvolution(nn.Conv2d):
    """A convolution whose output has the size of its input, divided by the stride.

    Weights are drawn from normal(0, 2 / (outputs * side^2)), so that gradients of a map keep their
    variance through a ReLU (He et al. 2015, arXiv:1502.01852, equation 14); a bias is zero.
    """

    def __init__(
        self, inputs: int, outputs: int, side: int = 1, *, stride: int = 1, bias: bool = False
    ) -> None:
        super().__init__(inputs, outputs, side, stride=stride, padding=side // 2, bias=bias)
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of one map of this size; zeros of the padding are multiplied too."""
        rows, columns = strided(grid, self.stride[0])
        return 2.0 * rows * columns * self.weight.numel()


def strided(grid: Grid, stride: int) -> Grid:
    """Return the size of a map after a stride, rounded up."""
    return -(-grid[0] // stride), -(-grid[1] // stride)


def pooled(x: Tensor, stride: int) -> Tensor:
    """Return the means over squares of stride x stride; at the edges, squares may be smaller."""
    return x if stride == 1 else functional.avg_pool2d(x, stride, ceil_mode=True)
