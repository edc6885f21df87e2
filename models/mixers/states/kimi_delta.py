"""Kimi Delta Attention: the gated delta rule with a decay for each channel.

Paper: Kimi Team 2025, "Kimi Linear: An Expressive, Efficient Attention Architecture"
    (arXiv:2510.26692), section 3.
Equation: S_t = D_t S_{t-1} + b_t k_t (v_t - [D_t S_{t-1}]' k_t)', o_t = S_t' q_t d^-1/2, for each
    head, with D_t = diag(exp(-exp(A) softplus(W x_t + d))), where the rank of W is the width of a
    head, and b_t = sigmoid(w x_t); queries, keys and values pass through a convolution with 4 taps
    and SiLU, queries and keys are normalised to length 1; the output is
    W (RMSNorm(o) * sigmoid(G x)), where the rank of G is the width of a head.
Cost: n d^2 / heads, and within a chunk d numbers for each pair of tokens, so chunks are short.
Departures: the gate has no bias. A and d start as in Gated DeltaNet.
Padding: a padded token writes nothing, causes no decay, and enters the convolution as a zero.
Fast form: `kernels.state_chunks.chunked`; `step` holds S and three tokens of the convolution.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bakeoff.models.kernels.matrix_state_mixer import Decays, DeltaRuleMixer, Gates


class KimiDelta(DeltaRuleMixer):
    """Delta rule with a decay for each channel and token; see the module docstring."""

    name = "kimi_delta"
    paper = "Kimi Team 2025, arXiv:2510.26692"

    @dataclass(frozen=True, kw_only=True)
    class Config(DeltaRuleMixer.Config):
        """Knobs of Kimi Delta Attention; the defaults are its own."""

        decay: Decays = "channel"
        output_gate: Gates = "sigmoid"
        chunk: int = field(default=16, metadata={"cost_only": True})
