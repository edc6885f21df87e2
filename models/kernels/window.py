"""What the convolutions share: the window that slides over time, its padding, state and reach.

Output t sees the tokens t + (j - s) l for taps j = 0 .. k-1, where k is the kernel's size, l the
dilation, and s = k - 1 (causal) or (k - 1) / 2 (centred). They differ in what they compute of the
tokens in the window, which each defines in `slide`, and once more slowly in `one_output`.

Padding: padded tokens enter as zeros, like tokens outside the sequence.
Taps that no token of a sequence can meet, because it is too short, are left out: they would
    multiply zeros alone, and at a dilation of 3^15 there would be 14 million of those.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from models.errors import ModelError
from models.mixer import Context, Mask, Mixer, State, without_padding


@dataclass(frozen=True, kw_only=True)
class Window:
    """The part of a kernel that can meet a token of a sequence.

    Attributes:
        taps: Of the kernel's; at least the one that meets the token itself.
        num_before: Tokens between the earliest that is met and the token itself.
        num_after: Tokens between the token itself and the latest that is met.
        dilation: Tokens from one tap to the next.
    """

    taps: slice
    num_before: int
    num_after: int
    dilation: int


class SlidingWindow(Mixer):
    """Every output is computed of the same few neighbours; see the module's note.

    Attributes:
        kernel_size: Number of taps.
        taps_before: Those that meet earlier tokens.
        taps_after: Those that meet later tokens.
        dilation: Tokens from one tap to the next.
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
            kernel_size: Number of neighbouring tokens that an output sees, itself among them; at
                least 2, and odd unless causal.
        """

        kernel_size: int = 3

    def make_parameters(self, config: Config) -> None:
        """Place the taps; a subclass adds its kernel."""
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
        """Refuse a kernel that mixes nothing."""
        if config.kernel_size < 2:
            raise ModelError(
                f"{cls.name}: kernel_size={config.kernel_size} is below 2, "
                "where no token would see another"
            )
        super().check_config(config, dim=dim)

    @abstractmethod
    def slide(self, channels: Tensor, window: Window, num_padding: int) -> Tensor:
        """Fast form: one output for each place of the window.

        Args:
            channels: `[batch, dim, time]`.
            window: The taps to use.
            num_padding: Zeros to think of before and after `channels`.

        Returns:
            `[batch, dim, num_padding + time + num_padding - num_before - num_after]`.
        """

    @abstractmethod
    def one_output(self, tokens: dict[int, Tensor]) -> Tensor:
        """The paper's sum, for `reference`: the tokens `[dim]` in the window, by tap, to one."""

    def window(self, length: int) -> Window:
        """The window over a sequence of so many tokens."""
        farthest = max(length - 1, 0) // self.dilation  # taps away, of any other token
        before, after = min(self.taps_before, farthest), min(self.taps_after, farthest)
        return Window(
            taps=slice(self.taps_before - before, self.taps_before + after + 1),
            num_before=before * self.dilation,
            num_after=after * self.dilation,
            dilation=min(self.dilation, max(length, 1)),  # more is the same, and may overflow
        )

    def num_taps(self, length: int) -> int:
        """Taps that can meet a token of a sequence of so many."""
        taps = self.window(length).taps
        return int(taps.stop - taps.start)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        window = self.window(x.shape[1])
        channels = without_padding(x, mask).transpose(1, 2)  # (batch, dim, time)
        if self.is_causal:
            mixed = self.slide(functional.pad(channels, (window.num_before, 0)), window, 0)
        else:  # as many before as after, which torch adds without writing a copy
            mixed = self.slide(channels, window, window.num_before)
        return mixed.transpose(1, 2)

    def initial_state(self, batch: int) -> State:
        """No token yet, `[batch, 0, dim]`; it will hold the last ones that the window needs."""
        self.check_steps()
        return (next(self.parameters()).new_zeros(batch, 0, self.dim),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One place of the window; then the oldest token is dropped if none will need it."""
        self.check_steps()
        tokens = torch.cat([state[0], x_t.unsqueeze(1)], dim=1)
        window = self.window(tokens.shape[1])
        seen = tokens[:, -window.num_before - 1 :]
        mixed = self.slide(seen.transpose(1, 2), window, 0)  # (batch, dim, 1)
        num_held = min(tokens.shape[1], self.taps_before * self.dilation)
        return mixed.squeeze(2), (tokens[:, tokens.shape[1] - num_held :],)

    def state_bytes(self, length: int) -> int:
        """The window's earlier tokens, as far as there were any: soon does not grow."""
        self.check_steps()
        return 4 * self.dim * min(length, self.taps_before * self.dilation)

    def cost_symbols(self) -> dict[str, float]:
        """k, the taps."""
        return {"k": self.kernel_size}

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """One output token at a time, of the real tokens that its taps meet."""
        outputs = []
        for t in range(len(x)):
            met = {j: t + (j - self.taps_before) * self.dilation for j in range(self.kernel_size)}
            tokens = {j: x[other] for j, other in met.items() if other in seen}
            outputs.append(self.one_output(tokens))
        return torch.stack(outputs)
