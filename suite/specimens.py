"""What does a trained model leave to look at? Attention maps, position matrices, a text.

For people, of one seed, once the last number is known. None of it moves a number: the model is in
evaluation mode, and torch's random state is put back. What fails is left out, since a picture must
not cost a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from models import Skeleton
from suite.attention_maps import attention_maps
from suite.continuation import continuation
from suite.position_matrices import position_matrices
from suite.schema import Specimen
from suite.tasks.task import Task
from suite.training.engines.evaluation import in_evaluation_mode

FIRST_SEED = 0
_Look = Callable[[Skeleton, Task], list[Specimen]]
LOOKS: tuple[_Look, ...] = (attention_maps, position_matrices, continuation)


def specimens_of(model: Skeleton, task: Task, seed: int) -> tuple[Specimen, ...]:
    """What the model does with the first held-out example; nothing for other seeds than the first.

    Args:
        model: Trained; it stays where it is and as it was.
        task: What it was trained on. Validation data are shown, never test data.
        seed: Of the trial.
    """
    found: list[Specimen] = []
    if seed == FIRST_SEED:
        with _undisturbed(model):
            for look in LOOKS:
                with suppress(Exception, SystemExit):  # a mixer may do anything
                    found.extend(look(model, task))
    return tuple(found)


@contextmanager
def _undisturbed(model: Skeleton) -> Iterator[None]:
    """In evaluation mode, without gradients; random numbers that mixers draw were never drawn."""
    device = next(model.parameters()).device
    cards = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cards), in_evaluation_mode(model), torch.no_grad():
        yield
