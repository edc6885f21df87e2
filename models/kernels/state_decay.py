"""Decay of a matrix state: logarithms of decays, fixed or computed from each token.

    fixed     log(1 - 2^-(5+h)) for head h = 0, 1, ..           RetNet (arXiv:2307.08621)
    head      -exp(A_h) softplus(w_h x + d_h)                   Mamba-2, Gated DeltaNet
    channel   the same for each channel of the keys, with w     Kimi Linear (arXiv:2510.26692)
              of the rank of a head's width
    sigmoid   log sigmoid(W x + b) / 16 for each channel,       GLA (arXiv:2312.06635)
              W of rank 16

The initial A is the logarithm of a uniform number, drawn in float32: bfloat16 rounds some to 0, and
a head with log(0) does not train. The initial d makes softplus(d) log-uniform in .001 to .1. Both
keep their draws. Everything is computed in at least float32.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.softmax_attention import split_heads

_LEAST_STEP, _SHORT_STEP, _LONG_STEP = 1e-4, 1e-3, 1e-1
_LEAST_RATE = 1e-4  # lower bound of a uniform draw that may be 0
_RANK, _TEMPERATURE = 16, 16.0  # values of GLA


class Decay(nn.Module, ABC):
    """Logarithms of decays, one per head or one per channel."""

    def __init__(self, dim: int, heads: int, key_width: int) -> None:
        super().__init__()
        self.dim, self.heads, self.key_width = dim, heads, key_width

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, time, dim]` to `[batch, heads, time, 1 or key_width]`, none above 0."""

    @abstractmethod
    def of_token(self, x: Tensor) -> Tensor:
        """Compute the definition, for references: `[dim]` -> `[heads, 1 or key_width]`."""

    def width(self) -> int:
        """Return how many numbers a head has at each token."""
        return 1

    def multiplications(self) -> int:
        """Return the multiplications per token in matrix products."""
        return 0


class FixedDecay(Decay):
    """A constant per head; the first head has the fastest decay."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the same decays for every token, with a batch of one."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        heads = torch.arange(self.heads, device=x.device, dtype=dtype)
        log_decay = torch.log1p(-torch.exp2(-5.0 - heads))
        return log_decay.reshape(1, -1, 1, 1).expand(-1, -1, x.shape[1], -1)

    def of_token(self, x: Tensor) -> Tensor:
        """Compute the logarithms by formula, for references."""
        rates = [[math.log(1 - 2.0 ** -(5 + h))] for h in range(self.heads)]
        return torch.tensor(rates, dtype=x.dtype, device=x.device)


class HeadDecay(Decay):
    """A number per head, from steps that depend on the token.

    Args:
        dim: Width of a token.
        heads: Number of heads.
        key_width: Width of a head's keys.
        slowest: Lower end of the uniform draw of exp(A); the upper one is 16.
    """

    keeps_own_draw = ("a_log", "dt_bias")
    no_weight_decay = ("a_log", "dt_bias")

    def __init__(self, dim: int, heads: int, key_width: int, slowest: float = 0.0) -> None:
        super().__init__(dim, heads, key_width)
        self.make_map()
        rate = torch.empty(heads, dtype=torch.float32).uniform_(slowest, 16.0)
        self.a_log = nn.Parameter(rate.clamp(min=_LEAST_RATE).log())
        self.dt_bias = nn.Parameter(_first_steps(heads * self.width()))

    def make_map(self) -> None:
        """Create the map from a token to its steps."""
        self.step_map: nn.Module = linear_map(self.dim, self.heads)

    def steps(self, x: Tensor) -> Tensor:
        """Compute softplus(W x + d), `[batch, heads, time, width]`."""
        mapped = self.step_map(x)
        wide = torch.promote_types(mapped.dtype, torch.float32)
        steps = functional.softplus(mapped.to(wide) + self.dt_bias.to(wide))
        return split_heads(steps, self.heads)

    def of_steps(self, steps: Tensor) -> Tensor:
        """Multiply steps by -exp(A)."""
        return -self.a_log.to(steps.dtype).exp().reshape(-1, 1, 1) * steps

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, time, dim]` to `[batch, heads, time, width]`, none above 0."""
        return self.of_steps(self.steps(x))

    def steps_of_token(self, x: Tensor) -> Tensor:
        """Compute the steps of one token, `[dim]` -> `[heads, width]`."""
        for weight in self.step_map.parameters():
            x = weight @ x
        steps = torch.log1p((x + self.dt_bias).exp())
        return steps.reshape(self.heads, -1)

    def of_token(self, x: Tensor) -> Tensor:
        """Compute the definition, for references: `[dim]` -> `[heads, width]`."""
        rates = [self.a_log[h].exp() for h in range(self.heads)]
        return -torch.stack(rates).unsqueeze(1) * self.steps_of_token(x)

    def multiplications(self) -> int:
        """Return the multiplications per token of one map."""
        return self.dim * self.heads


class ChannelDecay(HeadDecay):
    """A number per channel, from steps through a map of low rank."""

    def make_map(self) -> None:
        """Create maps down to the width of a head, and up to all heads."""
        self.step_map = nn.Sequential(
            linear_map(self.dim, self.key_width),
            linear_map(self.key_width, self.heads * self.key_width),
        )

    def width(self) -> int:
        """Return the number of channels of a head."""
        return self.key_width

    def multiplications(self) -> int:
        """Return the multiplications per token of two maps."""
        return self.key_width * (self.dim + self.heads * self.key_width)


class SigmoidDecay(Decay):
    """A number per channel, slowed by a temperature."""

    def __init__(self, dim: int, heads: int, key_width: int) -> None:
        super().__init__(dim, heads, key_width)
        self.down = linear_map(dim, _RANK)
        self.up = linear_map(_RANK, heads * key_width)
        self.bias = nn.Parameter(torch.zeros(heads * key_width))

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, time, dim]` to `[batch, heads, time, key_width]`, none above 0."""
        mapped = self.up(self.down(x))
        wide = torch.promote_types(mapped.dtype, torch.float32)
        slow = functional.logsigmoid(mapped.to(wide) + self.bias.to(wide)) / _TEMPERATURE
        return split_heads(slow, self.heads)

    def width(self) -> int:
        """Return the number of channels of a head."""
        return self.key_width

    def of_token(self, x: Tensor) -> Tensor:
        """Compute the definition, for references: `[dim]` -> `[heads, key_width]`."""
        mapped = self.up.weight @ (self.down.weight @ x) + self.bias
        slow = (1 / (1 + torch.exp(-mapped))) ** (1 / _TEMPERATURE)
        return slow.log().reshape(self.heads, -1)

    def multiplications(self) -> int:
        """Return the multiplications per token of two maps."""
        return _RANK * (self.dim + self.heads * self.key_width)


DECAYS: dict[str, type[Decay]] = {
    "fixed": FixedDecay,
    "head": HeadDecay,
    "channel": ChannelDecay,
    "sigmoid": SigmoidDecay,
}


def _first_steps(num: int) -> Tensor:
    """Draw biases whose softplus is log-uniform."""
    low, high = math.log(_SHORT_STEP), math.log(_LONG_STEP)
    steps = torch.empty(num, dtype=torch.float32).uniform_(low, high).exp().clamp(min=_LEAST_STEP)
    return steps + torch.log(-torch.expm1(-steps))
