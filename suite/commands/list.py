"""`bakeoff list`: show the shipped ablations, the mixers, the architectures and the tasks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bakeoff.suite.planning.cost_model import PlannedWork, planned_work
from bakeoff.suite.planning.loader import find, shipped
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.terminal import print_line
from bakeoff.suite.text import in_words, number_of, some_of

_MOST_NAMES = 20  # on a line; --json names them all
OVERVIEW = "overview.json"  # beside the shipped ablations; `make catalogue` writes it


def show(kind: str, *, as_json: bool) -> None:
    """Print the ablations, the mixers, the architectures or the tasks."""
    kinds = {
        "ablations": _ablations,
        "mixers": _mixers,
        "architectures": _architectures,
        "tasks": _tasks,
    }
    entries = kinds[kind]()
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    for entry in entries:
        name = entry.pop("name")
        if kind == "ablations":  # `plan` shows the other fields
            print_line(f"{name}: {entry['question']}")
            sizes = (f"{scale} {size}" for scale, size in entry["scales"].items())
            print_line(f"  {'; '.join(sizes)}")
            continue
        print(name)
        for field, value in entry.items():
            _print_lines(field.replace("_", " "), value)


def _print_lines(name: str, value: Any) -> None:
    """Print a field: a dictionary with one line per value, other values on one line."""
    if isinstance(value, dict):
        for key, text in value.items():
            print_line(f"  {key:<22}{text}")
        return
    text = some_of(value, _MOST_NAMES, ", ") or "none" if isinstance(value, list) else value
    print_line(f"  {name:<22}{text}")


def overview(known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the facts about each shipped ablation, by name; sizes are fields of `PlannedWork`.

    Args:
        known: An earlier overview, whose entries are reused for unchanged files, because planning
            them all takes ten seconds.
    """
    found = {}
    for name, file in shipped().items():
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        entry = (known or {}).get(name, {})
        found[name] = entry if entry.get("sha256") == sha256 else _planned(name, sha256)
    return found


def _planned(name: str, sha256: str) -> dict[str, Any]:
    from bakeoff.suite.planning.plan import plan

    ablation = find(name).ablation
    plans = {scale: plan(name, scale=scale) for scale in ablation.scales}
    return {
        "sha256": sha256,
        "question": ablation.question,
        "variants": list(next(iter(plans.values())).about.variants),
        "tasks": list(ablation.tasks),
        "scales": {
            scale: dataclasses.asdict(planned_work(each.trials, each.resources))
            for scale, each in plans.items()
        },
    }


def _ablations() -> list[dict[str, Any]]:
    file = Path(next(iter(shipped().values()))).parent / OVERVIEW
    known = json.loads(file.read_text()) if file.is_file() else None
    return [
        {
            "name": name,
            **{key: entry[key] for key in ("question", "variants", "tasks")},
            "scales": {scale: _size(PlannedWork(**w)) for scale, w in entry["scales"].items()},
        }
        for name, entry in overview(known).items()
    ]


def _size(work: PlannedWork) -> str:
    """Return a size, for example ``41 trials, about 2 min 22 s on this machine's 2 cores``."""
    cores = num_cpus()
    num_gpus = math.ceil(work.num_gpus)
    where = f"{num_gpus} GPU" if num_gpus else f"this machine's {number_of(cores, 'core')}"
    return (
        f"{number_of(work.num_trials, 'trial')}, about {in_words(work.seconds(cores))} on {where}"
    )


def _mixers() -> list[dict[str, Any]]:
    from bakeoff.models import MIXERS

    return [_mixer(name) for name in MIXERS]


def _architectures() -> list[dict[str, Any]]:
    from bakeoff.models import ARCHITECTURES

    return [_architecture(name) for name in ARCHITECTURES]


def _tasks() -> list[dict[str, Any]]:
    from bakeoff.suite.tasks.registry import TASKS

    return [_task(name) for name in TASKS]


def _mixer(name: str) -> dict[str, Any]:
    from bakeoff.models import mixer_class

    kind = mixer_class(name)
    traits = {
        "causal": kind.supports_causal,
        "step by step": kind.supports_step,
        "context": kind.supports_context,
        "relative positions": kind.supports_relative,
        "fixed length": kind.fixed_length,
        "sees positions": kind.is_position_aware,
        "stochastic": kind.is_stochastic,
    }
    return {
        "name": name,
        "paper": kind.paper,
        "family": kind.family,
        "time": kind.cost.time,
        "sequential_operations": kind.cost.sequential_operations,
        "maximum_path_length": kind.cost.maximum_path_length,
        "mask_mode": kind.mask_mode,
        "traits": [trait for trait, holds in traits.items() if holds],
        "knobs": [f"{knob.name}={knob.default}" for knob in dataclasses.fields(kind.Config)],
    }


def _architecture(name: str) -> dict[str, Any]:
    from bakeoff.models import architecture_class
    from bakeoff.models.presets import PRESETS

    kind = architecture_class(name)
    presets = [preset for preset, each in PRESETS.items() if each.architecture == name]
    return {
        "name": name,
        "inputs": {key: " or ".join(kinds) for key, kinds in kind.reads.items()},
        "answers": list(kind.answers),
        "takes": list(kind.takes),
        **({"presets": presets} if presets else {}),
        "knobs": [f"{knob.name}={knob.default}" for knob in dataclasses.fields(kind.Config)],
    }


def _task(name: str) -> dict[str, Any]:
    from bakeoff.suite.tasks.registry import task_class

    task, (least, most) = task_class(name), task_class(name).lengths
    writes = getattr(task.metric, "decoder", None) is not None
    own = ", of generated text" if writes else ""
    inputs = task.interface(task.fixed_length or least).inputs
    return {
        "name": name,
        "data": task.source.title,
        "licence": task.source.licence,
        "inputs": {key: each.kind for key, each in inputs.items()},
        "asks_for": task.asks_for,
        "architecture": task.architecture,
        "metric": f"{task.metric.name} ({task.metric.better} is better){own}",
        "length": task.fixed_length or f"{least:,} to {most:,} {task.token_name}",
    }
