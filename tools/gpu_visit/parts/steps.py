"""Trains every architecture and every mixer for three steps: eagerly, then recorded.

A recording (one CUDA graph for each step) must give the losses of the eager steps. If steps are
not recorded, the finding has the reason. All of it is in float32, in which equal means equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch

from bakeoff.models import build_model
from bakeoff.models.registry import ARCHITECTURES, MIXERS
from bakeoff.suite.errors import UsageError
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.augmentation import training_batch
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.recording import RECORDED, why_eager
from bakeoff.suite.training.recipes import float32_products
from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.standard import of_architecture, of_mixer

# Ablations whose recipes draw random numbers in a step, or whose model needs another one first.
_RECIPES = ("recipe", "distillation", "regularisation", "image_tokens")
_NUM_STEPS = 3
_TOLERANCE = 1e-4  # relative, of a loss


def items(visit: Visit) -> Iterator[Item]:
    """Yield the architectures, some recipes, then the mixers: in both directions, and causal."""
    for name in ARCHITECTURES:
        yield name, partial(_small, visit, partial(of_architecture, name))
    for name in _RECIPES:
        yield f"recipes of {name}", partial(_recipes, visit.device, name)
    for is_causal, form in ((False, "both directions"), (True, "causal")):
        for name in MIXERS:
            find = partial(of_mixer, name, is_causal=is_causal)
            yield f"{name}, {form}", partial(_small, visit, find)


def _small(visit: Visit, find: Callable[..., Trial]) -> Finding:
    try:
        trial = find(is_tiny=visit.is_dry)
    except UsageError as error:
        why = "it has no causal form" if "cannot be causal" in str(error) else str(error)
        return Finding(text=why, status="skipped")
    return compared(trial, visit.device)


def _recipes(device: str, ablation: str) -> Finding:
    """Compare each training of seed 0; the finding is the first one that is not `ok`."""
    found = [
        compared(trial, device)
        for trial in plan(ablation, scale="smoke").trials
        if trial.training is not None and trial.subjects and trial.seed == 0
    ]
    texts = list(dict.fromkeys(each.text for each in found))
    status = next((each.status for each in found if each.status != "ok"), "ok")
    return Finding(
        text=f"{len(found)} trainings: {' | '.join(texts)}",
        status=status,
        needs_fresh=any(each.needs_fresh for each in found),
    )


def compared(trial: Trial, device: str) -> Finding:
    """Train for a few steps eagerly and recorded, from the same weights on the same batches."""
    with float32_products("float32"):
        return _compared(trial, device)


def _compared(trial: Trial, device: str) -> Finding:
    eager, _, _ = _trained(trial, device, is_recorded=False)
    if not all(map(math.isfinite, eager)):
        return Finding(text=f"a loss is not finite: {eager}", status="failed")
    if device == "cpu":
        return Finding(text="eager steps run; recording needs a GPU", values={"losses": eager})
    recorded, how, is_declared = _trained(trial, device, is_recorded=True)
    values = {"losses": eager, "recorded": recorded, "how": how}
    is_same = all(
        math.isclose(one, other, rel_tol=_TOLERANCE)
        for one, other in zip(eager, recorded, strict=True)
    )
    has_failed = how != RECORDED and not is_declared  # recording was tried
    said = "recorded" if how == RECORDED else how
    if is_same:
        status = "failed" if has_failed else "ok"
        text = f"{said}, losses equal"
    elif is_declared:
        status, text = "ok", f"{said}; losses not compared"
    else:
        status, text = "failed", f"{said}; losses {_brief(recorded)}, eagerly {_brief(eager)}"
    return Finding(text=text, status=status, values=values, needs_fresh=has_failed)


def _trained(trial: Trial, device: str, *, is_recorded: bool) -> tuple[list[float], str, bool]:
    """Return the losses, how the steps ran, and whether a model declares that it runs eagerly."""
    assert trial.training is not None
    torch.manual_seed(trial.seed)
    task = build_task(trial.task, trial.length, trial.num_training_examples)
    model = build_model(trial.subjects[0])
    teacher = build_model(trial.teacher.subjects[0]) if trial.teacher else None
    engine = LocalEngine(
        model, trial.training, device, seed=trial.seed, teacher=teacher, is_recorded=is_recorded
    )
    torch.manual_seed(trial.seed)
    losses = []
    for step in range(_NUM_STEPS):
        batch = training_batch(task, step, trial.batch, trial.seed, trial.training)
        losses.append(float(engine.step(batch, task)))
    return losses, engine.how_steps_run, bool(why_eager(model, trial.training))


def _brief(losses: list[float]) -> str:
    return ", ".join(f"{loss:.5g}" for loss in losses)
