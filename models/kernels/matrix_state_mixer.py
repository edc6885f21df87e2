"""The base of mixers with a matrix state: knobs, directions, the output map and the state.

    S_t = D_t S_{t-1} + b_t k_t (v_t - [D_t S_{t-1}]' k_t)',   o_t = S_t' q_t d^-1/2

Variants leave out the delta term, the decay D or the strength b. `kernels.matrix_state` defines the
recurrence, `kernels.state_direction` its inputs and outputs.

Directions: a causal mixer reads left to right with all its heads. One that is not causal uses half
    of the heads for each direction, with separate maps, and concatenates the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.state_direction import Direction
from bakeoff.models.kernels.state_kernels import WIDEST, StateKernel, why_no_state_kernel
from bakeoff.models.kernels.state_reading import StateReading
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding

Decays = Literal["none", "fixed", "head", "channel", "sigmoid"]
Strengths = Literal["one", "sigmoid", "double"]
FeatureMaps = Literal["none", "silu"]
Norms = Literal["none", "l1", "l2"]
Gates = Literal["none", "silu", "sigmoid"]


class MatrixStateMixer(Mixer):
    """A mixer that writes a sequence into one matrix per head, and reads it with queries.

    Attributes:
        direction: The class that reads in one direction.
    """

    family = "matrix state"
    cost = Cost(time="n * d**2", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    is_position_aware = True
    why_not_relative = "it sums products of keys and values and never forms the score of one pair"
    mask_mode = "exact"
    positive_knobs: ClassVar[tuple[str, ...]] = ("heads", "chunk")
    direction: ClassVar[type[StateReading]] = Direction

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of a mixer with a matrix state.

        Attributes:
            heads: Number of heads, of both directions together.
            key_ratio: Width of the keys of all heads, as a multiple of dim.
            value_ratio: Width of the values of all heads, as a multiple of dim.
            decay: Decay of the state: ``none``; ``fixed``, a constant per head; ``head``, a number
                per head, computed from each token; ``channel``, a number per channel of the keys;
                ``sigmoid``, a number per channel, computed as in GLA.
            strength: Factor of a written value: 1 (``one``), a share computed from each token
                (``sigmoid``), or twice that (``double``).
            feature_map: Function applied to queries, keys and values: ``none`` or ``silu``.
            qk_norm: The norm by which queries and keys are divided: ``l2``, ``l1`` or ``none``.
            short_conv: Taps of a causal convolution over queries, keys and values, at least 2; 0
                for no convolution.
            output_gate: Gate of the output: ``none``; ``silu`` of a map of the token; ``sigmoid``
                of a map whose rank is the width of a head.
            chunk: Tokens per chunk; with the delta rule, at most twice the width of a key is used.
            state_kernel: ``torch`` (in chunks), ``fla`` (flash-linear-attention, on a GPU in
                bf16), or ``auto``: ``fla`` where it can be used and agrees with ``torch``.
        """

        heads: int = 4
        key_ratio: float = 1.0
        value_ratio: float = 1.0
        decay: Decays = "none"
        strength: Strengths = "one"
        feature_map: FeatureMaps = "none"
        qk_norm: Norms = "none"
        short_conv: int = 0
        output_gate: Gates = "none"
        chunk: int = field(default=64, metadata={"cost_only": True})
        state_kernel: StateKernel = field(
            default="auto", metadata={"cost_only": True, "is_late": True}
        )

        def __init_subclass__(cls) -> None:
            """Append the documentation of the inherited knobs to that of the subclass."""
            of_bases = [vars(base).get("__doc__") or "" for base in cls.__mro__[1:-1]]
            cls.__doc__ = "\n".join([cls.__doc__ or "", *of_bases[:1]])

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise for widths that are not whole, one-tap convolutions and unbounded states."""
        super().check_config(config, dim=dim)
        for key in ("key_ratio", "value_ratio"):
            width = getattr(config, key, config.heads) * dim / config.heads
            if width < 1 or width != int(width):
                raise ModelError(
                    f"{cls.name}: heads={config.heads} does not divide {key}="
                    f"{getattr(config, key)} times dim={dim}"
                )
        if getattr(config, "delta", False) and config.qk_norm == "none":
            raise ModelError(
                f"{cls.name}: delta=True with qk_norm='none' lets the state grow without end, "
                "give 'l2' or 'l1'"
            )
        taps = getattr(config, "short_conv", 0)
        if taps == 1 or taps < 0:
            raise ModelError(f"{cls.name}: short_conv={taps} is neither 0 nor at least 2")

    @classmethod
    def why_not_on(cls, config: Any, *, on_gpu: bool, precision: str, is_masked: bool) -> str:
        """Return why the kernel cannot run under the given conditions; empty if it can."""
        return why_no_state_kernel(config.state_kernel, on_gpu=on_gpu, precision=precision)

    def make_parameters(self, config: Any) -> None:
        """Create one direction or two, and the output map."""
        num = 1 if self.is_causal else 2
        if config.heads % num != 0:
            raise ModelError(
                f"{self.name} needs even heads for its two directions, not heads={config.heads}"
            )
        key_width, value_width = self.head_widths(config)
        if config.state_kernel == "fla" and key_width > WIDEST:
            raise ModelError(
                f"{self.name}: state_kernel='fla' takes keys of at most {WIDEST} channels, "
                f"not {key_width}"
            )
        self.directions = nn.ModuleList(
            self.direction(
                dim=self.dim,
                heads=config.heads // num,
                key_width=key_width,
                value_width=value_width,
                config=config,
            )
            for _ in range(num)
        )
        self.values: int = config.heads * value_width
        self.output = linear_map(self.values, self.dim)

    def head_widths(self, config: Any) -> tuple[int, int]:
        """Return the widths of a head's keys and values."""
        dim, heads = self.dim, config.heads
        return int(config.key_ratio * dim / heads), int(config.value_ratio * dim / heads)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Mix by one reading, or by one in each direction; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        first, *second = self.directions
        read = [first(x, mask)]
        for direction in second:
            turned = None if mask is None else mask.flip(1)
            read.append(direction(x.flip(1), turned).flip(1))
        mixed: Tensor = self.output(torch.cat(read, dim=-1))
        return mixed

    def initial_state(self, batch: int) -> State:
        """Return the empty matrix, and the initial state of a convolution."""
        self.check_steps()
        return self._only().initial_state(batch)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Write one token, then read."""
        self.check_steps()
        read, state = self._only().step(x_t.unsqueeze(1), state)
        mixed: Tensor = self.output(read)
        return mixed.squeeze(1), state

    def state_bytes(self, length: int) -> int:
        """Return the bytes of keys by values of each head, and of a convolution; constant."""
        self.check_steps()
        return 4 * self._only().state_numbers()

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the directions and the output map."""
        self.check_context_length(context_length)
        reading = sum(direction.flops(length) for direction in self._readings())
        return float(batch * (reading + 2 * length * self.values * self.dim))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Read one token after the other, and again from the end if not causal."""
        first, *second = self._readings()
        read = [first.reference(x, seen)]
        for direction in second:
            turned = [len(x) - 1 - t for t in reversed(seen)]
            read.append(direction.reference(x.flip(0), turned).flip(0))
        return torch.cat(read, dim=1) @ self.output.weight.T

    def _readings(self) -> Sequence[StateReading]:
        return [each for each in self.directions if isinstance(each, StateReading)]

    def _only(self) -> StateReading:
        return self._readings()[0]


class DeltaRuleMixer(MatrixStateMixer):
    """A matrix state mixer that writes the difference from the value stored under a key."""

    family = "matrix state"
    cost = Cost(time="n * d**2", sequential_operations="n", maximum_path_length="n")

    @dataclass(frozen=True, kw_only=True)
    class Config(MatrixStateMixer.Config):
        """Knobs of the delta rule, and those of every mixer with a matrix state.

        Attributes:
            delta: Whether a token writes the difference between its value and the one stored under
                its key.
        """

        delta: bool = True
        strength: Strengths = "sigmoid"
        feature_map: FeatureMaps = "silu"
        qk_norm: Norms = "l2"
        short_conv: int = 4
