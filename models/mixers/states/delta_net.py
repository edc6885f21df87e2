"""DeltaNet: a linear transformer that writes only what the state does not yet predict for a key.

Paper: Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence
    Length" (arXiv:2406.06484), sections 2.2 and 3.3; the rule is that of Schlag et al. 2021
    (arXiv:2102.11174).
Equation: S_t = S_{t-1} + b_t k_t (v_t - S_{t-1}' k_t)', o_t = S_t' q_t d^-1/2, for each head, with
    b_t = sigmoid(w x_t); queries, keys and values pass through a convolution with 4 taps and SiLU,
    queries and keys are normalised to length 1; the output is W RMSNorm(o).
Cost: n d^2 / heads, in chunks that are processed in sequence, since corrections are not a plain
    sum.
Departures: heads share the gain of the norm, as in the authors' code. With ``strength="double"`` a
    write can reverse a direction of the state (arXiv:2411.12537).
Padding: a padded token writes nothing, and enters the convolution as a zero.
Fast form: `kernels.state_chunks.chunked`; `step` holds S and three tokens of the convolution.
"""

from __future__ import annotations

from bakeoff.models.kernels.matrix_state_mixer import DeltaRuleMixer


class DeltaNet(DeltaRuleMixer):
    """Delta rule without decay, with the defaults of `DeltaRuleMixer`."""

    name = "delta_net"
    paper = "Yang et al. 2024, arXiv:2406.06484"
