"""The base of convolutions: the window that slides over time, its padding, state and reach.

Output t depends on the tokens t + (j - s) l for taps j = 0 .. k-1, where k is the kernel's size, l
the dilation, and s = k - 1 (causal) or (k - 1) / 2 (centred). Subclasses define the function of the
tokens in the window, in `slide`, and a slow version for verification, in `one_output`.

Padding: padded tokens enter as zeros, like tokens outside the sequence.
Taps that reach no token, because the sequence is too short, are left out: they would multiply
    zeros, and at a dilation of 3^15 there would be 14 million of those.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.mixer import Context, Mask, Mixer, State, without_padding


@dataclass(frozen=True, kw_only=True)
class Window:
    """The part of a kernel that reaches a token of a sequence.

    Attributes:
        taps: Slice of the kernel's taps; it includes at least the tap of the token itself.
        num_before: Tokens between the earliest in reach and the token itself.
        num_after: Tokens between the token itself and the latest in reach.
        dilation: Distance in tokens from one tap to the next.
    """

    taps: slice
    num_before: int
    num_after: int
    dilation: int


class SlidingWindow(Mixer):
    """A mixer whose outputs each depend on the same few neighbours; see the module's docstring.

    Attributes:
        kernel_size: Number of taps.
        taps_before: Number of taps on earlier tokens.
        taps_after: Number of taps on later tokens.
        dilation: Distance in tokens from one tap to the next.
    """

    family = "convolution"
    supports_causal = True
    supports_step = True
    is_position_aware = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of a convolution.

        Attributes:
            kernel_size: Number of neighbouring tokens on which an output depends, including its
                own; at least 2, and odd unless causal.
        """

        kernel_size: int = 3

    def make_parameters(self, config: Config) -> None:
        """Set the positions of the taps; a subclass adds its kernel."""
        if not self.is_causal and config.kernel_size % 2 == 0:
            raise ModelError(
                f"{self.name}: kernel_size={config.kernel_size} has no centre; "
                "give an odd one, or is_causal=True"
            )
        self.kernel_size = config.kernel_size
        self.taps_before = config.kernel_size - 1 if self.is_causal else config.kernel_size // 2
        self.taps_after = config.kernel_size - 1 - self.taps_before
        self.dilation = 1

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise for a kernel that mixes nothing."""
        if config.kernel_size < 2:
            raise ModelError(
                f"{cls.name}: kernel_size={config.kernel_size} is below 2, "
                "where no token would see another"
            )
        super().check_config(config, dim=dim)

    @abstractmethod
    def slide(self, channels: Tensor, window: Window, num_padding: int) -> Tensor:
        """Compute one output for each position of the window, in the fast form.

        Args:
            channels: `[batch, dim, time]`.
            window: The taps to use.
            num_padding: Number of implicit zeros before and after `channels`.

        Returns:
            `[batch, dim, num_padding + time + num_padding - num_before - num_after]`.
        """

    @abstractmethod
    def one_output(self, tokens: dict[int, Tensor]) -> Tensor:
        """Compute the paper's sum of the tokens `[dim]` in the window, by tap, for `reference`."""

    def window(self, length: int) -> Window:
        """Return the window over a sequence of `length` tokens."""
        farthest = max(length - 1, 0) // self.dilation  # distance in taps of the farthest token
        before, after = min(self.taps_before, farthest), min(self.taps_after, farthest)
        return Window(
            taps=slice(self.taps_before - before, self.taps_before + after + 1),
            num_before=before * self.dilation,
            num_after=after * self.dilation,
            dilation=min(self.dilation, max(length, 1)),  # a larger one is equal and may overflow
        )

    def num_taps(self, length: int) -> int:
        """Return the number of taps that reach a token of a sequence of `length` tokens."""
        taps = self.window(length).taps
        return int(taps.stop - taps.start)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Slide the window over the sequence; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        window = self.window(x.shape[1])
        channels = without_padding(x, mask).transpose(1, 2)  # (batch, dim, time)
        if self.is_causal:
            mixed = self.slide(functional.pad(channels, (window.num_before, 0)), window, 0)
        else:  # symmetric padding, which torch adds without a copy
            mixed = self.slide(channels, window, window.num_before)
        return mixed.transpose(1, 2)

    def initial_state(self, batch: int) -> State:
        """Return no token, `[batch, 0, dim]`; the state will hold those that the window needs."""
        self.check_steps()
        return (next(self.parameters()).new_zeros(batch, 0, self.dim),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Compute one output, then drop the oldest token if no later output needs it."""
        self.check_steps()
        tokens = torch.cat([state[0], x_t.unsqueeze(1)], dim=1)
        window = self.window(tokens.shape[1])
        seen = tokens[:, -window.num_before - 1 :]
        mixed = self.slide(seen.transpose(1, 2), window, 0)  # (batch, dim, 1)
        num_held = min(tokens.shape[1], self.taps_before * self.dilation)
        return mixed.squeeze(2), (tokens[:, tokens.shape[1] - num_held :],)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the window's earlier tokens; constant once the window is full."""
        self.check_steps()
        return 4 * self.dim * min(length, self.taps_before * self.dilation)

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of taps."""
        return {"k": self.kernel_size}

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one output at a time from the real tokens that its taps reach."""
        outputs = []
        for t in range(len(x)):
            met = {j: t + (j - self.taps_before) * self.dilation for j in range(self.kernel_size)}
            tokens = {j: x[other] for j, other in met.items() if other in seen}
            outputs.append(self.one_output(tokens))
        return torch.stack(outputs)
