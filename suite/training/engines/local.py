"""Run a training step on one device, by a recipe.

Forward and backward run as the model declares: see `runtimes`. Eagerly, torch launches one kernel
for each operation as Python reaches it. The trainings of a sweep record a whole step on a GPU and
replay it at once, with the model compiled if the training is long: see `recording`. The results
stay the same, up to rounding. A split is always scored eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.models.model_spec import ModelSpec, Runtime
from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.events import Condition
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.task import Batch, Split, Task
from bakeoff.suite.training.engines.engine import (
    evaluate,
    in_evaluation_mode,
    learned_loss,
    part_of,
    shares_of,
    weights_of,
)
from bakeoff.suite.training.recipes import (
    STATE_OF,
    WeightAverage,
    at_precision,
    optimizer_of,
    schedule_of,
    why_other_state,
)
from bakeoff.suite.training.sampling import share_at, with_own_answers
from bakeoff.suite.training.tensor_io import (
    Tensors,
    read_json,
    read_tensors,
    refuse_misfit,
    sha256_of,
    write_json,
    write_tensors,
)


def _declared_runtime(model: nn.Module) -> Runtime:
    """Return the runtime of a timing's model; a user's module without a spec runs eagerly."""
    spec = getattr(model, "spec", None)
    return spec.runtime if isinstance(spec, ModelSpec) else "eager"


def _run_as_declared(model: nn.Module, device: str, precision: str) -> nn.Module:
    runtime = _declared_runtime(model)
    if runtime == "eager":
        return at_precision(model, precision, device)
    from bakeoff.suite.training.engines.runtimes import prepared

    return prepared(model, runtime, device, precision)


# Files of a checkpoint: the model, the averages of its weights, the rates; and `STATE_OF`.
_MODEL, _AVERAGES, _RATES = "model", "average", "rates.json"
_CHOICES = "steps"  # the key in `_RATES` of how steps are run, unless they run eagerly on a CPU


class LocalEngine:
    """An `Engine` of one model on one device, with its optimiser.

    Attributes:
        model: The module that steps run: the model at its precision, with the runtime of its spec.
    """

    rank, num_workers = 0, 1

    def __init__(
        self,
        model: nn.Module,
        training: Training,
        device: str,
        *,
        seed: int = 0,
        teacher: nn.Module | None = None,
        is_recorded: bool = False,
        is_compiled: bool = False,
    ) -> None:
        """Move the models to the device.

        Args:
            model: The model to train.
            training: The training settings.
            device: The device, named as in torch.
            seed: The seed of the training, for random numbers that the recipe draws in a step.
            teacher: A trained model with the same inputs, or None; it is run eagerly.
            is_recorded: Whether whole steps are recorded on a GPU, if possible, and replayed.
            is_compiled: Whether steps run the model compiled, if it then computes the same.

        Raises:
            bakeoff.suite.training.engines.runtimes.NoRuntime: if this machine cannot run it as
            declared.
        """
        self.device, self._training, self._seed = device, training, seed
        self._teacher = teacher.to(device).eval() if teacher else None
        self._eager = model.to(device).train()
        self.model = _run_as_declared(self._eager, device, training.precision)
        self.optimizer = optimizer_of(model, training, is_recorded=is_recorded)
        self.schedule = schedule_of(self.optimizer, training)
        self._average = WeightAverage(model, training.ema) if training.ema else None
        self._is_to_ask = is_recorded and _declared_runtime(model) == "eager"
        self.kernels: tuple[Condition, ...] = ()
        self._recorded: Any = None
        if is_recorded or is_compiled:
            self._recorded = self._recording(is_recorded=is_recorded, is_compiled=is_compiled)

    def _recording(self, *, is_recorded: bool, is_compiled: bool) -> Any:
        from bakeoff.suite.training.engines.recording import RecordedSteps

        return RecordedSteps(
            self._asked_update,
            [each for each in (self._eager, self._teacher) if each is not None],
            self.optimizer,
            self._training,
            device=self.device,
            compiled=self._compiled_update() if is_compiled else None,
            is_recorded=is_recorded,
        )

    def _compiled_update(self) -> Callable[[Batch, Task], Tensor]:
        """Return `_update` with the model compiled."""
        from bakeoff.suite.training.engines.runtimes import compiled_for_steps

        compiled = compiled_for_steps(self._eager, self.device)
        compiled = at_precision(compiled, self._training.precision, self.device)

        def update(batch: Batch, task: Task) -> Tensor:
            eager, self.model = self.model, compiled
            try:
                return self._update(batch, task)
            finally:
                self.model = eager

        return update

    @property
    def how_steps_run(self) -> str:
        """How steps are run, as defined by `Engine`."""
        if self._recorded is None:
            is_asked = self._training.runtime == "eager" and self.device != "cpu"
            return "eagerly: runtime='eager'" if is_asked else ""
        how: str = self._recorded.how
        return how

    def step(self, batch: Batch, task: Task) -> Tensor:
        """Run forward, backward and update; return the loss, a scalar left on the device."""
        if self._training.scheduled_sampling:
            batch = self._with_own_answers(batch.to(self.device))
        loss: Tensor = (self._recorded or self._update)(batch, task)
        self.schedule.step()
        if self._average:
            self._average.update(self.schedule.last_epoch)
        return loss

    def _asked_update(self, batch: Batch, task: Task) -> Tensor:
        """Make an update eagerly; record which kernels are used, once."""
        if not self._is_to_ask:
            return self._update(batch, task)
        from bakeoff.suite.training.engines.kernels_used import kernels_used

        with kernels_used() as found:
            loss = self._update(batch, task)
        self.kernels, self._is_to_ask = tuple(found), False
        return loss

    def _update(self, batch: Batch, task: Task) -> Tensor:
        """Make an update that can be recorded: it uses the batch and tensors that stay in place."""
        if task.compares_examples and self._training.accumulation > 1:
            loss = self._go_backward_jointly(batch, task)
        else:
            loss = self._go_backward(batch, task)
        if self._training.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self._training.clip_norm)
        self.optimizer.step()
        return loss

    def _go_backward(self, batch: Batch, task: Task) -> Tensor:
        """Compute gradients part by part; return the loss of the whole batch."""
        losses: list[Tensor] = []
        for part, share in shares_of(batch, self._training.accumulation):
            for place, loss in enumerate(self._losses(part.to(self.device), task)):
                loss = loss if share == 1.0 else loss * share
                if not losses:  # so late, because peak memory is measured
                    self.optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                losses += [] if place else [loss.detach()]
        return torch.stack(losses).sum() if len(losses) > 1 else losses[0]

    def _go_backward_jointly(self, batch: Batch, task: Task) -> Tensor:
        """Compute gradients of a loss that compares the examples of all parts; see `joint`."""
        from bakeoff.suite.training.engines.joint import (
            divided,
            first_pass,
            joined,
            loss_and_gradients,
            second_pass,
        )

        whole, num_parts = batch.to(self.device), self._training.accumulation
        every = (part_of(whole, index, num_parts) for index in range(num_parts))
        parts = [part for part in every if len(part.targets)]
        passes = [first_pass(part, self._answer) for part in parts]
        loss, gradients = loss_and_gradients(
            joined([each.outputs for each in passes]),
            lambda outputs: learned_loss(outputs, None, whole, task, self._eager, self._training),
        )
        self.optimizer.zero_grad(set_to_none=True)
        sizes = [len(part.targets) for part in parts]
        of_parts = zip(parts, passes, divided(gradients, sizes), strict=True)
        for part, each, own in of_parts:
            second_pass(part, self._answer, each.before, own).backward()  # type: ignore[no-untyped-call]
        return loss

    def _answer(self, batch: Batch) -> Outputs:
        """Return the model's outputs in training."""
        return batch.through(self.model)

    def _losses(self, batch: Batch, task: Task) -> Iterator[Tensor]:
        """Yield the losses to differentiate in turn: one, except for steps of HAT."""
        if not self._training.adversarial_steps:
            yield self._loss(batch, task)[0]
            return
        from bakeoff.suite.training.adversarial import adversarial_losses, passes_at

        passes = passes_at(self.schedule.last_epoch, self._training)
        yield from adversarial_losses(lambda moved: self._loss(moved, task), batch, task, passes)

    def _loss(self, batch: Batch, task: Task) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a part of the batch, and the model's logits; both in float32."""
        outputs, taught = batch.through(self.model), None
        if self._teacher is not None:
            with torch.no_grad():
                taught = self._outputs(self._teacher, batch)
        loss = learned_loss(outputs, taught, batch, task, self._eager, self._training)
        return loss, outputs.logits

    def _outputs(self, model: nn.Module, batch: Batch) -> Outputs:
        """Return the outputs of a model that is run eagerly, in float32."""
        return batch.through(at_precision(model, self._training.precision, self.device))

    def _with_own_answers(self, batch: Batch) -> Batch:
        """Replace inputs by the model's own answers, see `bakeoff.suite.training.sampling`."""
        step = self.schedule.last_epoch
        share = share_at(step, self._training)
        if not share:
            return batch
        with in_evaluation_mode(self._eager), torch.no_grad():
            return with_own_answers(batch, self._answers, share, seed=self._seed, step=step)

    def _answers(self, batch: Batch) -> Tensor:
        """Return the most likely symbols, `[batch, time]`, computed in parts as in training."""
        num_parts = self._training.accumulation
        parts = (part_of(batch, index, num_parts) for index in range(num_parts))
        outputs = [self._outputs(self._eager, part) for part in parts if len(part.targets)]
        return torch.cat([each.logits.argmax(dim=-1) for each in outputs])

    def mean(self, losses: Sequence[Tensor]) -> float:
        """Return the mean loss over steps; this synchronises with the device."""
        return torch.stack(list(losses)).mean().item()

    def evaluate(self, task: Task, split: Split, batch: int) -> float:
        """Return the task's metric over a whole split, with the model run eagerly.

        The last batch of a split may be smaller, and would be compiled separately. The model is
        scored in float32, with the average of the weights if there is one.
        """
        with self._averaged():
            return evaluate(self._eager, task, split, batch, self.device)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Give the model the averages of its weights for the block."""
        if self._average is None:
            yield
            return
        self._average.swap()
        try:
            yield
        finally:
            self._average.swap()

    def finish(self) -> None:
        """Give the model the averages of its weights, if it is scored with them."""
        if self._average:
            self._average.swap()
            self._average = None

    def agreed(self, is_so: bool) -> bool:
        """Return the value itself, since there is only one worker."""
        return is_so

    def largest(self, value: float) -> float:
        """Return the value itself, since there is only one worker."""
        return value

    def weights(self) -> Tensors:
        """Return the model's weights; see `weights_of`."""
        return weights_of(self._eager)

    def save(self, folder: Path) -> None:
        """Write the state of model, optimiser and schedule; see `Engine.save`."""
        for name, tensors in self._state().items():
            write_tensors(folder / f"{name}.safetensors", tensors)
        write_json(folder / _RATES, self._rates())

    def load(self, folder: Path) -> None:
        """Read what `save` has written; see `Engine.load`."""
        model = read_tensors(folder / f"{_MODEL}.safetensors")
        refuse_misfit("tensor", model, self.weights())
        states = self._read_states(folder)
        averages = read_tensors(folder / f"{_AVERAGES}.safetensors") if self._average else {}
        rates = read_json(folder / _RATES)
        if len(rates["rates"]) != len(self.optimizer.param_groups):
            raise CheckpointError("the optimiser has other groups of parameters")
        self._refuse_other_steps(rates.get(_CHOICES, {}))
        if self._average:
            self._average.load(averages)
        self._eager.load_state_dict(model, strict=False)  # a shared tensor is stored once
        optimizer = self.optimizer.state_dict()
        optimizer["state"] = states
        self.optimizer.load_state_dict(optimizer)
        for group, rate in zip(self.optimizer.param_groups, rates["rates"], strict=True):
            is_tensor = isinstance(group["lr"], Tensor)
            group["lr"] = torch.full_like(group["lr"], rate) if is_tensor else rate
        lambdas = [None] * len(self.optimizer.param_groups)  # the schedule has these functions
        self.schedule.load_state_dict(rates["schedule"] | {"lr_lambdas": lambdas})
        if self._recorded is not None:
            self._recorded.follow(rates.get(_CHOICES, {}))

    def _refuse_other_steps(self, choices: Mapping[str, Any]) -> None:
        """Raise CheckpointError if the steps of a checkpoint were run in another way than here."""
        is_compiled = self._recorded is not None and self._recorded.is_compiled
        if is_compiled and not choices.get("is_compiled"):
            raise CheckpointError("its steps were not compiled, as they are here")
        if choices.get("is_compiled") and not is_compiled:
            raise CheckpointError("its steps were compiled, and are not compiled here")
        if self._recorded is not None and (why := self._recorded.why_not_follow(choices)):
            raise CheckpointError(why)

    def state_sha256(self) -> str:
        """Return a hash of model and optimiser."""
        return sha256_of(self._state())

    def _state(self) -> dict[str, Tensors]:
        """Return all tensors that training changes, by the file in which they are stored."""
        of_each = self.optimizer.state_dict()["state"]
        averages = {_AVERAGES: self._average.averages} if self._average else {}
        return {_MODEL: self.weights(), **averages} | {
            key: {str(index): state[key] for index, state in of_each.items() if key in state}
            for key in STATE_OF[self._training.optimizer]
        }

    def _read_states(self, folder: Path) -> dict[int, dict[str, Tensor]]:
        """Return the optimiser's state of each parameter.

        Raises:
            CheckpointError: if it belongs to other parameters.
        """
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        states: dict[int, dict[str, Tensor]] = {}
        for key in STATE_OF[self._training.optimizer]:
            for index, tensor in read_tensors(folder / f"{key}.safetensors").items():
                states.setdefault(int(index), {})[key] = tensor
        for place, state in states.items():
            if place >= len(parameters):
                raise CheckpointError("the optimiser's state is of more parameters than there are")
            if why := why_other_state(self._training.optimizer, state, parameters[place]):
                raise CheckpointError(f"the state of parameter {place} does not fit: {why}")
        return states

    def _rates(self) -> dict[str, object]:
        """Return the learning rate of each group, and the state of the schedule."""
        schedule = {k: v for k, v in self.schedule.state_dict().items() if k != "lr_lambdas"}
        rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        found: dict[str, object] = {"rates": rates, "schedule": schedule | {"_last_lr": rates}}
        return found | ({_CHOICES: self._recorded.choices} if self._recorded is not None else {})
