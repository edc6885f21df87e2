"""RWKV-7 "Goose": a matrix state in which tokens erase along one key and write along another.

Paper: Peng et al. 2025, "RWKV-7 Goose with Expressive Dynamic State Evolution" (arXiv:2503.14456),
    section 4; parameters are initialised as in the authors' code.
Equation: each of six streams s is x_t + m_s (x_{t-1} - x_t). For each head they give the receptance
    r, the key k, the value v, and, through maps of low rank, the logarithm of the decay
    g = -exp(-1/2) sigmoid(w_0 + U tanh(D x)), the rate a = sigmoid(a_0 + U D x), and the gate
    U sigmoid(D x). With c = k * k_k normalised to length 1 and k~ = k * (1 + (a - 1) * k_a),
    S_t = diag(exp(g_t)) S_{t-1} - (a_t * c_t) (c_t' S_{t-1}) + k~_t v_t'; the output is
    W ((groupnorm(S_t' r_t) + (sum r_t * k~_t * r_k) v_t) * gate), where each head is normalised
    separately.
Cost: n d^2 / heads, in chunks that are processed in sequence, since corrections are not a plain
    sum.
Departures: values are not averaged with those of the bottom layer, since a mixer has no access to
    other layers. Vectors whose initial values depend on the depth start in all layers as at the
    bottom. The square maps have the project's usual initialisation, where the authors start that of
    the output at zero and that of the key at a tenth of those of r and v. Heads have width dim /
    heads, where theirs have 64; ranks are knobs.
Padding: a padded token erases nothing, writes nothing and causes no decay; the next token has a
    zero as its predecessor, as the first token has.
Fast form: `kernels.removal_state.chunked_removal`; `step` holds S and the last token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.half_products import Product
from bakeoff.models.kernels.matrix_state import empty_state
from bakeoff.models.kernels.matrix_state_mixer import DeltaRuleMixer, MatrixStateMixer
from bakeoff.models.kernels.removal_state import (
    LONGEST,
    STEEPEST,
    RemovalStreams,
    chunked_removal,
    one_removal,
    recurrent_removal,
    removal_flops,
)
from bakeoff.models.kernels.softmax_attention import merge_heads, split_heads
from bakeoff.models.kernels.state_kernels import StateKernel, read_state
from bakeoff.models.kernels.state_reading import StateReading
from bakeoff.models.mixer import State

_LEAST_NORM, _LEAST_VARIANCE = 1e-12, 64e-5
_FIRST_POWERS = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)  # lerps of r, decay, k, v, rate and gate


class LowRank(nn.Module):
    """Low-rank map U f(D x), which starts at U f(0).

    D starts at zero, and U orthogonal and small, as in the authors' code.
    """

    keeps_own_draw = ("down", "up")

    def __init__(self, inputs: int, rank: int, outputs: int) -> None:
        super().__init__()
        self.down, self.up = linear_map(inputs, rank), linear_map(rank, outputs)
        nn.init.zeros_(self.down.weight)
        nn.init.orthogonal_(self.up.weight, gain=0.1)

    def forward(self, x: Tensor, between: Any = None) -> Tensor:
        """Map `[..., inputs]` to `[..., outputs]`, through the function `between` if given."""
        low = self.down(x)
        mapped: Tensor = self.up(low if between is None else between(low))
        return mapped


class GooseReading(StateReading):
    """Removal recurrence that reads six streams of shifted tokens; see the module docstring."""

    keeps_own_draw = ("shift",)
    no_weight_decay = ("shift",)

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        # Writes of many more tokens than a key has channels cancel one another and lose digits.
        self.chunk: int = min(self.config.chunk, 2 * self.key_width)
        self.receptance, self.key, self.value = (linear_map(self.dim, self.keys) for _ in range(3))
        self.decay = LowRank(self.dim, self.config.rank, self.keys)
        self.rate = LowRank(self.dim, self.config.rank, self.keys)
        self.gate = LowRank(self.dim, self.config.gate_rank, self.values)
        self._make_vectors()

    def _make_vectors(self) -> None:
        """Create the vectors, initialised as in the authors' bottom layer.

        The values depend on a channel's relative place, from 0 to 1.
        """
        share = torch.arange(self.keys) / max(1, self.keys - 1)
        in_head = (torch.arange(self.keys) % self.key_width) / (self.key_width - 1) * 2 - 1
        zigzag = in_head * in_head.abs()
        self.decay_bias = nn.Parameter(6 * share - 5.5 + 2.5 * zigzag)
        self.rate_bias = nn.Parameter(-0.19 + 0.3 * zigzag + 0.4 * (share - 0.5))
        self.removal = nn.Parameter(0.71 - 0.1 * (share - 0.5))
        self.replacement = nn.Parameter(torch.full((self.keys,), 1.02))
        self.gain = nn.Parameter(torch.ones(self.values))
        self.offset = nn.Parameter(torch.zeros(self.values))
        has_bonus, has_shift = self.config.bonus, self.config.shift
        self.bonus = nn.Parameter(torch.full((self.keys,), -0.04)) if has_bonus else None
        place = torch.arange(self.dim) / self.dim
        powers = torch.tensor(_FIRST_POWERS).unsqueeze(1)
        self.shift = nn.Parameter(1 - place**powers) if has_shift else None

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Return the outputs `[batch, time, heads * width]`; see `StateReading.forward`."""
        maps = self._maps(x, functional.pad(x, (0, 0, 1, 0))[:, :-1])
        with torch.autocast(x.device.type, enabled=False):
            streams = self._streams(maps)
            if real is not None:
                streams = _without(streams, ~real[:, None, :, None])
            read = read_state(
                streams,
                self.by_torch,
                has_delta=True,
                kernel=self.config.state_kernel,
                dtype=maps["key"].dtype,
            )
            return self._read_out(streams, read, maps["gate"]).to(x.dtype)

    def by_torch(self, streams: RemovalStreams, product: Product) -> Tensor:
        """Compute the recurrence in chunks, in torch."""
        return chunked_removal(streams, size=self.chunk, product=product)

    def initial_state(self, batch: int) -> State:
        """Return the matrix and, if tokens are shifted, the last token `[batch, dim]`."""
        like = self.key.weight
        matrix = empty_state(
            batch, self.heads, self.key_width, like=like, value_width=self.value_width
        )
        return (matrix, like.new_zeros(batch, self.dim)) if self.config.shift else (matrix,)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Process one token, `[batch, 1, dim]`."""
        matrix, *last = state
        maps = self._maps(x, last[0].unsqueeze(1) if last else x)
        with torch.autocast(x.device.type, enabled=False):
            streams = self._streams(maps)
            read, matrix = one_removal(streams, matrix)
            out = self._read_out(streams, read, maps["gate"]).to(x.dtype)
        return out, ((matrix, x.squeeze(1)) if last else (matrix,))

    def _maps(self, x: Tensor, before: Tensor) -> dict[str, Tensor]:
        """Return maps of the six streams, `[batch, time, heads * width]`."""
        streams = [x] * 6
        if self.shift is not None:
            streams = [x + (before - x) * share for share in self.shift]
        r, w, k, v, a, g = streams
        return {
            "receptance": self.receptance(r),
            "decay": self.decay(w, torch.tanh),
            "key": self.key(k),
            "value": self.value(v),
            "rate": self.rate(a),
            "gate": self.gate(g, torch.sigmoid),
        }

    def _streams(self, maps: dict[str, Tensor]) -> RemovalStreams:
        """Return the inputs of the recurrence, `[batch, heads, time, width]` each, made wide."""
        wide = torch.promote_types(maps["key"].dtype, torch.float32)
        maps = {name: mapped.to(wide) for name, mapped in maps.items()}
        keys = maps["key"]
        rates = torch.sigmoid(self.rate_bias.to(keys.dtype) + maps["rate"])
        log_decay = -STEEPEST * torch.sigmoid(self.decay_bias.to(keys.dtype) + maps["decay"])
        found = split_heads(keys * self.removal.to(keys.dtype), self.heads)
        found = functional.normalize(found, dim=-1, eps=_LEAST_NORM)
        replaced = keys * (1 + (rates - 1) * self.replacement.to(keys.dtype))
        apart = [maps["receptance"], replaced, maps["value"], log_decay, rates]
        queries, keys, values, log_decay, rates = (split_heads(part, self.heads) for part in apart)
        return RemovalStreams(
            queries=queries,
            keys=keys,
            values=values,
            log_decay=log_decay,
            found=found,
            erased=rates * found,
        )

    def _read_out(self, s: RemovalStreams, read: Tensor, gates: Tensor) -> Tensor:
        """Return the heads, each normalised, plus the token's bonus, times the gate."""
        normed = functional.layer_norm(read, read.shape[-1:], eps=_LEAST_VARIANCE)
        out = merge_heads(normed) * self.gain.to(read.dtype) + self.offset.to(read.dtype)
        if self.bonus is not None:
            per_head = self.bonus.to(read.dtype).reshape(self.heads, 1, self.key_width)
            bonus = (s.queries * s.keys * per_head).sum(dim=-1, keepdim=True)
            out = out + merge_heads(bonus * s.values)
        return out * gates.to(out.dtype)

    def reference(self, x: Tensor, seen: list[int]) -> Tensor:
        """Return the outputs by the plain recurrence; see `StateReading.reference`."""
        outputs = [x.new_zeros(self.values)] * len(x)
        if seen:
            tokens = [self._token(x, t) for t in seen]
            parts = {
                key: torch.stack([one[key] for one in tokens], dim=1).unsqueeze(0)
                for key in tokens[0]
            }
            gates = parts.pop("gates")[0]
            read = recurrent_removal(RemovalStreams(**parts))[0]
            for i, t in enumerate(seen):
                one = {key: part[0, :, i] for key, part in parts.items()}
                outputs[t] = self._read_one(one, read[:, i]) * gates[:, i].flatten()
        return torch.stack(outputs)

    def _token(self, x: Tensor, t: int) -> dict[str, Tensor]:
        """Return the inputs of the recurrence for token t, and its gates: `[heads, width]` each."""
        before = x[t - 1] if t > 0 else 0 * x[0]
        r, w, k, v, a, g = (
            x[t] if self.shift is None else (1 - self.shift[i]) * x[t] + self.shift[i] * before
            for i in range(6)
        )
        rate = _sigmoid(self.rate_bias + self.rate.up.weight @ (self.rate.down.weight @ a))
        low = torch.tanh(self.decay.down.weight @ w)
        log_decay = -STEEPEST * _sigmoid(self.decay_bias + self.decay.up.weight @ low)
        gates = self.gate.up.weight @ _sigmoid(self.gate.down.weight @ g)
        keys = self.key.weight @ k
        heads = (keys * self.removal).reshape(self.heads, -1)
        found = torch.stack([head / (head @ head).sqrt().clamp(min=_LEAST_NORM) for head in heads])
        replaced = keys + keys * (rate - 1) * self.replacement
        flat = {
            "queries": self.receptance.weight @ r,
            "keys": replaced,
            "values": self.value.weight @ v,
            "log_decay": log_decay,
            "gates": gates,
        }
        apart = {key: part.reshape(self.heads, -1) for key, part in flat.items()}
        return apart | {"found": found, "erased": rate.reshape(self.heads, -1) * found}

    def _read_one(self, token: dict[str, Tensor], read: Tensor) -> Tensor:
        """Return the normalised heads plus the bonus, of a token and its read `[heads, width]`."""
        heads = []
        for h, head in enumerate(read):
            channels = slice(h * self.key_width, (h + 1) * self.key_width)
            middle = head - head.mean()
            normed = middle / (middle.pow(2).mean() + _LEAST_VARIANCE).sqrt()
            out = normed * self.gain[channels] + self.offset[channels]
            if self.bonus is not None:
                met = token["queries"][h] * token["keys"][h] * self.bonus[channels]
                out = out + met.sum() * token["values"][h]
            heads.append(out)
        return torch.cat(heads)

    def state_numbers(self) -> int:
        """Return the number of state values per sequence."""
        return self.keys * self.value_width + (self.dim if self.config.shift else 0)

    def flops(self, length: int) -> int:
        """Return the FLOPs of one sequence: the maps, and the recurrence in chunks."""
        state = removal_flops(
            length, self.chunk, key_width=self.key_width, value_width=self.value_width
        )
        return 2 * length * self._map_parameters() + self.heads * state

    def _map_parameters(self) -> int:
        """Return the number of parameters of the three square and the low-rank maps."""
        ranks: int = 2 * self.config.rank + self.config.gate_rank
        return 3 * self.dim * self.keys + ranks * (self.dim + self.keys)


class RWKV7(MatrixStateMixer):
    """Generalised delta rule with a decay and a rate per channel; see the module docstring."""

    name = "rwkv7"
    paper = "Peng et al. 2025, arXiv:2503.14456"
    cost = DeltaRuleMixer.cost
    direction = GooseReading
    heads_divide_dim = True
    positive_knobs: ClassVar[tuple[str, ...]] = ("heads", "rank", "gate_rank", "chunk")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of RWKV-7.

        Attributes:
            heads: Number of heads, over both directions; dim / heads is at least 2.
            rank: Rank of the maps to the decay and to the rate.
            gate_rank: Rank of the map to the gate.
            shift: Whether each stream interpolates between the token and the previous one.
            bonus: Whether a token's own value is added once more, weighted by r * k~ * r_k.
            chunk: Number of tokens per chunk, at most 64; limited to twice the width of a head.
            state_kernel: ``torch`` (in chunks), ``fla`` (flash-linear-attention, on a GPU in
                bf16), or ``auto``: ``fla`` where it can be used and agrees with ``torch``.
        """

        heads: int = 4
        rank: int = 16
        gate_rank: int = 32
        shift: bool = True
        bonus: bool = True
        chunk: int = field(default=32, metadata={"cost_only": True})
        state_kernel: StateKernel = field(
            default="auto", metadata={"cost_only": True, "is_late": True}
        )

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if a head has a single channel, or decays overflow over a chunk."""
        super().check_config(config, dim=dim)
        if config.heads == dim:
            raise ModelError(
                f"{cls.name}: heads={config.heads} leaves a head of dim={dim} one channel, whose "
                "norm is zero; at least 2 are needed"
            )
        if config.chunk > LONGEST:
            raise ModelError(f"{cls.name}: chunk={config.chunk} is above {LONGEST}")

    def head_widths(self, config: Any) -> tuple[int, int]:
        """Return the widths of keys and values in one head."""
        return self.dim // config.heads, self.dim // config.heads


def _sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def _without(s: RemovalStreams, padded: Tensor) -> RemovalStreams:
    """Return the streams with no erasing, writing and decay at padded tokens."""
    erased, keys, log_decay = (
        part.masked_fill(padded, 0.0) for part in (s.erased, s.keys, s.decay())
    )
    return RemovalStreams(
        queries=s.queries,
        keys=keys,
        values=s.values,
        log_decay=log_decay,
        found=s.found,
        erased=erased,
    )
