"""The contract of a mixer: the module that lets positions exchange information.

A mixer maps `[batch, time, dim]` to the same shape. A subclass must define `forward`; its other
methods (a reference, a FLOPs formula, a step) determine what can be verified and measured. Traits
are declared, never detected by trying. A minimal mixer of a user's own:

    class Average(Mixer):
        def forward(self, x, mask=None, context=None, context_mask=None):
            return x.mean(dim=1, keepdim=True).expand_as(x)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError

State = tuple[Tensor, ...]
Mask = Tensor | None  # `[batch, time]`, True for real tokens, or None if all are real
Context = Tensor | None  # `[batch, time2, dim]`, another sequence to attend to


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A row of Table 1 of "Attention Is All You Need" (arXiv:1706.03762).

    Each field is a Python expression in n (tokens), d (width), k (taps of a kernel, or the number
    of projected tokens or features), r (neighbourhood) and log2, without constant factors; empty
    if unknown. Like Table 1, it leaves out the projections of attention, which cost n d^2.

    Attributes:
        time: Operations of one layer.
        sequential_operations: Operations that must run one after another; the depth of a sum does
            not count.
        maximum_path_length: Path length between the two farthest positions: the number of layers,
            times the sequential operations inside one.
    """

    time: str = ""
    sequential_operations: str = ""
    maximum_path_length: str = ""


@dataclass(frozen=True, kw_only=True)
class NoKnobs:
    """The `Config` of a mixer without knobs."""


class Mixer(nn.Module, ABC):
    """The module through which positions exchange information: the object of an ablation.

    Attributes:
        version: Number to increase whenever a change to the mixer changes a result.
        name: Its key in `bakeoff.models.MIXERS`, for messages.
        paper: Short citation, with its arXiv id if there is one.
        family: The group that it is listed under.
        cost: Its row of Table 1.
        Config: Frozen dataclass of its knobs, each documented. A field with the metadata
            ``{"cost_only": True}`` changes the cost of the mixer, never its result; a
            `reading_knob` changes the result in evaluation mode only.
        supports_causal: Whether it can be built with ``is_causal=True``; if not, `why_not_causal`
            gives the reason.
        supports_step: Whether it has `initial_state` and `step` when causal.
        supports_context: Whether it can attend to another sequence.
        supports_relative: Whether it takes a `RelativePosition`, as the keyword ``position`` of
            its constructor; if not, `why_not_relative` gives the reason.
        fixed_length: Whether it rejects sequences longer than `max_length`.
        is_position_aware: Whether it distinguishes orders of tokens without a position encoding
            when it is not causal.
        grid: Rows and columns if the tokens lie on a grid, row by row; see `take_grid`.
        is_stochastic: Whether `forward` draws random numbers: samples, hashes, redrawn features.
        mask_mode: `exact` (padding never influences a real token), `pads_as_tokens` or `none`.
        positive_knobs: Fields of `Config` that must be at least 1.
        heads_divide_dim: Whether its field `heads` must divide the width.
        files: Data files that a user's own mixer reads, by their paths relative to the folder of
            its module; their content is part of the ids of trials.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str] = "this mixer"
    paper: ClassVar[str] = ""
    family: ClassVar[str] = ""
    cost: ClassVar[Cost] = Cost()
    Config: ClassVar[type[Any]] = NoKnobs

    supports_causal: ClassVar[bool] = False
    why_not_causal: ClassVar[str] = "it does not declare supports_causal"
    supports_step: ClassVar[bool] = False
    supports_context: ClassVar[bool] = False
    supports_relative: ClassVar[bool] = False
    why_not_relative: ClassVar[str] = "it computes no score of one token for another"
    fixed_length: ClassVar[bool] = False
    is_position_aware: ClassVar[bool] = False
    is_stochastic: ClassVar[bool] = False
    mask_mode: ClassVar[Literal["exact", "pads_as_tokens", "none"]] = "none"
    positive_knobs: ClassVar[tuple[str, ...]] = ()
    heads_divide_dim: ClassVar[bool] = False
    files: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, dim: int, max_length: int, is_causal: bool, config: Any) -> None:
        for key, value in {"dim": dim, "max_length": max_length}.items():
            if type(value) is not int or value < 1:
                raise ModelError(f"{key}={value!r} is not a whole number of at least 1")
        if is_causal and not self.supports_causal:
            raise ModelError(f"{self.name} has no causal form: {self.why_not_causal}")
        self.check_config(config, dim=dim)
        super().__init__()
        self.dim = dim
        self.max_length = max_length
        self.is_causal = is_causal
        self.config = config
        self.grid: tuple[int, int] | None = None
        self.make_parameters(config)

    def make_parameters(self, config: Any) -> None:
        """Create the parameters; the constructor calls this once, after it has set the sizes."""

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise for a `Config` that no such mixer of width `dim` can have.

        Raises:
            ModelError: A value is not allowed, as in ``heads=3 does not divide dim=64``.
        """
        if cls.heads_divide_dim and (config.heads < 1 or dim % config.heads != 0):
            raise ModelError(f"{cls.name}: heads={config.heads} does not divide dim={dim}")
        for key in cls.positive_knobs:
            if getattr(config, key) < 1:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below 1")

    @classmethod
    def why_not_on(cls, config: Any, *, on_gpu: bool, precision: str, is_masked: bool) -> str:
        """Return why a mixer with this `Config` cannot run there; empty, the default, if it can.

        Args:
            config: Its knobs, already checked.
            on_gpu: Whether it runs on a GPU.
            precision: Precision of products in training: `float32`, `tf32` or `bf16`.
            is_masked: Whether sequences are padded.
        """
        return ""

    @classmethod
    def learns_by_score(cls, config: Any) -> bool:
        """Return True if a mixer with this `Config` draws samples.

        In a pass for which its `choices` is a list, it then appends its samples to that list, for
        `bakeoff.models.score_function`.
        """
        return False

    @classmethod
    def is_proven(cls) -> bool:
        """Return True if it has a slow reference with which to verify the fast form."""
        has_own = cls.reference is not Mixer.reference
        return has_own or cls.reference_of_one is not Mixer.reference_of_one

    @classmethod
    def has_flops_formula(cls) -> bool:
        """Return True if `flops` is defined."""
        return cls.flops is not Mixer.flops

    @classmethod
    def has_bytes_formula(cls) -> bool:
        """Return True if `forward_bytes` is defined; a form of the mixer may still have none."""
        return cls.forward_bytes is not Mixer.forward_bytes

    @classmethod
    def has_state_formula(cls) -> bool:
        """Return True if `state_bytes` is defined."""
        return cls.state_bytes is not Mixer.state_bytes

    @abstractmethod
    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Mix information between the tokens of a sequence, or from a context into it.

        Args:
            x: `[batch, time, dim]`.
            mask: `[batch, time]`, True for real tokens, or None if all are real.
            context: `[batch, time2, dim]`, another sequence to attend to.
            context_mask: `[batch, time2]`, True for real tokens of the context.

        Returns:
            `[batch, time, dim]`. In the mask mode `exact`, values at padded positions are finite
            but have no meaning.
        """

    def reference(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Compute the slow, direct definition: the paper's loops over this module's parameters."""
        if not self.is_proven():
            raise ModelError(f"{self.name} has no reference and is unproven")
        others, real = (x, mask) if context is None else (context, context_mask)
        outputs = []
        for b, tokens in enumerate(without_padding(x, mask)):
            seen = [j for j in range(others.shape[1]) if real is None or real[b, j]]
            mixed_in = tokens if context is None else others[b]
            outputs.append(self.reference_of_one(tokens, mixed_in, seen))
        return torch.stack(outputs)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute the reference for one sequence, `[time, dim]`.

        Args:
            x: `[time, dim]`, zeros at padding.
            others: `[time2, dim]`, the sequence that is mixed in: `x` itself or the context.
            seen: Indices of the real tokens of `others`.
        """
        raise NotImplementedError

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return `[batch, heads, time, time2]`, for mixers that have attention weights."""
        raise ModelError(f"{self.name} gives no attention weights")

    def initial_state(self, batch: int) -> State:
        """Return the state before the first token."""
        raise ModelError(f"{self.name} has no step form")

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Map one token `[batch, dim]` to its output `[batch, dim]`, and return the new state."""
        raise ModelError(f"{self.name} has no step form")

    def prepare(self, context: Tensor, context_mask: Mask = None) -> State:
        """Compute once what `attend` reads of a context at every token; by default the context.

        Args:
            context: `[batch, time2, dim]`, another sequence to attend to.
            context_mask: `[batch, time2]`, True for real tokens of the context.

        Returns:
            Tensors, batch first.

        Raises:
            ModelError: The mixer takes no context.
        """
        self.check_context_length(context.shape[1])
        return (context,) if context_mask is None else (context, context_mask)

    def attend(self, x: Tensor, prepared: State) -> Tensor:
        """Mix a prepared context into `x`, `[batch, time, dim]` -> the same shape.

        The result equals `forward` with that context. A sequence whose context is all padding gets
        zeros from it. Tokens are independent of each other; outputs at padded ones have no meaning.
        """
        context, *context_mask = prepared
        mixed: Tensor = self(x, None, context, *context_mask)
        return mixed

    def context_bytes(self, context_length: int) -> int:
        """Return the bytes of the result of `prepare` per sequence, in float32, without a mask."""
        self.check_context_length(context_length)
        return 4 * self.dim * context_length

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the state per sequence after `length` tokens, in float32."""
        raise ModelError(f"{self.name} has no step form")

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return forward FLOPs by formula; `context_length` is the tokens of a context, if any.

        A multiply-add in matrix products, convolutions and attention counts as 2, projections
        included; an FFT of n counts as 5 n log2 n; elementwise work counts as 0. Causal forms are
        not discounted: kernels differ in what they skip, and torch's counter does not discount
        either.
        """
        raise ModelError(f"{self.name} gives no FLOPs formula")

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes of a forward pass by formula, for the mixer's own `is_causal`.

        The formula is for a pass without gradients and without a mask, in float32 on a CPU. It
        counts the tensors held at the peak and the scratch memory that torch's kernels take from
        torch's allocator, but not parameters, tables and the input.

        Raises:
            ModelError: There is no formula, or none for this form.
        """
        raise ModelError(f"{self.name} gives no formula for its bytes")

    def num_parameters(self) -> int:
        """Return the number of trainable values; parameters shared by layers count in each."""
        return sum(parameter.numel() for parameter in self.parameters())

    def cost_symbols(self) -> dict[str, float]:
        """Return the values of k and r of the `cost` row; n and d belong to the sequence."""
        return {}

    def take_place(self, layer: int, first: Mixer) -> None:
        """Set the layer; called once for each mixer of a stack, from the bottom upwards.

        It is for mixers whose layers differ (dilation) or share parameters (Linformer's
        projections).

        Args:
            layer: Index of the layer; 0 is the bottom.
            first: The mixer of layer 0; the mixer itself if `layer` is 0.
        """

    def take_grid(self, grid: tuple[int, int], num_before: int) -> None:
        """Set the grid on which the tokens of the stack lie.

        It is for mixers that use neighbours in two dimensions; others ignore it. It is called again
        to compare the mixer with its reference on a small grid.

        Args:
            grid: Rows and columns.
            num_before: Number of tokens before the grid that have no position on it, such as a
                class token.

        Raises:
            ModelError: The mixer works on the grid alone, and there are other tokens.
        """

    def check_inputs(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> None:
        """Raise for inputs of a wrong shape or dtype; does not read their values.

        Raises:
            ModelError: A wrong width or rank, no tokens, too many tokens, an integer dtype, a
                malformed mask, an unsupported context, or one of a different batch size.
        """
        self._check_sequence("x", x, mask)
        if self.fixed_length and x.shape[1] > self.max_length:
            raise ModelError(
                f"{self.name} takes at most max_length={self.max_length} tokens, not {x.shape[1]}"
            )
        if context is None and context_mask is None:
            return
        self.check_context_length(0)
        if context is None:
            raise ModelError(f"{self.name} takes no context_mask without a context")
        self._check_sequence("context", context, context_mask)
        if len(context) != len(x):
            raise ModelError(
                f"{self.name} takes a context of the batch {len(x)}, not {len(context)}"
            )

    def _check_sequence(self, key: str, x: Tensor, mask: Tensor | None) -> None:
        if x.ndim != 3 or x.shape[-1] != self.dim or x.shape[1] == 0:
            raise ModelError(
                f"{self.name} takes [batch, time, {self.dim}] with a token at least, "
                f"not {list(x.shape)} (dim={self.dim}, {key})"
            )
        if not x.is_floating_point():
            raise ModelError(f"{self.name} takes real numbers, not {x.dtype} ({key})")
        if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:2]):
            raise ModelError(
                f"{self.name} takes a boolean mask {list(x.shape[:2])}, "
                f"not {mask.dtype} {list(mask.shape)} ({key})"
            )

    def check_context_length(self, context_length: int | None) -> None:
        """Raise for a context if the mixer takes none; an absent one is allowed.

        Raises:
            ModelError: The mixer is causal, or supports no other sequence than its own.
        """
        if context_length is not None and (self.is_causal or not self.supports_context):
            kind = "a causal mixer" if self.supports_context else self.name
            raise ModelError(f"{kind} takes no context")

    def check_steps(self) -> None:
        """Raise if the mixer was not built causal.

        Raises:
            ModelError: Outputs depend on later tokens, so they cannot be computed one by one.
        """
        if not self.is_causal:
            raise ModelError(f"{self.name} steps only when built with is_causal=True")


def without_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return `x` with zeros at padded positions, whatever their values (NaN included)."""
    return x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0.0)
