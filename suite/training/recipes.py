"""Build the parts of a recipe: optimiser, schedule, average of the weights, precision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models.initialisation import declared
from bakeoff.models.interface import Outputs
from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.schema import Training

BETAS = (0.9, 0.98)  # Vaswani et al. 2017, section 5.3
COOLDOWN_SHARE = 5  # the last fifth; Hägele et al. 2024, arXiv:2405.18392, section 3
_STATISTICS = ("running_mean", "running_var")  # buffers of batch norms, by torch's names
# The state that each optimiser keeps of a parameter; the names are those of the checkpoint's files.
STATE_OF: Mapping[str, tuple[str, ...]] = {
    "adamw": ("exp_avg", "exp_avg_sq", "step"),
    "sgd": ("momentum_buffer",),
    "adafactor": ("col_var", "row_var", "step", "variance"),
}


def optimizer_of(
    model: nn.Module, training: Training, *, is_recorded: bool = False
) -> torch.optim.Optimizer:
    """Return the optimiser over all parameters that are trained; see `bakeoff.suite.spec.Recipe`.

    If steps are recorded, one kernel updates all parameters, and reads the learning rate from a
    tensor: a number would be recorded with the step.
    """
    groups: Any = decayed_apart(model, training.weight_decay)
    rate: Any = training.learning_rate
    if training.optimizer == "adafactor":
        return torch.optim.Adafactor(groups, lr=rate)
    fused: Any = {}
    if is_recorded:
        device = next(model.parameters()).device
        rate, fused = torch.tensor(rate, device=device), {"fused": True}
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=training.momentum, **fused)
    on_gpu = is_recorded and rate.is_cuda
    return torch.optim.AdamW(groups, lr=rate, betas=BETAS, capturable=on_gpu, **fused)


def decayed_apart(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Return parameter groups with and without weight decay.

    Matrices decay. Biases, gains and other vectors do not, nor do the parameters that a module
    lists in `no_weight_decay` by their names, which are dotted for a child's parameters.

    Raises:
        ModelError: if a module lists a name that it does not have.
    """
    spared = {id(parameter) for parameter in declared(model, "no_weight_decay")}
    parameters = [p for p in model.parameters() if p.requires_grad]
    decays = {id(p): p.dim() >= 2 and id(p) not in spared for p in parameters}
    return [
        {"params": [p for p in parameters if decays[id(p)]], "weight_decay": weight_decay},
        {"params": [p for p in parameters if not decays[id(p)]], "weight_decay": 0.0},
    ]


def why_other_state(optimizer: str, state: Mapping[str, Tensor], parameter: Tensor) -> str:
    """Return why the state does not fit the parameter; empty if it fits."""
    wanted = {key: _shape(key, tuple(parameter.shape)) for key in STATE_OF[optimizer]}
    found = {key: tuple(tensor.shape) for key, tensor in state.items()}
    if found == {key: shape for key, shape in wanted.items() if shape is not None}:
        return ""
    return ", ".join(f"{key} has shape {shape}" for key, shape in found.items())


def _shape(key: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of the state under that key for a parameter of that shape, or None.

    Adafactor keeps means over rows and columns of a matrix, and squares of anything smaller.
    """
    is_matrix = len(shape) > 1
    if key == "row_var":
        return (*shape[:-1], 1) if is_matrix else None
    if key == "col_var":
        return (*shape[:-2], 1, shape[-1]) if is_matrix else None
    if key == "variance":
        return None if is_matrix else shape
    return () if key == "step" else shape


def schedule_of(
    optimizer: torch.optim.Optimizer, training: Training
) -> torch.optim.lr_scheduler.LambdaLR:
    """Return the schedule of the learning rate; see `learning_rate_factor`."""
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, training)
    )
    schedule.base_lrs = [training.learning_rate] * len(optimizer.param_groups)  # not tensors
    return schedule


def learning_rate_factor(step: int, training: Training) -> float:
    """Return the factor of the peak learning rate in the step of that index, from 0.

    The warm-up is linear over `warmup_steps` and is followed by the schedule. All schedules but the
    inverse square root would reach zero one step after the last.
    """
    warm_up, rest = training.warmup_steps, max(1, training.steps - training.warmup_steps)
    left = max(0, training.steps - step)
    if training.schedule == "constant_with_cooldown":
        cooldown = max(1, training.steps // COOLDOWN_SHARE)
        return min(1.0, left / cooldown, (step + 1) / max(1, warm_up))
    if step < warm_up:
        return (step + 1) / warm_up
    if training.schedule == "inverse_square_root":
        return math.sqrt(max(1, warm_up) / (step + 1))
    done = min(1.0, (step - warm_up) / rest)
    return 1 - done if training.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))


class WeightAverage:
    """An exponential moving average of a model's parameters (Polyak and Juditsky 1992).

    After step t, from 1, `average <- d average + (1 - d) parameter`, where d is the smaller of
    `decay` and (1 + t) / (10 + t), as in TensorFlow's `ExponentialMovingAverage`.

    The running means and variances of batch norms are averaged too, as in timm's `ModelEma`, since
    those of the last step belong to other weights than the average. All other buffers are left as
    in training, because the average of two random projections, for example, would not be a
    projection.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Begin with the current values of the model."""
        self._decay = decay
        self._averaged: dict[str, Tensor] = {
            **{n: p for n, p in model.named_parameters() if p.requires_grad},
            **{n: b for n, b in model.named_buffers() if n.rpartition(".")[2] in _STATISTICS},
        }
        self.averages = {name: each.detach().clone() for name, each in self._averaged.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the averages with the model's values after that step."""
        share = 1 - min(self._decay, (1 + step) / (10 + step))
        averages = [*self.averages.values()]
        values = [self._averaged[name] for name in self.averages]
        if averages and averages[0].is_cuda:  # a few launches instead of one for each tensor
            torch._foreach_lerp_(averages, values, share)
            return
        for average, value in zip(averages, values, strict=True):
            average.lerp_(value, share)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the model's values with the averages; a second call undoes the first."""
        for name, average in self.averages.items():
            own = self._averaged[name]
            kept = own.detach().clone()
            own.copy_(average)
            average.copy_(kept)

    def load(self, averages: Mapping[str, Tensor]) -> None:
        """Continue from the given averages.

        Raises:
            CheckpointError: if they belong to other parameters; nothing was changed.
        """
        shapes = {name: average.shape for name, average in self.averages.items()}
        if {name: average.shape for name, average in averages.items()} != shapes:
            raise CheckpointError("the averages of the weights are of other parameters")
        for name, average in self.averages.items():
            average.copy_(averages[name])


@contextmanager
def float32_products(precision: str) -> Iterator[None]:
    """Use exact float32 products on a GPU in the block, or at ``tf32`` 10 bits of mantissa.

    By default torch computes convolutions and recurrent layers in TF32 without a warning.
    """
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = precision == "tf32"
        yield
    finally:
        for backend, setting in zip(backends, before, strict=True):
            backend.allow_tf32 = setting


def autocast_of(precision: str, device: str) -> AbstractContextManager[object]:
    """Return the context of a forward pass: torch's autocast at ``bf16``, else a null context.

    Args:
        precision: The precision of a recipe.
        device: The device, named as in torch.
    """
    if precision != "bf16":
        return nullcontext()
    return torch.autocast(torch.device(device).type, torch.bfloat16)


def at_precision(model: nn.Module, precision: str, device: str) -> nn.Module:
    """Return the model as a module that runs at that precision and returns float32.

    The arguments are those of `autocast_of`.
    """
    return _UnderAutocast(model, device) if precision == "bf16" else model


class _UnderAutocast(nn.Module):
    def __init__(self, model: nn.Module, device: str) -> None:
        super().__init__()
        self.model, self.training = model, model.training
        self._device = device

    def forward(self, *unnamed: Tensor, **named: Tensor) -> Tensor | Outputs:
        with autocast_of("bf16", self._device):
            found: Tensor | Outputs = self.model(*unnamed, **named)
        return found.map(Tensor.float) if isinstance(found, Outputs) else found.float()
