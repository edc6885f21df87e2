"""Gated linear attention: a linear Transformer whose channels forget at learned rates.

Paper: Yang et al. 2023, "Gated Linear Attention Transformers with Hardware-Efficient Training"
    (arXiv:2312.06635), equation 3 and section 4.4.
Equation: S_t = diag(a_t) S_{t-1} + k_t v_t', o_t = S_t' q_t d^-1/2, for each head, with
    a_t = sigmoid(W x_t + b)^(1/16), W of rank 16; keys of half the width; the output is
    W (norm(o) * silu(G x)).
Cost: n d^2 / heads, and inside a chunk d numbers for each pair of tokens, so that chunks are short;
    one sequential operation, since a decayed sum does not wait for anything but its depth.
Departures: the norm divides by the root mean square, as the authors' code does, where the paper
    writes LayerNorm; heads share its gain. No bias in the gate.
Padding: a padded token writes nothing and lets nothing decay.
Fast form: `kernels.state_chunks.chunked`; `step` holds S.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from models.kernels.matrix_state_mixer import Decays, Gates, MatrixStateMixer


class GatedLinearAttention(MatrixStateMixer):
    """A decay for each channel and token."""

    name = "gla"
    paper = "Yang et al. 2023, arXiv:2312.06635"

    @dataclass(frozen=True, kw_only=True)
    class Config(MatrixStateMixer.Config):
        """Knobs of gated linear attention, with its defaults."""

        key_ratio: float = 0.5
        decay: Decays = "sigmoid"
        output_gate: Gates = "silu"
        chunk: int = field(default=16, metadata={"cost_only": True})
