"""Count the floating-point operations of a mixer, by its formula and by torch's counter.

Two counts that know nothing of each other must agree within 1 %: the formula counts what the
mixer means to do, the counter what torch is asked to do. Beside them stands what the theory says,
without its constant factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from models import build_model
from models.architectures.mixer_alone import MixerAlone
from suite.probes.cost_formula import evaluate
from suite.probes.model_counts import ForwardFlops
from suite.probes.probe import measurement
from suite.schema import Measurement, Point, Trial, metric_spec

_WITHIN = 0.01
_FORMULA = metric_spec("forward_flops")
_COUNTED = metric_spec("counted_flops")
_THEORY = metric_spec("theory_operations")


class DisagreeingFlopsError(Exception):
    """A formula that the counter contradicts; the message holds both numbers."""


class MixerFlops(ForwardFlops):
    """Forward FLOPs of a mixer alone, one sequence."""

    name = "mixer_flops"
    version = 1
    grain = "variant"
    is_swept = True
    is_at_length = False
    specs = (_FORMULA, _COUNTED, _THEORY)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Counted as on a CPU, wherever the trial runs.

        Raises:
            DisagreeingFlopsError: the counts are more than 1 % apart.
        """
        spec, length = trial.subjects[0], trial.length
        model = cast("MixerAlone", build_model(spec).eval())
        formula, counted = model.flops(length), counted_flops(model, (1, length, spec.dim))
        if abs(formula - counted) > _WITHIN * max(formula, counted):
            raise DisagreeingFlopsError(
                f"{spec.mixer} over {length} tokens takes {formula:.6g} FLOPs by its formula, "
                f"and {counted:.6g} by the counter"
            )
        yield measurement(_FORMULA, formula)
        yield measurement(_COUNTED, counted)
        theory = [evaluate(mixer, mixer.cost.time, length) for mixer in model.mixers]
        known = [operations for operations in theory if operations is not None]
        if known:
            yield measurement(_THEORY, sum(known))


Shape = Sequence[int]

_aten = torch.ops.aten
_RECURRENCES = frozenset(
    getattr(torch._VF, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
)
# Names without the underscore of the forms that write in place. Elementwise work counts as none,
# and so do sums, norms and softmaxes, which do a few operations an element.
_FREE = frozenset(
    {
        # moved or put in order
        "_to_copy",
        "_unsafe_view",
        "argsort",
        "cat",
        "clone",
        "col2im",
        "constant_pad_nd",
        "copy",
        "embedding",
        "expand_copy",
        "fill",
        "flip",
        "floor_divide",
        "gather",
        "im2col",
        "index",
        "index_put",
        "index_select",
        "masked_fill",
        "masked_scatter",
        "nonzero",
        "repeat",
        "roll",
        "scatter",
        "scatter_add",
        "searchsorted",
        "select_scatter",
        "slice_scatter",
        "sort",
        "stack",
        "topk",
        "tril",
        "triu",
        "diag_embed",
        "unsafe_split",
        "zero",
        "_unique2",
        # made
        "bernoulli",
        "empty_like",
        "full_like",
        "native_dropout",
        "new_empty",
        "new_empty_strided",
        "new_full",
        "new_ones",
        "new_zeros",
        "normal",
        "ones_like",
        "rand_like",
        "randn_like",
        "uniform",
        "zeros_like",
        # reduced or normalised
        "_fused_rms_norm",
        "_local_scalar_dense",
        "_log_softmax",
        "_safe_softmax",
        "_softmax",
        "all",
        "amax",
        "amin",
        "aminmax",
        "any",
        "argmax",
        "argmin",
        "avg_pool2d",
        "bincount",
        "count_nonzero",
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "equal",
        "glu",
        "linalg_vector_norm",
        "log_sigmoid_forward",
        "logcumsumexp",
        "logsumexp",
        "max",
        "mean",
        "min",
        "native_group_norm",
        "native_layer_norm",
        "norm",
        "prod",
        "std",
        "sum",
        "var",
        "var_mean",
    }
)


class UncountedOperationError(Exception):
    """An operation that may do work, and for which nobody has said how much."""


def counted_flops(module: nn.Module, shape: Shape) -> float:
    """FLOPs of ``module(x)`` with x of float32 in this shape, on the CPU, without gradients.

    By torch's counter, with formulas for what it counts as nothing: fused attention on a CPU,
    oneDNN's recurrences, Fourier transforms, products with a vector. An operation that does work
    and has no formula is refused by name. Free are operations that torch tags as pointwise, views,
    makers of tensors, and by name those that only move, order, reduce or normalise.

    Tensors are without data, so that any length is counted in no memory; only where the operations
    depend on the data is there data. Of a recurrence one token is counted, and multiplied.

    Raises:
        UncountedOperationError: naming an operation without a formula.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return _counted(module, torch.empty(*shape))
    except (DataDependentOutputException, DynamicOutputShapeException):
        return _counted(module, torch.randn(*shape))


def _counted(module: nn.Module, x: Tensor) -> float:
    counter: Any = FlopCounterMode(display=False, custom_mapping=dict(_FORMULAS))
    strict, by_token = _NothingUncounted(counter.flop_registry), _OneToken(counter)
    with torch.no_grad(), strict, counter, by_token:  # the counter cuts what it can into parts
        module(x)
    return float(counter.get_total_flops() + by_token.flops_of_other_tokens)


class _NothingUncounted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees what the counter lets through, and refuses what has no formula and is not free."""

    def __init__(self, formulas: Mapping[Any, object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.formulas = formulas

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func._overloadpacket if isinstance(func, OpOverload) else func
        if packet not in self.formulas and not is_free(func, (args, kwargs)):
            raise UncountedOperationError(
                f"{func} has no FLOPs formula, and is not known to be free of work"
            )
        return func(*args, **(kwargs or {}))


def is_free(operation: Any, arguments: object = ()) -> bool:
    """Whether an operation, as torch dispatches it, is known to do no work that is counted."""
    if not isinstance(operation, OpOverload):
        return False
    is_tagged = {torch.Tag.pointwise, torch.Tag.inplace_view} & set(operation.tags)
    if operation.namespace == "prim" or is_tagged:
        return True
    aliases = [returned.alias_info for returned in operation._schema.returns]
    if any(alias is not None and not alias.is_write for alias in aliases):
        return True  # a view
    if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(arguments)):
        return operation.namespace == "aten"  # made of no tensor
    name = operation._schema.name.removeprefix("aten::")
    return name in _FREE or name.removesuffix("_") in _FREE


class _OneToken(TorchFunctionMode):
    """Runs torch's recurrences over their first token, and remembers what the others would take."""

    def __init__(self, counter: Any) -> None:
        super().__init__()
        self.counter = counter
        self.flops_of_other_tokens = 0.0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A packed sequence brings the sizes of its batches in place of the flag in the end.
        if func not in _RECURRENCES or not isinstance(args[-1], bool):
            return func(*args, **(kwargs or {}))
        x, is_batch_first = args[0], args[-1]
        time = 1 if is_batch_first else 0
        before = self.counter.get_total_flops()
        output, *state = func(x.narrow(time, 0, 1), *args[1:])
        of_one = self.counter.get_total_flops() - before
        self.flops_of_other_tokens += (x.shape[time] - 1) * of_one
        sizes = [-1] * x.ndim
        sizes[time] = x.shape[time]
        return output.expand(sizes), *state


def _fused_attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """A product with each key and with each value; `[batch, heads, time, width]`."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _onednn_recurrence(x: Shape, of_input: Shape, of_state: Shape, *_: Any, **__: Any) -> int:
    """All gates from the input and from the last output; x is `[time, batch, inputs]`."""
    return 2 * x[0] * x[1] * (math.prod(of_input) + math.prod(of_state))


def _transforms(x: Shape, dims: Sequence[int], *_: Any, **__: Any) -> float:
    """5 n log2 n for every transform of n; real ones in full."""
    return sum(5 * math.prod(x) * math.log2(x[dim]) for dim in dims)


def _vector_product(matrix: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(matrix)


def _triangular_solve(matrix: Shape, columns: Shape, *_: Any, **__: Any) -> int:
    """n^2 for each column: a product with half a matrix."""
    return matrix[-1] * math.prod(columns)


_FORMULAS: Mapping[Any, Callable[..., float]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _fused_attention,
    _aten.mkldnn_rnn_layer: _onednn_recurrence,
    _aten._fft_r2c: _transforms,
    _aten._fft_c2c: _transforms,
    _aten._fft_c2r: lambda x, dims, *_, out_shape, **__: _transforms(out_shape, dims),
    _aten.linalg_solve_triangular: _triangular_solve,
    _aten.mv: _vector_product,
    _aten.dot: _vector_product,
    _aten.vdot: _vector_product,
    _aten.addmv: lambda added, *factors, **named: _vector_product(*factors, **named),
}
