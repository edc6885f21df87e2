"""`bakeoff list`: show the shipped ablations, the mixers, the architectures and the tasks."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import math
import textwrap
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from bakeoff.suite.errors import unknown_name
from bakeoff.suite.places import SHIPPED_VERDICTS
from bakeoff.suite.planning.loader import LoadedAblation, find, shipped, themes
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.schema import MIXER_ALONE
from bakeoff.suite.spec import SpecError
from bakeoff.suite.terminal import print_line, terminal_width
from bakeoff.suite.text import IN_FILE, command, in_words, is_path, number_of, some_of

_MOST_NAMES = 20  # on a line; --json names them all
_LEAST_WIDTH = 20  # columns of a question below which it is left out
_FIELDS = 22  # column where the value of a field starts, without the margin
OVERVIEW = "overview.json"  # beside the shipped ablations; `make catalogue` writes it

Entry = dict[str, Any]


class _Verdict(NamedTuple):
    """The verdict on a claim, and where it comes from."""

    word: str
    origin: str  # the output folder, or empty for the shipped results

    @property
    def mark(self) -> str:
        """The word, with a star if it is of the user's own results."""
        return f"{self.word} *" if self.origin else self.word


def show(kind: str, *, name: str | None = None, out: Path = Path("out"), as_json: bool) -> None:
    """Print the ablations, the mixers, the architectures or the tasks, or one of them in full.

    Raises:
        SpecError: If there is none of that name.
    """
    if kind == "ablations":
        _show_ablations(name, out, as_json=as_json)
        return
    of_kind = {"mixers": _mixer, "architectures": _architecture, "tasks": _task}[kind]
    names = _names(kind)
    if name is not None and name not in names:
        raise SpecError(unknown_name(kind.removesuffix("s"), name, names))
    entries = [of_kind(each) for each in names if name in (None, each)]
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    for entry in entries:
        print(entry.pop("name"))
        for field, value in entry.items():
            _print_field(field.replace("_", " "), value)


def _names(kind: str) -> list[str]:
    from bakeoff.models import ARCHITECTURES, MIXERS
    from bakeoff.suite.tasks.registry import TASKS

    return list({"mixers": MIXERS, "architectures": ARCHITECTURES, "tasks": TASKS}[kind])


def _print_field(name: str, value: Any) -> None:
    """Print a field: a dictionary with one line per value, other values on one line."""
    if isinstance(value, dict):
        for key, text in value.items():
            print_line(f"  {key:<{_FIELDS}}{text}", indent=_FIELDS + 2)
        return
    text = some_of(value, _MOST_NAMES, ", ") or "none" if isinstance(value, list) else value
    print_line(f"  {name:<{_FIELDS}}{text}", indent=_FIELDS + 2)


def _show_ablations(name: str | None, out: Path, *, as_json: bool) -> None:
    verdicts = _verdicts(out)
    if name is None and not as_json:
        _print_lines(verdicts, out)
        return
    is_own = name is not None and is_path(name.partition(IN_FILE)[0])
    facts = {name: _planned(name)} if name and is_own else overview(_recorded(), name)
    if name is not None and not facts:
        raise SpecError(unknown_name("ablation", name, shipped()))
    entries = [_entry(facts[each], find(each), verdicts) for each in facts]
    if as_json:
        print(json.dumps(entries, indent=1))
    else:
        _print_whole(str(name), entries[0], out)


def _print_lines(verdicts: Mapping[str, _Verdict], out: Path) -> None:
    """Print a line for each ablation, under the theme of several."""
    every, asked = themes(), _questions()
    said = {name: verdicts[name].mark if name in verdicts else "-" for name in every}
    names, words = (max(map(len, column)) for column in (said.keys(), said.values()))
    width = terminal_width()
    for theme, some in groupby(every, key=lambda name: every[name]):
        print(theme)
        for name in some:
            line, question = f"  {name:<{names}}  {said[name]:<{words}}", asked[name]
            if width:
                question = _shortened(question, width - len(line) - 2)
            print(f"{line}  {question}".rstrip())
    print()
    are_own = any(verdicts[name].origin for name in every if name in verdicts)
    own = f"; those with * are of the results in {out}" if are_own else ""
    print_line(f"Verdicts are of the shipped reports at quick scale{own}.")
    print_line(f"`{command('list', 'NAME')}` shows claim, variants and times of one ablation.")


def _shortened(question: str, width: int) -> str:
    if width < _LEAST_WIDTH:
        return ""
    return textwrap.shorten(question, width, placeholder=" ...")


def _questions() -> dict[str, str]:
    """Return name -> question; only files that the overview does not know are executed."""
    known = _recorded()
    return {
        name: known[name]["question"]
        if known.get(name, {}).get("sha256") == _sha256(file)
        else find(name).ablation.question
        for name, file in shipped().items()
    }


def _print_whole(name: str, entry: Entry, out: Path) -> None:
    print_line(f"{entry['ablation']}: {entry['question']}")
    claim = entry["claim"] or {}
    origin = f"of the results in {out}" if entry["verdict_from"] else "of the shipped report"
    said = {
        "theme": entry["theme"],
        "claim": claim.get("statement", ""),
        "compares": claim and _compared(claim),
        "source": claim.get("source", ""),
        "published": claim.get("published", ""),
        "verdict": f"{entry['verdict']}, {origin}" if entry["verdict"] else "",
        "tasks": entry["tasks"],
        "variants": "; ".join(entry["variants"]),
        **entry["scales"],
        "file": entry["file"],
    }
    for field, value in said.items():
        if value:
            _print_field(field, value)
    print_line(f"`{command('plan', name)}` shows its trials, `{command('run', name)}` runs them.")


def _compared(claim: Mapping[str, Any]) -> str:
    """Return the test of a claim, as ``accuracy of heads=8 against heads=1, by at least 0.02``."""
    where = "".join(f", {claim[key]}" for key in ("task", "at") if claim[key])
    by = f", by at least {claim['by']:g}" if claim["by"] else ""
    return f"{claim['metric']} of {claim['a']} against {claim['b']}{where}{by}"


def _recorded() -> Mapping[str, Any]:
    file = Path(next(iter(shipped().values()))).parent / OVERVIEW
    return json.loads(file.read_text()) if file.is_file() else {}


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _entry(
    facts: Mapping[str, Any], loaded: LoadedAblation, verdicts: Mapping[str, _Verdict]
) -> Entry:
    ablation, name = loaded.ablation, loaded.name
    word, origin = verdicts.get(name, _Verdict("", ""))
    return {
        "ablation": name,
        "theme": themes().get(name, ""),
        "question": ablation.question,
        "verdict": word,
        "verdict_from": origin,
        "claim": ablation.claim.model_dump(mode="json") if ablation.claim else None,
        "variants": facts["variants"],
        "tasks": facts["tasks"],
        "scales": {scale: _size(w) for scale, w in facts["scales"].items()},
        "file": str(loaded.file),
    }


def _verdicts(out: Path) -> dict[str, _Verdict]:
    """Return ablation -> its verdict: of its report in the output folder, or of the shipped one."""
    with SHIPPED_VERDICTS.open(encoding="utf-8", newline="") as file:
        found = {row["ablation"]: _Verdict(row["verdict"], "") for row in csv.DictReader(file)}
    if not (out / "reports").is_dir():
        return found
    from bakeoff.suite.reporting.frames import verdicts_on_pages

    own = verdicts_on_pages(out / "reports")
    return found | {name: _Verdict(word, str(out)) for name, word in own.items()}


def overview(known: Mapping[str, Any] | None = None, only: str | None = None) -> dict[str, Any]:
    """Return the facts about each shipped ablation, by name; sizes are fields of `PlannedWork`.

    Args:
        known: An earlier overview, whose entries are reused for unchanged files, because planning
            them all takes minutes.
        only: The one ablation that is asked for; by default all.
    """
    found = {}
    for name, file in shipped().items():
        if only not in (None, name):
            continue
        sha256 = _sha256(file)
        entry = (known or {}).get(name, {})
        is_known = entry.get("sha256") == sha256
        found[name] = entry if is_known else {"sha256": sha256, **_planned(name)}
    return found


def _planned(name: str) -> dict[str, Any]:
    from bakeoff.suite.planning.cost_model import planned_work
    from bakeoff.suite.planning.plan import plan

    ablation = find(name).ablation
    plans = {scale: plan(name, scale=scale) for scale in ablation.scales}
    first = next(iter(plans.values())).about
    return {
        "question": ablation.question,
        "variants": list(first.variants),
        "tasks": [task for task in first.tasks if task != MIXER_ALONE],
        "scales": {
            scale: dataclasses.asdict(planned_work(each.trials, each.resources))
            for scale, each in plans.items()
        },
    }


def _size(planned: Mapping[str, Any]) -> str:
    """Return a size, for example ``41 trials, about 2 min 22 s on this machine's 2 cores``."""
    from bakeoff.suite.planning.cost_model import PlannedWork

    work = PlannedWork(**planned)
    cores = num_cpus()
    num_gpus = math.ceil(work.num_gpus)
    where = f"{num_gpus} GPU" if num_gpus else f"this machine's {number_of(cores, 'core')}"
    return (
        f"{number_of(work.num_trials, 'trial')}, about {in_words(work.seconds(cores))} on {where}"
    )


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
