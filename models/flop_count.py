"""Count the floating-point operations of a forward pass with torch's counter.

Torch's counter knows matrix products, convolutions and the fused attention of GPUs. This module
adds formulas for other operations: fused attention on a CPU, recurrences, Fourier transforms,
triangular solves and products with a vector. An operation that may do work and has no formula
raises an error, so that nothing is silently counted as zero.

A multiply-add counts as 2, an FFT of n as 5 n log2 n, elementwise work as 0. Causal forms are not
discounted, since kernels differ in what they skip.

Tensors have shapes but no values, so counting takes no memory at any length, except if the
operations depend on the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models.interface import INPUTS
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.registry import architecture_class, build_model

Shape = Sequence[int]

_aten = torch.ops.aten
_RECURRENCES = frozenset(
    getattr(torch._VF, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
)
# Names without the underscore of the in-place forms. Elementwise work counts as zero, and so do
# sums, norms and softmaxes, which do a few operations per element.
_FREE = frozenset(
    {
        # moved or sorted
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
        # created
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
        "_adaptive_avg_pool2d",
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
        "hardswish",
        "linalg_vector_norm",
        "log_sigmoid_forward",
        "logcumsumexp",
        "logsumexp",
        "max",
        "max_pool2d_with_indices",
        "mean",
        "min",
        "_native_batch_norm_legit_no_training",
        "native_group_norm",
        "native_layer_norm",
        "nll_loss2d_forward",
        "nll_loss_forward",
        "norm",
        "prod",
        "std",
        "sum",
        "var",
        "var_mean",
    }
)


class UncountedOperationError(Exception):
    """Raised for an operation that may do work and has no formula; the message names it."""


def counted_forward_flops(spec: ModelSpec, batch: int = 1) -> float:
    """Return the FLOPs of a forward pass of a model, with inputs of the sizes in its spec.

    Raises:
        UncountedOperationError: The model runs an operation without a formula.
        ModelError: The model cannot be built.
    """
    return _of_model(spec.spelling, batch)


@cache
def _of_model(spelling: str, batch: int) -> float:
    spec = ModelSpec.of_spelling(spelling)
    with torch.random.fork_rng(devices=[]):
        model = build_model(spec).eval()
        # A user's own code may raise any error on tensors without values.
        return _without_numbers(lambda: _counted(model, **_inputs(spec, batch)), Exception)


def counted_flops(module: nn.Module, shape: Shape) -> float:
    """Return the FLOPs of ``module(x)`` for a float32 input of this shape on the CPU.

    Raises:
        UncountedOperationError: The module runs an operation without a formula.
    """
    return _without_numbers(lambda: _counted(module, torch.randn(*shape)))


def _without_numbers(count: Callable[[], float], *errors: type[Exception]) -> float:
    """Count on tensors without memory; if that raises one of the errors, count on real ones."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )

    refused: tuple[type[BaseException], ...] = (
        DataDependentOutputException,
        DynamicOutputShapeException,
        *errors,
    )
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return count()
    except UncountedOperationError:
        raise
    except refused:
        return count()


def _inputs(spec: ModelSpec, batch: int) -> dict[str, Tensor]:
    """Return a batch of inputs for the model, all zeros."""
    answers = architecture_class(spec.architecture).answers
    axes_of: Mapping[tuple[str, ...], tuple[int, ...]] = {("pair",): (2,), ("choice",): (1,)}
    texts = axes_of.get(answers, ())
    found = {}
    for name, each in spec.inputs.items():
        axes = (batch, *texts) if name == INPUTS else (batch,)
        if each.kind == "tokens":
            found[name] = torch.zeros(*axes, each.length, dtype=torch.long)
        else:
            found[name] = torch.zeros(*axes, *(each.grid or (each.length,)), each.size)
    return found


def _counted(call: Callable[..., object], *inputs: Tensor, **named: Tensor) -> float:
    """Count without gradients; recurrences of torch run over one token, see `_OneToken`."""
    counter: Any = FlopCounterMode(display=False, custom_mapping=dict(_FORMULAS))
    strict, by_token = _NothingUncounted(counter.flop_registry), _OneToken(counter)
    with torch.no_grad(), strict, counter, by_token:  # the counter decomposes what it can
        call(*inputs, **named)
    return float(counter.get_total_flops() + by_token.flops_of_other_tokens)


class _NothingUncounted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that raises for operations of unknown cost that the counter would ignore."""

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
    """Return True if an operation, as torch dispatches it, is known to do no counted work."""
    if not isinstance(operation, OpOverload):
        return False
    is_tagged = {torch.Tag.pointwise, torch.Tag.inplace_view} & set(operation.tags)
    if operation.namespace == "prim" or is_tagged:
        return True
    aliases = [returned.alias_info for returned in operation._schema.returns]
    if any(alias is not None and not alias.is_write for alias in aliases):
        return True  # a view
    if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(arguments)):
        return operation.namespace == "aten"  # created without an input tensor
    name = operation._schema.name.removeprefix("aten::")
    return name in _FREE or name.removesuffix("_") in _FREE


class _OneToken(TorchFunctionMode):
    """A mode that runs torch's recurrences over one token and adds the FLOPs of the others."""

    def __init__(self, counter: Any) -> None:
        super().__init__()
        self.counter = counter
        self.flops_of_other_tokens = 0.0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # For a packed sequence, batch sizes take the place of the final flag.
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
    """Count a product with each key and each value; shapes are `[batch, heads, time, width]`."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _onednn_recurrence(x: Shape, of_input: Shape, of_state: Shape, *_: Any, **__: Any) -> int:
    """Count all gates, from the input and the last output; x is `[time, batch, inputs]`."""
    return 2 * x[0] * x[1] * (math.prod(of_input) + math.prod(of_state))


def _transforms(x: Shape, dims: Sequence[int], *_: Any, **__: Any) -> float:
    """Count 5 n log2 n for each transform of n; real ones count in full."""
    return sum(5 * math.prod(x) * math.log2(x[dim]) for dim in dims)


def _vector_product(matrix: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(matrix)


def _triangular_solve(matrix: Shape, columns: Shape, *_: Any, **__: Any) -> int:
    """Count n^2 for each column: a product with half a matrix."""
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
