"""Dilated convolution over time, with a dilation that grows with the layer.

Paper: Kalchbrenner et al. 2016, "Neural Machine Translation in Linear Time" (arXiv:1610.10099),
    ByteNet, section 3; the entry log_k(n) of Table 1 of Vaswani et al. 2017 (arXiv:1706.03762).
Equation: y_t = b + sum_{j=0}^{k-1} W_j x_{t + (j - s) l}, with s = k - 1 (causal) or (k - 1) / 2
    (centred) and l = base^(layer mod cycle); tokens outside the sequence are zero.
Cost: k n d^2; one sequential operation; the number of layers between the farthest positions grows
    with log n: for a causal mixer with base = k it is log_k(n), the entry of Table 1, since the
    windows of a layer tile those of the layer below without gaps or overlap; with base 2 it is
    about log_2(n).
Departures: this is ByteNet's convolution alone; the layer norms, ReLUs and narrowing 1 x 1
    convolutions of its residual block belong to the architecture. ByteNet doubles the dilation up
    to 16 and starts again from 1: `dilation_base=2, num_dilations=5`. By default the dilation
    starts again after 16 layers, so that the path is logarithmic at any length. A base above s + 1,
    with s the number of taps on one side, raises an error: a centred kernel of 3 with dilations 1,
    3, 9 tiles an infinite sequence, but near the ends of a finite one the path from token 0 to
    token 2 = 3 - 1 passes through token -1. A mixer outside a stack is a bottom layer and equals
    `conv`.
Padding: padded tokens enter as zeros, like tokens outside the sequence.
Fast form: `conv1d` with the taps that can reach a token; see `models/kernels/window.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.window import SlidingWindow
from bakeoff.models.mixer import Cost, Mixer
from bakeoff.models.mixers.conv import Convolution


class DilatedConvolution(Convolution):
    """Convolution whose dilation grows with the layer; see the module docstring."""

    name = "dilated_conv"
    paper = "Kalchbrenner et al. 2016, arXiv:1610.10099"
    cost = Cost(
        time="k * n * d**2", sequential_operations="1", maximum_path_length="log2(n) / log2(k)"
    )
    positive_knobs = ("dilation_base", "num_dilations")

    @dataclass(frozen=True, kw_only=True)
    class Config(SlidingWindow.Config):
        """Knobs of the dilated convolution.

        Attributes:
            kernel_size: Number of tokens that an output depends on, itself included; at least 2,
                and odd unless causal.
            dilation_base: Factor between the dilations of successive layers: 1 is an ordinary
                convolution, 2 is ByteNet's. At most `kernel_size` if causal, else
                `(kernel_size + 1) / 2`; larger values would leave some tokens unreachable.
            num_dilations: Number of layers after which the dilation starts again from 1.
        """

        dilation_base: int = 2
        num_dilations: int = 16

    def make_parameters(self, config: Config) -> None:  # type: ignore[override]
        """Create the kernel; see `Convolution.make_parameters`.

        Raises:
            ModelError: The base leaves gaps between windows.
        """
        super().make_parameters(config)
        if config.dilation_base > self.taps_before + 1:
            raise ModelError(
                f"{self.name}: dilation_base={config.dilation_base} is above "
                f"{self.taps_before + 1}, the largest that leaves no token unseen at "
                f"kernel_size={config.kernel_size} and is_causal={self.is_causal}"
            )
        self.dilation_base = config.dilation_base
        self.num_dilations = config.num_dilations

    def take_place(self, layer: int, first: Mixer) -> None:
        """Set the dilation of this layer."""
        self.dilation = self._dilation_of(layer)

    def _dilation_of(self, layer: int) -> int:
        return int(self.dilation_base ** (layer % self.num_dilations))
