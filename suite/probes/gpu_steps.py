"""Estimate the seconds of a training step on a GPU from rates that were measured on one.

A step is recorded as one CUDA graph, and its time is the sum of four parts: a time per tensor of
parameters, whose kernels are too short to be limited by anything but their number; the traffic of
activations in each block; the FLOPs of the mixers, each at the rate of its own kernels; and all
other FLOPs at the rate of large matrix products. A recurrence takes a time per token instead.

Source: measured on 2026-11-26 on an NVIDIA H200 at commit 78d362ab, see docs/gpu/README.md. The
share of the peak and both `_Rates` are fitted to the step of `heads` at standard scale with batches
of 64 and 256; with 1,024 the estimate is 1.25 times the measured step. Another GPU is assumed to
differ in proportion to its rate of matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from bakeoff.models import Mixer, ModelSpec, architecture_class, build_shapes

_SHARE_OF_PEAK = 0.5
_PASSES = 3  # forward and backward take as many FLOPs as three forward passes
MEASURED_PEAK = 7.7e14  # FLOP/s of large matrix products in bf16
_SECONDS_PER_TOKEN = 1.3e-5  # in each layer of a recurrence


@dataclass(frozen=True)
class _Rates:
    """Rates of a way of running steps.

    Attributes:
        per_tensor: Seconds for each tensor of parameters.
        per_activation: Seconds for each number of the vectors between two blocks.
    """

    per_tensor: float
    per_activation: float


_RECORDED = _Rates(per_tensor=1.6e-5, per_activation=1.3e-10)
_COMPILED = _Rates(per_tensor=1.5e-5, per_activation=5e-11)

_LAUNCHES_PER_TENSOR = 2.1e-4  # seconds: 15.57 ms with a batch of 64

# TFLOP/s of forward and backward of a mixer in bf16 as a CUDA graph: 4 sequences of 2,048 tokens of
# width 512, default knobs, in the slower of both directions.
_TFLOPS_OF_MIXERS: Mapping[str, float] = {
    "attention": 310.0,
    "bigbird": 28.7,
    "conv": 110.0,
    "delta_net": 15.8,
    "differential_attention": 193.0,
    "dilated_conv": 111.0,
    "fnet": 9.5,
    "gated_conv": 152.0,
    "gated_delta": 19.1,
    "gla": 14.9,
    "grid_conv": 1.1,
    "grouped_query": 290.0,
    "hard_attention": 24.6,
    "hyena": 21.3,
    "kimi_delta": 10.1,
    "latent_attention": 208.0,
    "linear_transformer": 46.8,
    "linformer": 79.9,
    "local_attention": 81.6,
    "lsh_attention": 19.0,
    "mamba2": 21.1,
    "mlp_mixer": 68.5,
    "nystromformer": 16.5,
    "outlook_attention": 15.2,
    "performer": 36.7,
    "plain_attention": 22.1,
    "prefix_attention": 188.0,
    "retention": 37.2,
    "rwkv7": 10.0,
    "s4d": 22.9,
    "separable_conv": 36.4,
    "sink_attention": 59.0,
    "sinkhorn": 27.4,
    "strided_attention": 60.3,
    "synthesizer": 35.6,
    "talking_heads": 8.1,
    "window_attention": 60.6,
}


def step_seconds(
    spec: ModelSpec,
    *,
    batch: int,
    length: int,
    forward_flops: float,
    peak: float = MEASURED_PEAK,
    is_compiled: bool = False,
) -> float:
    """Return the estimated seconds of forward, backward and update.

    Args:
        spec: The model.
        batch: Number of examples.
        length: Number of tokens of an example; some models are built for longer test sequences.
        forward_flops: FLOPs of a forward pass over one example.
        peak: FLOPs per second of large matrix products on the GPU, at the trial's precision; by
            default those of the GPU that was measured, in bf16.
        is_compiled: Whether the step is compiled before it is recorded.
    """
    rates = _COMPILED if is_compiled else _RECORDED
    parts = _parts(spec.spelling, length)
    of_mixers = sum(parts.flops.values())
    mixing = sum(flops / (1e12 * _TFLOPS_OF_MIXERS[name]) for name, flops in parts.flops.items())
    others = max(0.0, forward_flops - of_mixers) / (_SHARE_OF_PEAK * MEASURED_PEAK)
    activations = parts.num_tokens * spec.dim * spec.depth * rates.per_activation
    computing = batch * (_PASSES * (mixing + others) + activations) * MEASURED_PEAK / peak
    one_by_one = length * parts.num_recurrences * _SECONDS_PER_TOKEN
    return parts.num_tensors * rates.per_tensor + one_by_one + computing


def launched_seconds(spec: ModelSpec, length: int) -> float:
    """Return the estimated seconds in which Python launches the kernels of a step, one by one."""
    parts = _parts(spec.spelling, length)
    one_by_one = length * parts.num_recurrences * _SECONDS_PER_TOKEN
    return parts.num_tensors * _LAUNCHES_PER_TENSOR + one_by_one


@dataclass(frozen=True)
class _Parts:
    """The parts of a model that its time depends on.

    Attributes:
        num_tensors: Number of tensors of parameters.
        num_tokens: Number of tokens that the blocks process, such as patches of an image.
        num_recurrences: Number of layers that read one token after the other.
        flops: Forward FLOPs of mixers for one example, by name; only mixers that were measured.
    """

    num_tensors: int
    num_tokens: int
    num_recurrences: int
    flops: Mapping[str, float]


@cache
def _parts(spelling: str, length: int) -> _Parts:
    spec = ModelSpec.of_spelling(spelling)
    model = build_shapes(spec)
    mixers = [part for part in model.modules() if isinstance(part, Mixer)]
    own = 0 if spec.is_own else architecture_class(spec.architecture).sequential_operations(spec)
    flops: dict[str, float] = {}
    for each in mixers:
        if each.name in _TFLOPS_OF_MIXERS:
            one = each.flops(min(each.max_length, length))
            flops[each.name] = flops.get(each.name, 0.0) + one
    return _Parts(
        num_tensors=len(list(model.parameters())),
        num_tokens=min(length, max([each.max_length for each in mixers], default=length)),
        num_recurrences=own + sum(each.family == "recurrent" for each in mixers),
        flops=flops,
    )
