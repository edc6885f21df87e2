"""Gated DeltaNet: the delta rule with a decay for each head and token.

Paper: Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule"
    (arXiv:2412.06464), equation 10 and section 3.4.
Equation: S_t = a_t S_{t-1} + b_t k_t (v_t - a_t S_{t-1}' k_t)', o_t = S_t' q_t d^-1/2, for each
    head, with log a_t = -exp(A) softplus(w x_t + d) and b_t = sigmoid(w' x_t); queries, keys and
    values pass through a convolution with 4 taps and SiLU, queries and keys are normalised to
    length 1; the output is W (RMSNorm(o) * silu(G x)).
Cost: n d^2 / heads, in chunks that are processed in sequence, since corrections are not a plain
    sum. The state is carried to every later token, so path lengths are those of a recurrence.
Departures: keys have width dim and values 2 dim over all heads, where the authors use 3/4 and 3/2
    for as many parameters as attention. Heads share the gain of the norm, as in their code.
Padding: a padded token writes nothing, causes no decay, and enters the convolution as a zero.
Fast form: `kernels.state_chunks.chunked`; `step` holds S and three tokens of the convolution.
"""

from __future__ import annotations

from dataclasses import dataclass

from bakeoff.models.kernels.matrix_state_mixer import Decays, DeltaRuleMixer, Gates


class GatedDelta(DeltaRuleMixer):
    """Delta rule with a decay for each head and token; see the module docstring."""

    name = "gated_delta"
    paper = "Yang et al. 2024, arXiv:2412.06464"

    @dataclass(frozen=True, kw_only=True)
    class Config(DeltaRuleMixer.Config):
        """Knobs of Gated DeltaNet; the defaults are its own."""

        value_ratio: float = 2.0
        decay: Decays = "head"
        output_gate: Gates = "silu"
