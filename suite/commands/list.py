"""`bakeoff list`: show the shipped ablations, the mixers and the tasks."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from typing import Any

from models import MIXERS, mixer_class
from suite.commands.resource_usage import planned_seconds
from suite.planning.loader import find, shipped
from suite.planning.plan import plan
from suite.tasks.registry import TASKS, task_class
from suite.text import in_words


def show(kind: str, *, as_json: bool) -> None:
    """Print the ablations, the mixers or the tasks."""
    names: dict[str, Iterable[str]] = {"ablations": shipped(), "mixers": MIXERS, "tasks": TASKS}
    describe = {"ablations": _ablation, "mixers": _mixer, "tasks": _task}[kind]
    entries = [describe(name) for name in names[kind]]
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    for entry in entries:
        print(entry["name"])
        for name, value in entry.items():
            if name != "name":
                _print_lines(name.replace("_", " "), value)


def _print_lines(name: str, value: Any) -> None:
    """A field; of several values one a line where they are many words, else all on one."""
    if isinstance(value, dict):
        for key, text in value.items():
            print(f"  {key:<22}{text}")
        return
    text = ", ".join(value) or "none" if isinstance(value, list) else value
    print(f"  {name:<22}{text}")


def _ablation(name: str) -> dict[str, Any]:
    ablation = find(name).ablation
    return {
        "name": name,
        "question": ablation.question,
        "variants": list(plan(name, scale=next(iter(ablation.scales))).about.variants),
        "tasks": list(ablation.tasks),
        "scales": {scale: _size(name, scale) for scale in ablation.scales},
    }


def _size(name: str, scale: str) -> str:
    """As ``41 trials, about 2 min 22 s on this machine's 2 cores``."""
    expanded = plan(name, scale=scale)
    seconds = planned_seconds(expanded.trials, expanded.resources, os.cpu_count() or 1)
    gpus, cores = expanded.resources.num_gpus, os.cpu_count()
    where = f"{gpus:g} GPU" if gpus else f"this machine's {cores} cores"
    return f"{len(expanded.trials)} trials, about {in_words(seconds)} on {where}"


def _mixer(name: str) -> dict[str, Any]:
    kind = mixer_class(name)
    traits = {
        "causal": kind.supports_causal, "step by step": kind.supports_step,
        "context": kind.supports_context, "relative positions": kind.supports_relative,
        "fixed length": kind.fixed_length,
        "sees positions": kind.is_position_aware, "stochastic": kind.is_stochastic,
    }  # fmt: skip
    return {
        "name": name, "paper": kind.paper, "family": kind.family, "time": kind.cost.time,
        "sequential_operations": kind.cost.sequential_operations,
        "maximum_path_length": kind.cost.maximum_path_length, "mask_mode": kind.mask_mode,
        "traits": [trait for trait, holds in traits.items() if holds],
        "knobs": [f"{knob.name}={knob.default}" for knob in dataclasses.fields(kind.Config)],
    }  # fmt: skip


def _task(name: str) -> dict[str, Any]:
    task = task_class(name)
    return {
        "name": name, "data": task.source.title, "licence": task.source.licence,
        "skeleton": task.skeleton, "metric": f"{task.metric.name} ({task.metric.better} is better)",
        "length": task.fixed_length or "any",
    }  # fmt: skip
