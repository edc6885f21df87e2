"""Gated linear attention: linear attention with a learned decay for each channel.

Paper: Yang et al. 2023, "Gated Linear Attention Transformers with Hardware-Efficient Training"
    (arXiv:2312.06635), equation 3 and section 4.4.
Equation: S_t = diag(a_t) S_{t-1} + k_t v_t', o_t = S_t' q_t d^-1/2, for each head, with a_t =
    sigmoid(W x_t + b)^(1/16), W of rank 16; keys have half the width; the output is W (norm(o) *
    silu(G x)).
Cost: n d^2 / heads, and within a chunk d numbers for each pair of tokens, so chunks are short; one
    sequential operation, since a decayed sum is limited only by its depth.
Departures: the norm divides by the root mean square, as in the authors' code, where the paper
    writes LayerNorm; heads share its gain. The gate has no bias.
Padding: a padded token writes nothing and causes no decay.
Fast form: `kernels.state_chunks.chunked`; `step` holds S.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bakeoff.models.kernels.matrix_state_mixer import Decays, Gates, MatrixStateMixer


class GatedLinearAttention(MatrixStateMixer):
    """Linear attention with a decay for each channel and token; see the module docstring."""

    name = "gla"
    paper = "Yang et al. 2023, arXiv:2312.06635"

    @dataclass(frozen=True, kw_only=True)
    class Config(MatrixStateMixer.Config):
        """Knobs of gated linear attention; the defaults are its own."""

        key_ratio: float = 0.5
        decay: Decays = "sigmoid"
        output_gate: Gates = "silu"
        chunk: int = field(default=16, metadata={"cost_only": True})
