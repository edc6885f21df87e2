"""MLP-Mixer's token mixing: one perceptron over time, shared by all channels.

Paper: Tolstikhin et al. 2021, "MLP-Mixer: An all-MLP Architecture for Vision" (arXiv:2105.01601),
    equation 1, first line; its second line, over channels, is the block's feed-forward layer.
Equation: y_{*,i} = W_2 gelu(W_1 x_{*,i} + b_1) + b_2 for each channel i, W_1 of shape hidden x n
    and W_2 of shape n x hidden. Norm and residual belong to the block.
Cost: n k d for a hidden width of k; one sequential operation; any two positions are one step
    apart.
Departures: equation 1 has no biases; the paper's code has them. The GELU is exact, where the
    paper's code uses the tanh approximation. Weights start from normal(0, 1 / inputs), as in the
    paper's code but not truncated, and biases from zero. Sequences shorter than `max_length` use
    the first columns of W_1, and the first rows of W_2 and b_2, one per position; the paper has a
    single length.
Padding: a padded token enters as zeros and so adds nothing to the hidden layer; each real token
    keeps the weights of its position.
Order: every position has its own weights, so the mixer distinguishes orders without a position
    encoding.
Fast form: convolutions of width 1, with positions as channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import scaled_normal
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, without_padding


class MLPMixer(Mixer):
    """Perceptron over time, shared by all channels; see the module docstring."""

    name = "mlp_mixer"
    paper = "Tolstikhin et al. 2021, arXiv:2105.01601"
    family = "token mixing"
    cost = Cost(time="n * k * d", sequential_operations="1", maximum_path_length="1")
    why_not_causal = "every hidden unit sums over all tokens, later ones too"
    fixed_length = True
    is_position_aware = True
    mask_mode = "exact"
    positive_knobs = ("hidden",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of MLP-Mixer.

        Attributes:
            hidden: Width of the hidden layer over time; Mixer-S has 256, for 196 patches.
        """

        hidden: int = 256

    def make_parameters(self, config: Config) -> None:
        """Create two linear maps over time."""
        self.hidden = config.hidden
        self.expand = nn.Linear(self.max_length, self.hidden)
        self.contract = nn.Linear(self.hidden, self.max_length)
        scaled_normal(self.expand)
        scaled_normal(self.contract)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        length = x.shape[1]
        into = self.expand.weight[:, :length].unsqueeze(-1)
        hidden = functional.conv1d(without_padding(x, mask), into, self.expand.bias)
        out_of = self.contract.weight[:length].unsqueeze(-1)
        return functional.conv1d(functional.gelu(hidden), out_of, self.contract.bias[:length])

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of two products of length by hidden for each channel."""
        self.check_context_length(context_length)
        return float(batch * self.dim * 2 * 2 * length * self.hidden)

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the hidden width."""
        return {"k": self.hidden}

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes on one thread: the hidden layer before and after GELU, and output.

        If the sequence is shorter than `max_length`, the used part of the weights is copied first.

        Raises:
            ModelError: There are several threads; torch then uses oneDNN for long sequences, which
                always copies the weights.
        """
        self.check_context_length(context_length)
        if torch.get_num_threads() > 1:
            raise ModelError(f"{self.name} gives no formula for its bytes on several threads")
        hidden = 4 * batch * self.dim * self.hidden
        copied = 4 * self.hidden * length if length < self.max_length else 0
        return float(hidden + max(copied, hidden + 4 * batch * self.dim * length))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one channel at a time, with one sum over real tokens per hidden unit."""
        columns = [self._one_channel(x[:, i], seen) for i in range(self.dim)]
        return torch.stack(columns, dim=1)

    def _one_channel(self, column: Tensor, real: list[int]) -> Tensor:
        """Return b_2 + sum_h w_2h gelu(b_1h + sum_t w_1ht x_t), `[time]`."""
        sums: Tensor = self.expand.bias
        for t in real:
            sums = sums + self.expand.weight[:, t] * column[t]
        gelu = sums * (1 + torch.erf(sums / 2**0.5)) / 2
        return self.contract.bias[: len(column)] + self.contract.weight[: len(column)] @ gelu
