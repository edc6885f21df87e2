"""Record a whole training step as a CUDA graph, and replay it: one launch instead of hundreds.

A CUDA graph holds kernels and addresses. So the tensors that a step reads and writes keep their
addresses: a batch is copied into the recording's own tensors, the learning rate is a tensor,
parameters and the optimiser's state change in place. Decisions of Python are made once, while the
step is recorded (torch's term is captured); a model that draws random numbers in training is not
recorded.

Recording needs trial runs, which are undone afterwards, including random numbers. So every step of
a training is a replay, including the first one, and a resumed training ends in the same way as an
uninterrupted one. A recording is used only if two replays give the losses of two eager steps, the
second of which shows the changes of the first one.

A compiled step (`torch.compile`) is compiled by trial runs of its own, before it is recorded: while
a stream is captured, nothing can be compiled. Two of its replays, too, must give the losses of two
eager steps of the uncompiled model; for this it draws the random numbers that an eager step draws.
How steps are run is part of a checkpoint, and a resumed training runs them in the same way.

A step that no graph can hold is detected before it is captured: see `capturable`. If a capture
fails nevertheless, its process cannot be used any more: torch's generator of the GPU refuses to
draw, and its allocator keeps its memory. So the attempt ends with `CaptureFailed`, and the trial
begins again in another process, in which `record_nothing` was called.

Source: PyTorch's notes on CUDA graphs, "Whole-network capture".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.registry import architecture_class
from bakeoff.suite.errors import CaptureFailed
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.batch import sendable
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training.engines.capturable import why_not_captured

Step = Callable[[Batch, Task], Tensor]
Work = Callable[[], Tensor]
RECORDED, COMPILED = "each one CUDA graph", "compiled"
_OPTIMIZERS = ("adamw", "sgd")  # their updates wait for no number from the GPU
_WARM_UPS = 3  # see PyTorch's notes: libraries choose kernels and allocate memory
_MOST_SHAPES = 8  # different batch shapes; each recording keeps the memory of a step
_TOLERANCE = {"float32": 1e-4, "tf32": 1e-3, "bf16": 1e-2}  # relative error of a loss
_why_nothing = ""  # why nothing is recorded in this process, or ""


def record_nothing(why: str) -> None:
    """Run all steps of this process eagerly from now on; the empty string undoes that."""
    global _why_nothing
    _why_nothing = why


def why_nothing_recorded() -> str:
    """Return the reason given to `record_nothing`, or ""."""
    return _why_nothing


@contextmanager
def nothing_recorded(why: str) -> Iterator[None]:
    """Let engines that are made in the block run their steps eagerly, so that others record them.

    Their optimisers can be recorded.
    """
    before = _why_nothing
    record_nothing(why)
    try:
        yield
    finally:
        record_nothing(before)


def on_gpu(work: Work, pool: Any = None) -> Work:
    """Return a function that repeats the work; its result is in the same memory.

    Args:
        work: The work.
        pool: Memory that other graphs use too, from `torch.cuda.graph_pool_handle`, or None if the
            graph gets its own. A graph must not need what it left in shared memory once another
            one was replayed.

    Raises:
        CaptureFailed: if the work waits for the GPU, a shape depends on data, or memory is short;
            the process cannot be used any more.
    """
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, pool=pool):
            result = work()
    except Exception as error:  # also raised if torch cannot end the capture
        first = error.__context__ if isinstance(error.__context__, Exception) else error
        raise CaptureFailed(str(first).partition("\n")[0]) from error

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


def why_eager(model: nn.Module, training: Training) -> str:
    """Return why steps of this model cannot be recorded, if that is known; else "".

    A user's own module, without a spec, makes no declarations that could be relied on.
    """
    spec = getattr(model, "spec", None)
    if not isinstance(spec, ModelSpec):
        return "the module does not say whether it draws random numbers during training"
    if spec.runtime != "eager":
        return f"the model is run by runtime={spec.runtime!r}"
    for part in model.modules():
        if getattr(part, "is_stochastic", False):
            return f"{type(part).__name__} draws random numbers during training"
        if getattr(part, "is_reversible", False):
            return "a reversible stack computes its inputs again"
    if architecture_class(spec.architecture).learns_by_score(spec):
        return f"{spec.architecture} draws random numbers during training"
    if training.optimizer not in _OPTIMIZERS:
        return f"{training.optimizer} waits for numbers from the GPU"
    if training.adversarial_steps:
        return "adversarial steps end after two thirds of the training"
    if training.accumulation > 1:
        return "the parts of a batch weigh as many targets as they have"
    return ""


class RecordedSteps:
    """Training steps of one model; each shape of a batch is recorded when it first occurs.

    If a compiled model is given, its steps are tried first. A shape for which they cannot be
    compiled or captured, or do not give the losses of two eager steps, is recorded uncompiled.
    """

    def __init__(
        self,
        step: Step,
        models: Sequence[nn.Module],
        optimizer: torch.optim.Optimizer,
        training: Training,
        *,
        device: str,
        compiled: Step | None = None,
        is_recorded: bool = True,
    ) -> None:
        """Prepare to record at the first step, since a checkpoint may be loaded until then.

        Args:
            step: Function for forward, backward and update, eagerly. It must use the learning rate
                as a tensor.
            models: The model that it changes, then a teacher if there is one.
            optimizer: The optimiser, whose state begins as zeros.
            training: The settings of the step.
            device: The device of the models.
            compiled: The same function with a compiled model, or None.
            is_recorded: Whether steps become CUDA graphs. Else they only run compiled, as on a CPU.
        """
        reasons = (why_eager(model, training) for model in models if is_recorded)
        self._why_eager = _why_nothing or next(filter(None, reasons), "")
        self._step, self._models, self._optimizer = step, models, optimizer
        self._compiled, self._is_recorded = compiled, is_recorded
        self._device = device
        self._tolerance = _TOLERANCE[training.precision]
        self._recordings: dict[object, Callable[[Batch], Tensor]] = {}
        self._why_not_compiled: dict[str, str] = {}  # shapes -> a reason, or "" if it is compiled

    @property
    def is_compiled(self) -> bool:
        """True if compiled steps are tried."""
        return self._compiled is not None

    @property
    def how(self) -> str:
        """How steps are run, and why."""
        if self._why_eager:
            return f"eagerly: {self._why_eager}"
        num_shapes = len(self._why_not_compiled)
        reasons = [why for why in self._why_not_compiled.values() if why]
        is_any = self.is_compiled and (not reasons or len(reasons) < num_shapes)
        parts = [COMPILED] if is_any else []
        parts += [RECORDED] if self._is_recorded else []
        if reasons:
            some = f"{len(reasons)} of {num_shapes} shapes " if is_any else ""
            parts.append(f"{some}not compiled: {reasons[0]}")
        return "; ".join(parts if is_any or self._is_recorded else ["eagerly", *parts])

    @property
    def choices(self) -> dict[str, Any]:
        """How steps are run, as JSON for a checkpoint; see `follow`."""
        return {
            "is_compiled": self.is_compiled,
            "why_eager": self._why_eager,
            "why_not_compiled": dict(self._why_not_compiled),
        }

    def why_not_follow(self, choices: Mapping[str, Any]) -> str:
        """Return why steps cannot be run as in the training of a checkpoint; empty if they can."""
        if choices and self._why_eager and not choices["why_eager"]:
            return f"its steps did not run eagerly, as they do here: {self._why_eager}"
        return ""

    def follow(self, choices: Mapping[str, Any]) -> None:
        """Run steps as in the training of a checkpoint; checked again now, they might differ."""
        if choices:
            self._why_eager = self._why_eager or choices["why_eager"]
            self._why_not_compiled = dict(choices["why_not_compiled"])

    def __call__(self, batch: Batch, task: Task) -> Tensor:
        """Make one update from the whole batch.

        Raises:
            CaptureFailed: see `on_gpu`.
        """
        key = (task, *_shapes(batch))
        if not self._why_eager and key not in self._recordings:
            self._add(key, batch, task)
        if self._why_eager:
            return self._step(batch, task)
        return self._recordings[key](batch)

    def _add(self, key: object, batch: Batch, task: Task) -> None:
        if len(self._recordings) == _MOST_SHAPES:
            self._give_up(f"batches have more than {_MOST_SHAPES} shapes")
            return
        own = batch.to(self._device).map(Tensor.clone)
        before = _Snapshot(self._models, self._optimizer)
        kind = torch.device(self._device).type
        if self._is_recorded:
            why = why_not_captured(lambda: self._step(own, task), kind)
            before.restore()
            if why:
                self._give_up(why)
                return
        eager = _two_losses(lambda: self._step(own, task))  # fails if eager steps fail
        before.restore()

        def added(step: Step, wanted: Tensor | None) -> str:
            """Add the recording of the step; return why it cannot be used, or ""."""
            is_compiled = step is self._compiled
            try:
                if is_compiled:
                    _settle(lambda: step(own, task), kind)
                    before.restore()
                recording = self._recording(lambda: step(own, task), own, step, task)
                before.restore()
                found = _two_losses(lambda: recording(batch))
            except Exception as error:  # a compiler, or not enough memory for a warm-up
                before.restore()
                why = str(error).partition("\n")[0]
                return f"{type(error).__name__}: {why}" if is_compiled else why
            before.restore()
            if wanted is not None and not torch.allclose(
                found, wanted, rtol=self._tolerance, atol=0.0
            ):
                what = "compiled steps" if is_compiled else "replays"
                return f"{what} gave losses of {found.tolist()}, not {wanted.tolist()}"
            self._recordings[key] = recording
            return ""

        if self._compiled is not None and not self._add_compiled(batch, added, eager):
            return
        if not self._is_recorded:
            self._recordings[key] = lambda batch: self._step(batch, task)
        elif why := added(self._step, eager):
            self._give_up(why)

    def _add_compiled(
        self, batch: Batch, added: Callable[[Step, Tensor | None], str], eager: Tensor
    ) -> str:
        """Add compiled steps unless a checkpoint says that they did not agree; return why not.

        Raises:
            CaptureFailed: if a checkpoint says that they were used, and they cannot be made now.
        """
        assert self._compiled is not None
        shape = str((*_shapes(batch),))
        is_decided = shape in self._why_not_compiled
        why = self._why_not_compiled.get(shape, "")
        if not why:
            # A decision that was made with other weights stays, so that all steps are run alike.
            why = added(self._compiled, None if is_decided else eager)
            if why and is_decided:
                raise CaptureFailed(f"steps were compiled until its checkpoint; now: {why}")
        self._why_not_compiled[shape] = why
        return why

    def _recording(
        self, work: Work, own: Batch, step: Step, task: Task
    ) -> Callable[[Batch], Tensor]:
        if self._is_recorded:
            return _Recording(own, on_gpu(work))
        return lambda batch: step(batch, task)

    def _give_up(self, why: str) -> None:
        self._why_eager = why
        self._recordings.clear()


def _settle(work: Work, kind: str) -> None:
    """Compile the work by calling it.

    Raises:
        Exception: if it cannot be compiled, or if a further call would be compiled anew or waits
            for the GPU, which ends a capture.
    """
    for _ in range(_WARM_UPS):
        work()
    with torch.compiler.set_stance("fail_on_recompile"), _refusing_to_wait(kind):
        work()


@contextmanager
def _refusing_to_wait(kind: str) -> Iterator[None]:
    """Let torch raise an error in the block if an operation waits for the GPU."""
    if kind != "cuda":
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _two_losses(step: Work) -> Tensor:
    return torch.stack([step().detach().clone() for _ in range(2)])


@dataclass(frozen=True)
class _Recording:
    own: Batch
    replay: Work

    def __call__(self, batch: Batch) -> Tensor:
        """Replay the step; return a copy of the loss, whose memory the next replay reuses."""
        for inside, given in zip(_tensors(self.own), _tensors(batch), strict=True):
            inside.copy_(sendable(given, inside.device.type), non_blocking=True)
        return self.replay().clone()


class _Snapshot:
    """A copy of everything that a step changes: parameters, buffers, optimiser, random numbers."""

    def __init__(self, models: Sequence[nn.Module], optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        of_models = (chain(model.parameters(), model.buffers()) for model in models)
        kept = chain(*of_models, _states(optimizer))
        self._kept = {id(tensor): (tensor, tensor.detach().clone()) for tensor in kept}
        self._random_cpu = torch.get_rng_state()
        self._random_gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    @torch.no_grad()
    def restore(self) -> None:
        """Restore in place; newer state of the optimiser becomes zero, its initial value."""
        for tensor, value in self._kept.values():
            tensor.copy_(value)
        for tensor in _states(self._optimizer):
            if id(tensor) not in self._kept:
                tensor.zero_()
        torch.set_rng_state(self._random_cpu)
        if self._random_gpu is not None:
            torch.cuda.set_rng_state(self._random_gpu)


def _states(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    for state in optimizer.state.values():
        yield from (each for each in state.values() if isinstance(each, Tensor))


def _tensors(batch: Batch) -> Iterator[Tensor]:
    yield from batch.inputs.values()
    yield batch.targets


def _shapes(batch: Batch) -> Iterator[object]:
    yield tuple(batch.inputs)
    yield from ((tensor.shape, tensor.dtype) for tensor in _tensors(batch))
