"""Convolution over time.

Paper: the row "Convolutional" of Table 1 of Vaswani et al. 2017 (arXiv:1706.03762), which stands
    for ByteNet (arXiv:1610.10099) and ConvS2S (Gehring et al. 2017, arXiv:1705.03122).
Equation: y_t = b + sum_{j=0}^{k-1} W_j x_{t + j - s}, W_j of shape dim x dim, with s = k - 1
    (causal) or s = (k - 1) / 2 (centred); tokens outside the sequence are zero.
Cost: k n d^2; one sequential operation; n / k layers between the farthest positions. Table 1
    prints log_k(n), which holds for dilated kernels; these are contiguous.
Departures: the plain linear convolution, without ConvS2S's gates or ByteNet's dilation.
Padding: padded tokens enter as zeros, like tokens outside the sequence.
Fast form: `conv1d`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.errors import ModelError
from models.mixer import Cost, Mixer, State, without_padding


class Convolution(Mixer):
    """Every token takes a learned sum over its neighbours; see the module's note."""

    name = "conv"
    paper = "Gehring et al. 2017, arXiv:1705.03122; Table 1 of arXiv:1706.03762"
    family = "convolution"
    cost = Cost(time="k * n * d**2", sequential_operations="1", maximum_path_length="n / k")
    supports_causal = True
    supports_step = True
    is_position_aware = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of the convolution.

        Attributes:
            kernel_size: Number of neighbouring tokens summed over; odd unless causal.
        """

        kernel_size: int = 3

    def __init__(self, *, dim: int, max_length: int, is_causal: bool, config: Config) -> None:
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        if not is_causal and config.kernel_size % 2 == 0:
            raise ModelError(
                f"{self.name}: kernel_size={config.kernel_size} has no centre; "
                "give an odd one, or is_causal=True"
            )
        self.kernel_size = config.kernel_size
        self.num_before = config.kernel_size - 1 if is_causal else config.kernel_size // 2
        self.conv = nn.Conv1d(dim, dim, config.kernel_size)

    @classmethod
    def check_config(cls, config: Config, *, dim: int) -> None:
        """Refuse an empty kernel."""
        if config.kernel_size < 1:
            raise ModelError(f"{cls.name}: kernel_size={config.kernel_size} is below 1")

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """See `Mixer.forward`."""
        self.check_inputs(x, mask, context)
        channels = without_padding(x, mask).transpose(1, 2)  # (batch, dim, time)
        num_after = self.kernel_size - 1 - self.num_before
        mixed: Tensor = self.conv(functional.pad(channels, (self.num_before, num_after)))
        return mixed.transpose(1, 2)

    def initial_state(self, batch: int) -> State:
        """The last `kernel_size - 1` tokens, zeros at first: `[batch, kernel_size - 1, dim]`."""
        self.check_steps()
        return (self.conv.weight.new_zeros(batch, self.kernel_size - 1, self.dim),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One window, then drop its oldest token."""
        self.check_steps()
        window = torch.cat([state[0], x_t.unsqueeze(1)], dim=1)  # (batch, kernel, dim)
        mixed: Tensor = self.conv(window.transpose(1, 2))  # (batch, dim, 1)
        return mixed.squeeze(2), (window[:, 1:],)

    def state_bytes(self, length: int) -> int:
        """The window: does not grow."""
        self.check_steps()
        return 4 * (self.kernel_size - 1) * self.dim

    def flops(self, length: int, batch: int = 1) -> float:
        """One dim x dim product per token and tap; taps outside the sequence are counted."""
        return float(batch * length * self.kernel_size * 2 * self.dim**2)

    def reference(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """One output token and one tap at a time."""
        sequences = []
        for b in range(x.shape[0]):
            real = {t for t in range(x.shape[1]) if mask is None or bool(mask[b, t])}
            tokens = []
            for t in range(x.shape[1]):
                assert self.conv.bias is not None
                y_t = self.conv.bias.clone()
                for j in range(self.kernel_size):
                    if t + j - self.num_before in real:
                        y_t = y_t + self.conv.weight[:, :, j] @ x[b, t + j - self.num_before]
                tokens.append(y_t)
            sequences.append(torch.stack(tokens))
        return torch.stack(sequences)
