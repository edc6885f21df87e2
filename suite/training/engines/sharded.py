"""Run a training step on several workers with DeepSpeed, with the numbers of one process.

Every worker builds the same model from the same seed and takes its rows of the same global batch;
optimiser, clipping and schedule are those of one process. ZeRO (Rajbhandari et al. 2020,
arXiv:1910.02054) changes where numbers are stored, not their values: in float32 the losses of
stages 0 to 3 differ from those of one process by the order of sums, by 2e-7 of their value over 30
steps on two CPUs.

bf16 is autocast: products are computed in it, while parameters, optimiser states and losses stay
in float32; losses then differ by up to 1e-3 of their value over those 30 steps. DeepSpeed's own
bf16 mode converts parameters to bf16 as well, and models that add tables of their own, or transform
by FFT, fail in it.

DeepSpeed compiles nothing here: the optimiser is torch's, and its shared-memory kernels are off.
A checkpoint holds the state dictionaries of DeepSpeed's model, optimiser and schedule, written by
`sharded_checkpoint`; DeepSpeed's own `save_checkpoint` would pickle them.
"""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.events import Condition
from bakeoff.suite.schema import Parallel, Training
from bakeoff.suite.tasks.task import Batch, Metric, Split, Task
from bakeoff.suite.training.engines.engine import (
    in_evaluation_mode,
    in_parts,
    learned_loss,
    part_of,
    rows_of,
    score_batch,
    weight_of,
    weights_of,
    writes,
)
from bakeoff.suite.training.engines.sharded_checkpoint import read_tree, tensors_in, write_tree
from bakeoff.suite.training.recipes import BETAS, decayed_apart, schedule_of
from bakeoff.suite.training.sampling import share_at, with_own_answers
from bakeoff.suite.training.tensor_io import (
    Tensors,
    read_tensors,
    refuse_misfit,
    sha256_of,
    write_tensors,
)

VERSION = 1  # increases whenever a change of the code changes a number
_DIVIDED = 3  # the stage of ZeRO at which no worker holds all parameters
_FLAT = "fp32_flat_groups"  # the key of this worker's share of the parameters at stage 3
_SCALER = "loss_scaler"  # an object; it does not change, since no gradient is scaled here
_NOT_SAVED = (_SCALER, "param_slice_mappings")  # the latter is for another checkpoint format
_MODEL_FILE, _STATE_FILE = "model.safetensors", "optimizer-{}"
# The share of all parameters, the limits of a bucket, and the size up to which a parameter stays on
# every worker at stage 3; all in numbers.
_BUCKET_SHARE, _LARGEST_BUCKET, _SMALL_ENOUGH = 32, 500_000_000, 10_000


class NoDeepSpeed(RuntimeError):
    """Raised if DeepSpeed is not installed where a worker runs."""


class ShardedEngine:
    """An `Engine` of a model and this worker's part of its optimiser.

    Torch's process group must exist already.
    """

    how_steps_run = ""
    kernels: tuple[Condition, ...] = ()

    def __init__(
        self,
        model: nn.Module,
        training: Training,
        parallel: Parallel,
        device: str,
        *,
        seed: int = 0,
        teacher: nn.Module | None = None,
    ) -> None:
        """Build the engine on all workers at once, each with the whole model and teacher.

        Raises:
            NoDeepSpeed: if it is not installed.
        """
        self.rank, self.num_workers = dist.get_rank(), dist.get_world_size()
        self.device, self._accumulation, self._stage = device, parallel.accumulation, parallel.zero
        self._training, self._precision, self._seed = training, parallel.precision, seed
        self._teacher = teacher.to(device).eval() if teacher else None
        deepspeed = _deepspeed(device)
        model = model.to(device).train()
        self._copy = _without_parameters(model) if parallel.zero == _DIVIDED else None
        groups = [g for g in decayed_apart(model, training.weight_decay) if g["params"]]
        optimizer = torch.optim.AdamW(groups, lr=training.learning_rate, betas=BETAS)
        self.model, *_ = deepspeed.initialize(
            model=model,
            optimizer=optimizer,
            lr_scheduler=schedule_of(optimizer, training),
            config=_settings(training, parallel, sum(p.numel() for p in model.parameters())),
            dist_init_required=False,
        )
        if self.rank:  # with equal seeds, dropout would use the same mask on all workers
            torch.manual_seed(torch.initial_seed() + self.rank)

    def step(
        self, batch: Batch, task: Task, before_update: Callable[[], None] = lambda: None
    ) -> Tensor:
        """Make one update; `before_update` is called once all gradients are computed."""
        batch, losses = self._with_own_answers(batch), []
        loss_of = self._jointly(batch, task) if task.compares_examples else None
        for index, part in enumerate(self._parts(batch)):
            weight = weight_of(part, batch, self.num_workers * self._accumulation)
            loss = loss_of(index, part) if loss_of else self._loss(part, task, weight)
            self.model.backward(loss)
            losses.append(loss.detach())
            if index == self._accumulation - 1:
                del loss, part
                before_update()
            self.model.step()
        return torch.stack(losses).mean()

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """Yield the parts of this worker's share, each of which goes through the model at once."""
        share = part_of(batch, self.rank, self.num_workers)
        for index in range(self._accumulation):
            yield part_of(share, index, self._accumulation).to(self.device)

    def _loss(self, batch: Batch, task: Task, weight: float) -> Tensor:
        """Return the weighted loss of a part, in float32."""
        outputs = batch.through(self.model).map(Tensor.float)
        if not weight:  # the backward pass is needed, because other workers take part in it
            return outputs.logits.sum() * 0.0
        taught, module = self._taught(batch), self.model.module
        return learned_loss(outputs, taught, batch, task, module, self._training) * weight

    def _jointly(self, batch: Batch, task: Task) -> Callable[[int, Batch], Tensor]:
        """Return a function from a part's index and batch to its loss, which compares all rows.

        The value is the loss of the whole batch, on all workers; see `joint`.
        """
        from bakeoff.suite.training.engines.joint import (
            divided,
            first_pass,
            joined,
            loss_and_gradients,
            second_pass,
        )

        passes = [first_pass(part, self._answer) for part in self._parts(batch)]
        sizes = [len(each.outputs.logits) for each in passes]
        whole, module = batch.to(self.device), self.model.module
        loss, gradients = loss_and_gradients(
            joined([each.outputs for each in passes]).map(self._of_all_workers(batch)),
            lambda outputs: learned_loss(outputs, None, whole, task, module, self._training),
        )
        rows = rows_of(len(batch.targets), self.rank, self.num_workers)
        own = divided(gradients.map(lambda each: each[rows]), sizes)
        num_parts = self.num_workers * self._accumulation  # DeepSpeed takes the mean over these

        def loss_of(index: int, part: Batch) -> Tensor:
            found = second_pass(part, self._answer, passes[index].before, own[index]) * num_parts
            return found - found.detach() + loss

        return loss_of

    def _answer(self, batch: Batch) -> Outputs:
        """Return the model's outputs in training, in float32."""
        return batch.through(self.model).map(Tensor.float)

    def _of_all_workers(self, batch: Batch) -> Callable[[Tensor], Tensor]:
        """Return a function that gathers the rows of all workers."""
        num_rows = len(batch.targets)

        def of_all(own: Tensor) -> Tensor:
            found = own.new_zeros(num_rows, *own.shape[1:])
            found[rows_of(num_rows, self.rank, self.num_workers)] = own
            return self._sum(found)

        return of_all

    def _taught(self, batch: Batch) -> Outputs | None:
        """Return the teacher's outputs in float32, or None without a teacher."""
        if self._teacher is None:
            return None
        kind, is_bf16 = torch.device(self.device).type, self._precision == "bf16"
        with torch.no_grad(), torch.autocast(kind, torch.bfloat16, enabled=is_bf16):
            return batch.through(self._teacher).map(Tensor.float)

    def _with_own_answers(self, batch: Batch) -> Batch:
        """Replace inputs by the model's own answers, by one draw for the whole batch."""
        step: int = self.model.global_steps
        share = share_at(step, self._training)
        if not share:
            return batch
        with in_evaluation_mode(self.model), torch.no_grad():
            return with_own_answers(batch, self._answers, share, seed=self._seed, step=step)

    def _answers(self, batch: Batch) -> Tensor:
        """Return the most likely symbols, `[batch, time]`; 0 in the rows of other workers."""
        own = [part.through(self.model).logits.argmax(dim=-1) for part in self._parts(batch)]
        shares = [part_of(batch, rank, self.num_workers) for rank in range(self.num_workers)]
        found = [torch.zeros_like(share.targets) for share in shares]
        found[self.rank] = torch.cat(own).to(batch.targets.device)
        return torch.cat(found)

    def mean(self, losses: Sequence[Tensor]) -> float:
        """Return the mean loss over steps and workers."""
        mean = torch.stack([loss.to(self.device) for loss in losses]).mean().double()
        return self._sum(mean).item() / self.num_workers

    def evaluate(self, task: Task, split: Split, batch: int, metric: Metric | None = None) -> float:
        """Return a metric, by default the task's, over a whole split; each worker scores rows."""
        return self._scores(task, split, batch, [""], metric)[""]

    def evaluate_in_parts(self, task: Task, split: Split, batch: int) -> dict[str, float]:
        """Return the task's metric over the split and over its parts that have targets."""
        return self._scores(task, split, batch, ["", *task.parts()])

    def _scores(
        self,
        task: Task,
        split: Split,
        batch: int,
        places: Sequence[str],
        asked_for: Metric | None = None,
    ) -> dict[str, float]:
        """Return the metric at the coordinates that have targets; ``""`` is the whole split.

        A worker without a row still runs one, because at stage 3 all workers must take part.
        """
        metric = asked_for or task.metric
        totals = {at: torch.zeros((), dtype=torch.float64) for at in places}
        with in_evaluation_mode(self.model), torch.no_grad():
            model = self._whole() if writes(metric) else self.model
            for held_out in task.held_out(split, batch):
                share = part_of(held_out, self.rank, self.num_workers)
                has_rows = len(share.targets) > 0
                share = (share if has_rows else held_out.rows(slice(0, 1))).to(self.device)
                sums_of = score_batch(model, metric, share)
                for at, asked in in_parts(task, share) if len(places) > 1 else [("", share)]:
                    sums = sums_of(asked)
                    totals[at] = totals[at] + (sums if has_rows else torch.zeros_like(sums))
        nothing = torch.zeros_like(totals[""])  # the sums of a part without rows on this worker
        found = {at: self._sum((nothing + t).to(self.device)).cpu() for at, t in totals.items()}
        return {at: metric.value(sums) for at, sums in found.items() if not at or sums.any()}

    def _whole(self) -> nn.Module:
        """Return the model with all parameters on this worker, for decoding in float32.

        Workers generate sequences of different lengths, during which they cannot wait for each
        other's parameters, as they would at stage 3; there it is a copy.
        """
        module: nn.Module = self.model.module
        if self._copy is None:
            return module
        with self._gathered():
            tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers()]
            state = {name: tensor.detach().clone() for name, tensor in tensors}
        self._copy.load_state_dict(state, strict=False, assign=True)
        return self._copy.eval()

    def _gathered(self) -> AbstractContextManager[Any]:
        """Gather all parameters on every worker for the block."""
        if self._copy is None:
            return nullcontext()
        import deepspeed

        found: AbstractContextManager[Any] = deepspeed.zero.GatheredParameters(
            list(self.model.module.parameters())
        )
        return found

    def agreed(self, is_so: bool) -> bool:
        """Return the first worker's value."""
        said = torch.tensor(int(is_so), device=self.device)
        dist.broadcast(said, 0)
        return bool(said.item())

    def largest(self, value: float) -> float:
        """Return the largest value of any worker."""
        found = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return float(found.item())

    def finish(self) -> None:
        """Do nothing, since there is no average of weights."""

    def weights(self) -> Tensors:
        """Return copies of the weights on the CPU, since stage 3 divides them again."""
        with self._gathered():
            return {n: t.cpu().clone() for n, t in weights_of(self.model.module).items()}

    def save(self, folder: Path) -> None:
        """Write the model on the first worker, and the optimiser's state on each."""
        own = {
            "optimizer": self._optimizer_state(),
            "schedule": self.model.lr_scheduler.state_dict(),
            "global_steps": self.model.global_steps,
        }
        write_tree(folder / _STATE_FILE.format(self.rank), own)
        if self.rank == 0:
            write_tensors(folder / _MODEL_FILE, self._model_state())

    def load(self, folder: Path) -> None:
        """Read what `save` has written; see `Engine.load`."""
        why, model, own = "", {}, {}
        try:
            model = read_tensors(folder / _MODEL_FILE)
            own = read_tree(folder / _STATE_FILE.format(self.rank))
            self._refuse_misfit(model, own)
        except CheckpointError as error:
            why = str(error)
        if self.largest(bool(why)):
            raise CheckpointError(why or "another worker cannot read its part")
        self.model.module.load_state_dict(model, strict=False)  # a shared tensor is stored once
        self._load_optimizer(own["optimizer"])
        self.model.lr_scheduler.load_state_dict(own["schedule"])
        self.model.global_steps = own["global_steps"]

    def state_sha256(self) -> str:
        """Return a hash over the shares of all workers."""
        own = sha256_of(
            {
                "model": tensors_in(self.model.module_state_dict()),
                "optimizer": tensors_in(self._optimizer_state()),
            }
        )
        digests = torch.zeros(self.num_workers, len(own), dtype=torch.int32, device=self.device)
        digests[self.rank] = torch.tensor(list(own.encode()), device=self.device)
        return sha256_of({"workers": {"digests": self._sum(digests)}})

    def _model_state(self) -> Tensors:
        """Return the part that the optimiser's state lacks; at stage 3 it holds all parameters."""
        found = weights_of(self.model.module)
        if self._stage != _DIVIDED:
            return found
        parameters = dict(self.model.module.named_parameters(remove_duplicate=False))
        return {name: tensor for name, tensor in found.items() if name not in parameters}

    def _optimizer_state(self) -> dict[str, Any]:
        state = self.model.optimizer.state_dict()
        return {key: value for key, value in state.items() if key not in _NOT_SAVED}

    def _load_optimizer(self, state: dict[str, Any]) -> None:
        optimizer = self.model.optimizer
        if not self._stage:  # torch's own optimiser
            optimizer.load_state_dict(state)
            return
        if self._stage == _DIVIDED:  # small parameters, too, are loaded from this worker's share
            optimizer.checkpoint_event_prologue()
            state = {**state, _SCALER: optimizer.loss_scaler}
        of_all = [state] * self.num_workers  # a worker reads only its own
        optimizer.load_state_dict(state_dict_list=of_all, load_from_fp32_weights=True)
        if self._stage == _DIVIDED:
            optimizer.checkpoint_event_epilogue()

    def _refuse_misfit(self, model: Tensors, own: dict[str, Any]) -> None:
        """Reject the checkpoint of another model before workers begin to wait for each other."""
        refuse_misfit("tensor", model, self._model_state())
        here, found = self._optimizer_state(), own.get("optimizer", {})
        groups = ({str(n): t for n, t in enumerate(each.get(_FLAT, []))} for each in (found, here))
        refuse_misfit("group", *groups)

    def _sum(self, values: Tensor) -> Tensor:
        dist.all_reduce(values)
        return values


def _without_parameters(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters have shapes but no values, and take no memory."""
    parameters = model.parameters()
    empty = {id(p): nn.Parameter(p.detach().to("meta"), p.requires_grad) for p in parameters}
    return copy.deepcopy(model, empty)


def _settings(training: Training, parallel: Parallel, num_parameters: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration; its batch size matters only in proportion.

    Communication buckets for gradients are small relative to the model, since by default each
    worker reserves memory for half a billion numbers. At stage 3 single vectors stay on all
    workers.
    """
    bucket = min(_LARGEST_BUCKET, max(_SMALL_ENOUGH, num_parameters // _BUCKET_SHARE))
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": parallel.accumulation,
        "gradient_clipping": training.clip_norm or 0.0,
        "steps_per_print": 2**62,
        "torch_autocast": {"enabled": parallel.precision == "bf16", "dtype": "bfloat16"},
        "zero_optimization": {
            "stage": parallel.zero,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
            "stage3_prefetch_bucket_size": bucket,
            "stage3_param_persistence_threshold": _SMALL_ENOUGH,
        },
    }


def _deepspeed(device: str) -> Any:
    """Import DeepSpeed, without logs or compilation, on torch's process group."""
    os.environ["DS_ACCELERATOR"] = "cpu" if device == "cpu" else "cuda"  # read on import
    os.environ.setdefault("LOCAL_RANK", "0")  # several workers on a host: set by the launcher
    for kind in (FutureWarning, DeprecationWarning):  # it uses deprecated names of torch
        warnings.filterwarnings("ignore", "`torch.", kind)
    try:
        import deepspeed
        import deepspeed.ops
    except ImportError as error:
        raise NoDeepSpeed(
            f"a trial of several workers needs DeepSpeed, which is not installed here ({error})."
        ) from error
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(
        dist_backend=dist.get_backend(), auto_mpi_discovery=False, verbose=False
    )
    return deepspeed
