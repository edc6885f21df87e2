"""S4D: each channel passes through its own linear recurrence with a diagonal matrix.

Paper: Gu, Gupta, Goel and Re 2022, "On the Parameterization and Initialization of Diagonal State
    Space Models" (arXiv:2206.11893), sections 3 and 4.
Equation: s' = A s + u with A diagonal, discretised by a zero-order hold with steps dt:
    s_t = z s_{t-1} + u_t with z = exp(dt A), y_t = 2 Re(sum_n C_n (z_n - 1) / A_n s_{tn}) + D u_t,
    for each channel, over N / 2 numbers that represent N as conjugate pairs; the output is (a *
    sigmoid(b)) of (a, b) = W gelu(y) + c, the only step that mixes channels. A = -exp(r) + i f, so
    that the state decays. The equivalent convolution is y = K * u + D u with
    K_l = 2 Re(sum_n C_n (z_n - 1) / A_n z_n^l).
Cost: n d log n by Fourier transforms, n d N for the kernel, once per batch; one sequential
    operation; any two positions are one step apart.
Not causal: as in S4's code for the Long Range Arena, a second kernel, with its own C and the same A
    and dt, runs from the end over later tokens; the two outputs are added. Both kernels have the
    full width.
Start: A follows the knob `eigenvalues`, C is complex normal with variance 1, D normal, and dt
    log-uniform in .001 to .1, one number per channel; no other initialisation rule changes these. B
    is one, which the paper finds sufficient. W starts from normal(0, 1 / inputs), where the authors
    use torch's default.
Departures: the paper trains A and dt with a smaller learning rate, at most .001; here all
    parameters share one. They have no weight decay, as in the paper. There is no dropout. S4D-Real
    keeps f, which starts at zero and may change, and N / 2 numbers per channel.
Padding: a padded token enters as a zero in both directions, but states decay over it.
Precision: at least float32, up to and including the GELU. (z - 1) / A is computed without the
    difference, which would lose four digits for small dt.
Fast form: `kernels.long_convolution`. Places are split as l = i m + j with m near the root of n, so
    that the kernel is a product of matrices n / m x N and N x m per channel, without an array of n
    times N numbers. `step` holds s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import scaled_normal
from bakeoff.models.kernels.long_convolution import (
    long_convolution,
    long_convolution_bytes,
    long_convolution_flops,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding

Complex = tuple[Tensor, ...]  # a real and an imaginary part
_SHORT_STEP, _LONG_STEP = 1e-3, 1e-1


class S4D(Mixer):
    """State space model with a diagonal matrix per channel; see the module docstring."""

    name = "s4d"
    paper = "Gu et al. 2022, arXiv:2206.11893"
    family = "state space"
    cost = Cost(time="n * d * (log2(n) + d)", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    is_position_aware = True
    mask_mode = "exact"
    no_weight_decay = ("log_step", "log_decay", "frequency")
    keeps_own_draw = (*no_weight_decay, "reading", "skip")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of S4D.

        Attributes:
            state: N, the number of real state values per channel; even.
            eigenvalues: Initial values of A, for n = 0, 1, ..: ``lin`` is -1/2 + i pi n; ``inv`` is
                -1/2 + i (N / pi) (N / (2 n + 1) - 1); ``real`` is -(n + 1).
        """

        state: int = 64
        eigenvalues: Literal["lin", "inv", "real"] = "lin"

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if the state does not consist of pairs."""
        super().check_config(config, dim=dim)
        if config.state < 2 or config.state % 2 != 0:
            raise ModelError(
                f"{cls.name}: state={config.state} is not an even number of at least 2"
            )

    def make_parameters(self, config: Config) -> None:
        """Create dt, A, C and D of the recurrence, and the output projection."""
        self.pairs, self.num_directions = config.state // 2, 1 if self.is_causal else 2
        rates, frequencies = _first_eigenvalues(config)
        low, high = math.log(_SHORT_STEP), math.log(_LONG_STEP)
        self.log_step = nn.Parameter(torch.empty(self.dim, 1).uniform_(low, high))
        self.log_decay = nn.Parameter(rates.log().repeat(self.dim, 1))
        self.frequency = nn.Parameter(frequencies.repeat(self.dim, 1))
        parts = torch.empty(self.num_directions, self.dim, self.pairs, 2)
        self.reading = nn.Parameter(parts.normal_(std=2**-0.5))
        self.skip = nn.Parameter(torch.empty(self.dim).normal_())
        self.output = nn.Linear(self.dim, 2 * self.dim)
        scaled_normal(self.output)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        with torch.autocast(x.device.type, enabled=False):
            wide = torch.promote_types(x.dtype, torch.float32)
            channels = without_padding(x, mask).to(wide).transpose(1, 2)
            past, *future = self.kernels(x.shape[1], wide)
            at_once = self.skip.to(wide).unsqueeze(1)
            past = past + functional.pad(at_once, (0, x.shape[1] - 1))
            mixed = long_convolution(channels, past, *future)
        return self._read_out(mixed.transpose(1, 2), x.dtype)

    def kernels(self, length: int, dtype: torch.dtype) -> list[Tensor]:
        """Return K of each direction, `[dim, length]`, without D."""
        width, rows = _split(length)
        log_z = self._log_z(dtype)
        places = torch.arange(width, device=self.skip.device)
        inside = torch.cat(_powers(log_z, places, dim=2), dim=1)  # (dim, state, width)
        starts = _powers(log_z, width * torch.arange(rows, device=places.device), dim=1)
        kernels = []
        for weights in self._weights(log_z):
            real, imaginary = _times((weights[0].unsqueeze(1), weights[1].unsqueeze(1)), starts)
            summed = torch.bmm(torch.cat([real, -imaginary], dim=2), inside)
            kernels.append(summed.flatten(1)[:, :length])
        return kernels

    def initial_state(self, batch: int) -> State:
        """Return zeros, `[batch, dim, pairs, 2]`, for real and imaginary parts."""
        self.check_steps()
        return (self.reading.new_zeros(batch, self.dim, self.pairs, 2),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance the recurrence by one token, `[batch, dim]`."""
        self.check_steps()
        with torch.autocast(x_t.device.type, enabled=False):
            u = x_t.to(torch.promote_types(x_t.dtype, torch.float32)).unsqueeze(-1)
            log_z = self._log_z(u.dtype)
            z = (log_z[0].exp() * log_z[1].cos(), log_z[0].exp() * log_z[1].sin())
            real, imaginary = _times(z, state[0].to(u.dtype).unbind(dim=-1))
            real = real + u
            read = _times(self._weights(log_z)[0], (real, imaginary))[0].sum(dim=-1)
            mixed = read + self.skip.to(u.dtype) * u.squeeze(-1)
        return self._read_out(mixed, x_t.dtype), (torch.stack([real, imaginary], dim=-1),)

    def _log_z(self, dtype: torch.dtype) -> Complex:
        """Return log z = dt A, `[dim, pairs]`."""
        step = self.log_step.to(dtype).exp()
        return -self.log_decay.to(dtype).exp() * step, self.frequency.to(dtype) * step

    def _weights(self, log_z: Complex) -> list[Complex]:
        """Return 2 C (z - 1) / A of each direction, `[dim, pairs]`."""
        real, turn = log_z
        grown = torch.expm1(real) * turn.cos() - 2 * (turn / 2).sin().square()
        moved = (grown, real.exp() * turn.sin())  # z - 1
        scale = 2 * self.log_step.to(real.dtype).exp() / (real.square() + turn.square())
        held = _times(moved, (scale * real, -scale * turn))
        return [_times(c.unbind(dim=-1), held) for c in self.reading.to(real.dtype)]

    def _read_out(self, mixed: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the output: GELU, then a projection with a gated linear unit."""
        both = self.output(functional.gelu(mixed).to(dtype))
        return functional.glu(both, dim=-1)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of N numbers per channel, independent of the length."""
        self.check_steps()
        return 4 * self.dim * 2 * self.pairs

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the convolution, the kernel's products, and the projection."""
        self.check_context_length(context_length)
        width, rows = _split(length)
        kernels = self.num_directions * 2 * self.dim * rows * width * 2 * self.pairs
        output = batch * 2 * length * self.dim * 2 * self.dim
        return long_convolution_flops(length, self.dim, batch) + kernels + output

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: while a kernel is computed, or while it is convolved.

        The kernel needs log z, the weights, the powers within a row, and those at the starts of
        rows. A single kernel also needs the latter times the weights, two of them twice; a second
        kernel needs the remains of the first instead. The convolution needs one kernel with D, and
        any second one.
        """
        self.check_context_length(context_length)
        width, rows = _split(length)
        is_two, log_z = self.num_directions == 2, 2 * self.dim * self.pairs
        powers = log_z * width + log_z * rows + (3 if is_two else 2.5) * log_z * rows
        second = self.dim * rows * width if is_two else 0
        made = 4 * (log_z * (1 + self.num_directions) + powers + second) + 8 * width
        kept = 4 * (self.dim * length + second)
        return max(made, kept + long_convolution_bytes(length, self.dim, batch))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute the recurrence token by token, and once more from the end if not causal."""
        wide = torch.promote_types(x.dtype, torch.float32)
        u, step = x.to(wide), self.log_step.to(wide).exp()
        a = torch.complex(-self.log_decay.to(wide).exp(), self.frequency.to(wide))
        z = torch.exp(step * a)
        c, *c_later = torch.view_as_complex(self.reading.to(wide)) * (z - 1) / a
        state, rows = torch.zeros_like(z), []
        for u_t in u:
            state = z * state + u_t.unsqueeze(1)
            rows.append(2 * (c * state).real.sum(dim=1) + self.skip.to(wide) * u_t)
        for c_back in c_later:
            state = torch.zeros_like(z)
            for t in reversed(range(len(u))):
                rows[t] = rows[t] + 2 * (c_back * state).real.sum(dim=1)
                state = z * state + u[t].unsqueeze(1)
        y = torch.stack(rows)
        gelu = (y * (1 + torch.erf(y / 2**0.5)) / 2).to(x.dtype)
        sums, gates = (gelu @ self.output.weight.T + self.output.bias).chunk(2, dim=1)
        return sums / (1 + torch.exp(-gates))


def _first_eigenvalues(config: S4D.Config) -> tuple[Tensor, Tensor]:
    """Return decay rates and frequencies, `[pairs]` each: A is -rate + i frequency."""
    state = config.state
    n = torch.arange(state // 2, dtype=torch.float32)
    if config.eigenvalues == "real":
        return n + 1, torch.zeros_like(n)
    halves = torch.full_like(n, 0.5)
    if config.eigenvalues == "inv":
        return halves, state / math.pi * (state / (2 * n + 1) - 1)
    return halves, math.pi * n


def _split(length: int) -> tuple[int, int]:
    """Return the width and number of rows that hold `length` places, both near its root."""
    width = math.isqrt(length - 1) + 1
    return width, -(-length // width)


def _times(a: Complex, b: Complex) -> Complex:
    """Return the product of two complex numbers, given as parts."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _powers(log_z: Complex, places: Tensor, dim: int) -> Complex:
    """Return the powers of z at `places`, along a new axis `dim` of `[dim, pairs]`."""
    along = places.to(log_z[0].dtype).unsqueeze(1) if dim == 1 else places.to(log_z[0].dtype)
    size = (log_z[0].unsqueeze(dim) * along).exp()
    turns = log_z[1].unsqueeze(dim) * along
    return size * turns.cos(), size * turns.sin()
