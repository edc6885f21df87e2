"""DeltaNet: a token writes only what the state does not yet give for its key.

Paper: Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence
    Length" (arXiv:2406.06484), sections 2.2 and 3.3; the rule is that of Schlag et al. 2021
    (arXiv:2102.11174).
Equation: S_t = S_{t-1} + b_t k_t (v_t - S_{t-1}' k_t)', o_t = S_t' q_t d^-1/2, for each head, with
    b_t = sigmoid(w x_t); queries, keys and values through a convolution of 4 taps and SiLU, queries
    and keys of length 1; the output is W RMSNorm(o).
Cost: n d^2 / heads, in chunks; the chunks wait for one another, and corrections are no plain sum.
Departures: heads share one gain of the norm, as in the authors' code. ``strength="double"`` lets a
    write turn a direction of the state round (arXiv:2411.12537).
Padding: a padded token writes nothing; the convolution meets a zero.
Fast form: `kernels.state_chunks.chunked`; `step` holds S and three tokens of the convolution.
"""

from __future__ import annotations

from models.kernels.matrix_state_mixer import DeltaRuleMixer


class DeltaNet(DeltaRuleMixer):
    """The delta rule without a decay: its defaults are the family's."""

    name = "delta_net"
    paper = "Yang et al. 2024, arXiv:2406.06484"
