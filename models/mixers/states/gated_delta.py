"""Gated DeltaNet: a state that forgets, and that a token corrects.

Paper: Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule"
    (arXiv:2412.06464), equation 10 and section 3.4.
Equation: S_t = a_t S_{t-1} + b_t k_t (v_t - a_t S_{t-1}' k_t)', o_t = S_t' q_t d^-1/2, for each
    head, with log a_t = -exp(A) softplus(w x_t + d) and b_t = sigmoid(w' x_t); queries, keys and
    values through a convolution of 4 taps and SiLU, queries and keys of length 1; the output is
    W (RMSNorm(o) * silu(G x)).
Cost: n d^2 / heads, in chunks; the chunks wait for one another, and corrections are no plain sum.
    The state is carried to every later token: the path is that of a recurrence.
Departures: keys of width dim and values of 2 dim over all heads, where the authors take 3/4 and
    3/2 at as many parameters as attention. Heads share one gain of the norm, as in their code.
Padding: a padded token writes nothing and lets nothing decay; the convolution meets a zero.
Fast form: `kernels.state_chunks.chunked`; `step` holds S and three tokens of the convolution.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.kernels.matrix_state_mixer import Decays, DeltaRuleMixer, Gates


class GatedDelta(DeltaRuleMixer):
    """A decay for each head and token, then the delta rule."""

    name = "gated_delta"
    paper = "Yang et al. 2024, arXiv:2412.06464"

    @dataclass(frozen=True, kw_only=True)
    class Config(DeltaRuleMixer.Config):
        """Knobs of Gated DeltaNet, with its defaults."""

        value_ratio: float = 2.0
        decay: Decays = "head"
        output_gate: Gates = "silu"
