"""A classifier whose tokens exchange information through a shared workspace of a few slots.

Paper: Goyal et al. 2022, "Coordination Among Neural Modules Through a Shared Global Workspace"
    (arXiv:2103.01197), section 2.1; where text and code differ, this follows the authors' code.
Layers: those of a Transformer, whose self-attention is replaced by writing to the memory M of n
    slots and reading from it. All layers share their parameters. M starts as the identity, padded
    by zeros to n x d, for every sequence, and is passed upwards from layer to layer.
Equation: X = P x of the normed tokens x.
    Write: A = softmax(M W_q (X W_k)^T), unscaled, over the tokens; in each row of a head the top_k
    largest weights are kept, without another normalisation. M' = norm(M + A X W_v), and
    M~ = norm(M' + f(f(f(f(M'))))) with f(m) = relu(W m + b): one matrix, applied four times.
    Gates: i, f = sigmoid(G mean_t relu(w * X_t) + U_s tanh(M_s) + b) for slot s, where b is 0 for i
    and 1 for f at the start; M <- i * tanh(M~) + f * M.
    Read: the output for a token is softmax(X W_q (M W_k)^T) M W_v, by the same three maps.
Cost: n d for each slot, linear in the tokens.
Controls: `has_memory=False` is attention in the same shared layers, `is_shared=False` gives each
    layer its own parameters.
Departures: keys are as wide as a head (the code has 32); padding is left out of G's mean; only U_s
    has a bias in addition to b. Maps of the workspace keep torch's initialisation, as theirs do.
    Shared layers have one probability of `stochastic_depth`, that of the last layer.
Padding: exact. A sequence that is all padding writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from bakeoff.models.architectures.classifier import Classifier, mean_of_real
from bakeoff.models.embedding import build_position
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import InputKind
from bakeoff.models.kernels.softmax_attention import (
    fused_attention,
    merge_heads,
    softmax_weights,
    split_heads,
    whole_sequence,
)
from bakeoff.models.mixer import Mask, Mixer
from bakeoff.models.model_spec import ModelSpec, config_from_knobs
from bakeoff.models.registry import relative_position
from bakeoff.models.stack import Block, build_mixers
from bakeoff.models.sublayers import FeedForward, build_norm, normed

_MLP_STEPS = 4


class SharedWorkspace(Classifier):
    """Tokens `[batch, time]` or vectors -> `[batch, output_size]`; see the module's note."""

    name = "shared_workspace"
    takes = ("position", "dim", "depth")
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("tokens", "vectors")}
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(Classifier.Config):
        """Knobs of the workspace, in addition to those of a classifier.

        Attributes:
            slots: Number of slots of the memory.
            write: Whether a slot reads only the `top_k` tokens with the largest weights (`hard`) or
                all tokens (`soft`).
            top_k: Number of these tokens; has no effect if `write` is soft.
            attention_heads: Heads of writing and reading, or of the attention that replaces them.
            has_memory: Whether tokens use the memory; otherwise they attend to one another.
            is_shared: Whether all layers have the same parameters.
        """

        slots: int = 8
        write: Literal["hard", "soft"] = "hard"
        top_k: int = 5
        attention_heads: int = 4
        has_memory: bool = True
        is_shared: bool = True

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        for key in ("slots", "top_k", "attention_heads"):
            if getattr(config, key) < 1:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is not at least 1")
        if config.residual == "reversible":
            raise ModelError(f"{cls.name}: residual='reversible' knows no memory")

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return attention if it replaces the memory, else nothing."""
        config = config_from_knobs(cls.Config, spec.settings, owner=spec.architecture)
        return () if config.has_memory else ("attention",)

    def build_trunk(self, spec: ModelSpec, seeds: PartSeeds) -> SharedTrunk:
        """Return the layers between embedding and head."""
        heads = self.config.attention_heads
        if spec.dim % heads:
            raise ModelError(f"{self.name}: attention_heads={heads} does not divide dim={spec.dim}")
        if self.config.has_memory and relative_position(spec.position):
            raise ModelError(
                f"{self.name} takes no relative position ({spec.position}): tokens exchange "
                "information through a memory, whose slots have no positions"
            )
        return SharedTrunk(spec, self.config, seeds)


class SharedTrunk(nn.Module):
    """Position, layers that may share parameters, and final norm; see `bakeoff.models.stack`."""

    def __init__(self, spec: ModelSpec, config: SharedWorkspace.Config, seeds: PartSeeds) -> None:
        super().__init__()
        self.depth = spec.depth
        self.position = build_position(spec, config.position_mode, config.position_std, seeds)
        self.dropout = nn.Dropout(config.dropout)
        num_own = 1 if config.is_shared else spec.depth
        self.blocks = nn.ModuleList()
        for layer, mixer in enumerate(_mixers(replace(spec, depth=num_own), config, seeds)):
            mlp, share = None, (layer + 1) / num_own
            if config.feed_forward != "none":
                with seeds.part(f"blocks.{layer}.mlp"):
                    mlp = FeedForward(spec.dim, config)
            self.blocks.append(WorkspaceBlock(cast("Mixer", mixer), config, mlp=mlp, share=share))
        has_norm = config.norm_placement != "post"
        self.norm = build_norm(spec.dim, config) if has_norm else nn.Identity()

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:
        """Map `[batch, time, dim]` to the same shape, with a new memory."""
        x, memory = self.dropout(self.position(x)), None
        for layer in range(self.depth):
            x, memory = self.block_of(layer).through(x, mask, memory)
        return normed(self.norm, x, mask)

    def block_of(self, layer: int) -> WorkspaceBlock:
        """Return the block that a layer uses."""
        return cast("WorkspaceBlock", self.blocks[min(layer, len(self.blocks) - 1)])

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of every layer, shared or not."""
        layers = (self.block_of(layer).flops(length, batch) for layer in range(self.depth))
        return sum(layers, self.position.flops(length, batch))


def _mixers(
    spec: ModelSpec, config: SharedWorkspace.Config, seeds: PartSeeds
) -> list[Mixer] | list[Workspace]:
    """Return a workspace for each layer, or attention."""
    if not config.has_memory:
        knobs = {"heads": config.attention_heads}
        of_attention = replace(spec, mixer="attention", knobs=knobs)
        return build_mixers(of_attention, seeds, is_causal=False)
    found = []
    for layer in range(spec.depth):
        with seeds.part(f"blocks.{layer}.workspace"):
            found.append(Workspace(spec.dim, config))
    return found


class WorkspaceBlock(Block):
    """A block that passes a memory on, if there is one."""

    def through(self, x: Tensor, mask: Mask, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the block's output `[batch, time, dim]` and the new memory.

        `memory` is None for the first layer; the new one is None if the block has no workspace.
        """
        workspace: nn.Module = self.mixer
        if not isinstance(workspace, Workspace):
            return self(x, mask), None
        after: list[Tensor] = []

        def mix(x: Tensor) -> Tensor:
            mixed, written = workspace(x, mask, memory)
            after.append(written)
            return cast("Tensor", mixed)

        for sub_layer in self._ordered(mix, lambda x: x):
            x = self._around(sub_layer, x, mask)
        return x, after[0]


class Workspace(nn.Module):
    """Memory of a layer: its maps for writing, gating and reading."""

    no_weight_decay = ("gate_bias", "gate_factor")

    def __init__(self, dim: int, config: SharedWorkspace.Config) -> None:
        super().__init__()
        self.dim, self.slots, self.heads = dim, config.slots, config.attention_heads
        self.top_k = config.top_k if config.write == "hard" else None
        self.project = nn.Linear(dim, dim)
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.norm, self.mlp_norm = (nn.LayerNorm(dim, eps=config.norm_eps) for _ in range(2))
        self.mlp = nn.Linear(dim, dim)
        self.gate_factor = nn.Parameter(torch.empty(dim))  # w of the module's note
        nn.init.normal_(self.gate_factor)
        self.input_gate = nn.Linear(dim, 2 * dim, bias=False)  # G
        self.slot_gates = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(config.slots))  # U
        self.gate_bias = nn.Parameter(torch.tensor([0.0, 1.0]))

    def forward(
        self, x: Tensor, mask: Mask = None, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the output `[batch, time, dim]` and the new memory `[batch, slots, dim]`."""
        if memory is None:
            memory = self.initial_memory(x)
        x = self.project(x)
        written = self._write(x, mask, memory)
        kept, forgotten = self._gates(x, mask, memory)
        memory = kept * written.tanh() + forgotten * memory
        return self._read(x, memory), memory

    def initial_memory(self, x: Tensor) -> Tensor:
        """Return the identity, padded or cut to `[slots, dim]`, for every sequence."""
        start = torch.eye(self.slots, self.dim, dtype=x.dtype, device=x.device)
        return start.repeat(len(x), 1, 1)

    def _write(self, x: Tensor, mask: Mask, memory: Tensor) -> Tensor:
        queries, keys, values = self._heads(memory, x)
        visible = whole_sequence(memory, None, x, mask, is_causal=False)
        weights = softmax_weights(queries @ keys.transpose(-1, -2), visible)
        if self.top_k is not None:
            weights = largest(weights, self.top_k)
        memory = self.norm(memory + merge_heads(weights.to(values.dtype) @ values))
        changed = memory
        for _ in range(_MLP_STEPS):
            changed = self.mlp(changed).relu()
        written: Tensor = self.mlp_norm(memory + changed)
        return written

    def _gates(self, x: Tensor, mask: Mask, memory: Tensor) -> list[Tensor]:
        """Return the input gate and the forget gate, `[batch, slots, dim]` each."""
        of_inputs = self.input_gate(mean_of_real((self.gate_factor * x).relu(), mask))
        slots = memory.tanh().unbind(dim=1)
        of_slots = [gate(slot) for gate, slot in zip(self.slot_gates, slots, strict=True)]
        both = (of_inputs.unsqueeze(1) + torch.stack(of_slots, dim=1)).chunk(2, dim=-1)
        return [(gate + bias).sigmoid() for gate, bias in zip(both, self.gate_bias, strict=True)]

    def _read(self, x: Tensor, memory: Tensor) -> Tensor:
        visible = whole_sequence(x, None, memory, None, is_causal=False)
        return merge_heads(fused_attention(*self._heads(x, memory), visible, scale=1.0))

    def _heads(self, asking: Tensor, asked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries of `asking`, and keys and values of `asked`.

        Each has shape `[batch, heads, ..., width]`.
        """
        maps = (self.query, asking), (self.key, asked), (self.value, asked)
        queries, keys, values = (split_heads(each(read), self.heads) for each, read in maps)
        return queries, keys, values

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of the maps, both attentions, the repeated matrix and the gates."""
        of_tokens = length * (1 + 2 + 1)
        of_slots = self.slots * (1 + _MLP_STEPS + 2 + 2)
        maps = (of_tokens + of_slots + 2) * self.dim**2
        return 2.0 * batch * (maps + 2 * 2 * self.slots * length * self.dim)


def largest(weights: Tensor, number: int) -> Tensor:
    """Return the largest weights of each row unchanged, and zero for all others."""
    top = weights.topk(min(number, weights.shape[-1]), dim=-1)
    return torch.zeros_like(weights).scatter(-1, top.indices, top.values)
