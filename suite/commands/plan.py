"""`bakeoff plan`: show trials to run, finished trials, impossible ones and why; change nothing."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from bakeoff.suite.commands.progress import seconds_by_finished_trials
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import parent_cells
from bakeoff.suite.journal.sqlite_schema import End, journal_in
from bakeoff.suite.planning.budgets import Spending, spending_of
from bakeoff.suite.planning.cost_model import kinds_of, planned_work
from bakeoff.suite.planning.gpu_specs import GpuSpec, gpu_spec
from bakeoff.suite.planning.plan import plans_of
from bakeoff.suite.planning.training_examination import remarks_on
from bakeoff.suite.probes.probe import step_choice
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.schema import (
    FAILURES,
    FINDERS,
    MIXER_ALONE,
    QUALITY,
    Cell,
    Plan,
    Price,
    Trial,
)
from bakeoff.suite.schema.old_labels import named_values
from bakeoff.suite.schema.task_names import is_own_data
from bakeoff.suite.sweep.pending import is_done, seconds_of_past
from bakeoff.suite.tasks.data_files import is_absent
from bakeoff.suite.tasks.own.data import described
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.terminal import print_line, terminal_width
from bakeoff.suite.text import flops_in_words, in_money, in_words, number_of, price_in, some_of
from bakeoff.suite.training.engines.step_choice import StepChoice

_CORES = "cores of a machine like this one"
_LEAST_WIDTH = 30  # columns for names of variants; on a narrower terminal they have own lines
_MOST_VARIANTS = 12  # named on a line; --json names them all


class Asked(NamedTuple):
    """A request for plans: names, a scale, a number of seeds, and `--set` options."""

    names: Sequence[str]
    scale: str
    seeds: int | None = None
    settings: Sequence[str] = ()

    def plans(self) -> list[Plan]:
        """Return the plans.

        Raises:
            SpecError: In the same cases as `plans_of`.
        """
        return plans_of(self.names, scale=self.scale, seeds=self.seeds, options=self.settings)


def show(
    asked: Asked,
    out: Path,
    *,
    as_json: bool = False,
    card: str | None = None,
    price: str | None = None,
) -> None:
    """Print each plan, or one JSON object per trial; times are for the GPU `card`.

    A price is for an hour of a GPU or, if the trials use no GPU, of a core.

    Raises:
        UsageError: For an unknown card, an invalid price, and in the cases of `Asked.plans`.
    """
    on, stated = gpu_spec(card), price_in(price)
    ends = [] if card else _ends(out)
    plans = asked.plans()
    states = {p.key: trial_states(p, out) for p in plans}
    if as_json:
        print(json.dumps([asdict(s) for of_plan in states.values() for s in of_plan], indent=1))
        return
    for p in plans:
        said = (*remarks_on([p]), _power(p, out), _share(p, out, on), _steps(p))
        measured = seconds_by_finished_trials(p, seconds_of_past([p], ends))
        _show_plan(p, states[p.key], said, _Costs(on, stated, measured))


class _Costs(NamedTuple):
    """The basis of the estimated time of a plan, and of its price.

    Attributes:
        card: The GPU.
        price: The price of an hour, or None.
        measured: trial_id -> seconds that follow from trials which have run here.
    """

    card: GpuSpec
    price: Price | None
    measured: Mapping[str, float]


def _ends(out: Path) -> list[End]:
    if not os.path.isfile(journal_in(out)):
        return []
    with Journal(journal_in(out), read_only=True) as journal:
        return journal.ends()


def _show_plan(p: Plan, states: Sequence[TrialState], said: Sequence[str], costs: _Costs) -> None:
    print_line(f"{p.about.ablation}, {p.about.scale}: {p.about.question}")
    lines = _lines(states)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    before = 2 + sum(widths) + 2 * len(widths)  # columns before the names of the variants
    width, longest = terminal_width(), before + max(len(line[-1]) for line in lines)
    for line in lines:
        if width and longest > width < before + _LEAST_WIDTH:
            print_line(f"  {', '.join(line[:-1])}")
            print_line(f"    {line[-1]}", indent=4)
            continue
        cells = (text.ljust(size) for text, size in zip(line[:-1], widths, strict=True))
        print_line(f"  {'  '.join((*cells, line[-1]))}", indent=before)
    for sentence in filter(None, (*_budgets(states), *_own_data(p), *said, *_missing_data(p))):
        print_line(f"  {sentence}")
    counts = ", ".join(f"{number} {state}" for state, number in count_states(states).items())
    print_line(f"{number_of(len(states), 'trial')}: {counts}; {_left(p, states, costs)}")
    print()


def _budgets(states: Sequence[TrialState]) -> list[str]:
    """Return what the training of each variant takes, if budgets other than steps are equal."""
    found: dict[str, None] = {}
    for s in states:
        if s.num_parameters and s.probe == QUALITY:
            steps = (
                number_of(s.num_steps, "step") if s.num_steps else "steps of the baseline's time"
            )
            flops = f", {flops_in_words(s.training_flops)}" if s.training_flops else ""
            size = f"{steps}{flops}, {s.num_parameters:,} parameters"
            for variant in s.variant.split(" | "):
                found[f"{s.task}, {variant}: {size}"] = None
    return [*found]


def _own_data(p: Plan) -> Iterator[str]:
    """Yield what was found in each file of the user's own data."""
    for task in dict.fromkeys(trial.task for trial in p.trials if is_own_data(trial.task)):
        yield described(task)


def _missing_data(p: Plan) -> Iterator[str]:
    """Yield a sentence for each data set that has to be fetched before a run."""
    tasks = {trial.task for trial in p.trials} - {MIXER_ALONE}
    sources = {task_class(task).source for task in tasks}
    for name in sorted({source.name for source in sources if is_absent(source)}):
        yield f"the data set {name} is not downloaded yet; run `bakeoff data fetch {name}`"


def _left(p: Plan, states: Sequence[TrialState], costs: _Costs) -> str:
    """Return the estimated time of the remaining trials on this machine, and its cost."""
    to_run = {s.trial_id for s in states if s.state in ("missing", "failed")}
    trials = [trial for trial in p.trials if trial.trial_id in to_run]
    if not trials:
        return "nothing to run"
    gpus, (card, price, _) = p.resources.num_gpus, costs
    cards = math.ceil(gpus * max(trial.num_workers for trial in trials)) if gpus >= 1 else 1
    num, what = (cards, card.title) if gpus else (num_cpus(), _CORES)
    if 0 < gpus <= 0.5:
        what += f", of which {int(1 / gpus)} trainings share one"
    seconds = _seconds(p, trials, costs)
    taken = in_words(seconds)
    if price:
        taken += f" and {in_money(price.amount * num * seconds / 3600, price.currency)}"
    if what == _CORES and num == 1:
        what = what.replace("cores", "core")
    return f"estimate: about {taken} to run on {num} {what}{_of_parents(p, trials, costs)}"


def _of_parents(p: Plan, trials: Sequence[Trial], costs: _Costs) -> str:
    """Return the times of parts, as `` (pre-training: about 2 min)``; empty without any."""
    part_of = {cell.trial_id: cell.variant for cell in parent_cells(p)}
    role_of = {probe_name: role for role, probe_name in FINDERS.items()}
    part_of |= {t.trial_id: role_of[t.probe] for t in trials if t.probe in role_of}
    parts = dict.fromkeys(part_of[t.trial_id] for t in trials if t.trial_id in part_of)
    to_start, times = _seconds(p, (), costs), []
    for part in parts:
        own = _seconds(p, [t for t in trials if part_of.get(t.trial_id) == part], costs)
        times.append(f"{part}: about {in_words(own - to_start)}")
    return f" ({'; '.join(times)})" if times else ""


def _seconds(p: Plan, trials: Sequence[Trial], costs: _Costs) -> float:
    rates = costs.card.flops_per_second
    return planned_work(trials, p.resources, rates, costs.measured).seconds(num_cpus())


def _lines(states: Sequence[TrialState]) -> list[tuple[str, ...]]:
    """Return lines; trials in the same state for the same reason share one."""
    entries: dict[tuple[str, ...], list[TrialState]] = {}
    for s in states:
        line = (s.state, s.probe, s.task, s.reason, s.variant)
        entries.setdefault(line, []).append(s)
    variants: dict[tuple[str, ...], list[str]] = {}
    for (*footing, variant), some in entries.items():
        variants.setdefault((*footing, _seeds(some) + _places(some)), []).append(variant)
    states_in_order = ("failed", "missing", "done", "skipped")
    ordered = sorted(variants.items(), key=lambda line: states_in_order.index(line[0][0]))
    return [
        (state, probe, task, numbers, _variants(names, reason))
        for (state, probe, task, reason, numbers), names in ordered
    ]


def _variants(joined: Iterable[str], reason: str) -> str:
    names = [name for some in joined for name in some.split(" | ")]
    return some_of(names, _MOST_VARIANTS) + (f": {reason}" if reason else "")


def _seeds(states: Sequence[TrialState]) -> str:
    numbers = sorted({state.seed for state in states})
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"seeds {numbers[0]}-{numbers[-1]}"
    return ("seed " if len(numbers) == 1 else "seeds ") + ", ".join(map(str, numbers))


def _places(states: Sequence[TrialState]) -> str:
    """Return coordinates, as ``, length 64-4096, dim 32-256``; empty outside sweeps."""
    along: dict[str, list[int]] = {}
    for place in (place for state in states for place in state.at.split(" | ") if place):
        for axis, number in named_values(place).items():
            along.setdefault(axis, []).append(int(number))
    return "".join(f", {axis} {_range(numbers)}" for axis, numbers in along.items())


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


State = Literal["done", "failed", "missing", "skipped"]


@dataclass(frozen=True, kw_only=True)
class TrialState:
    """A trial as `bakeoff plan --json` shows it.

    Attributes:
        variant: Label of the variant; a comparison has all labels, joined by `` | ``.
        at: Coordinate of a sweep, for example ``length=1024``; several are joined by `` | ``.
        reason: Why it cannot run, or how it failed.
        steps: How the steps of a training on a GPU run, as its result will say it, unless they
            prove to be impossible to compile or to record; else empty.
        num_steps: Steps of the training, if a budget other than steps is equal (see
            `bakeoff.Scale.equal`), like the next two; else None. Steps and FLOPs are None too if a
            trial finds the steps.
        training_flops: FLOPs of all these steps.
        num_parameters: Parameters of the model.
    """

    trial_id: str
    ablation: str
    scale: str
    variant: str
    seed: int
    task: str
    probe: str
    state: State
    reason: str
    at: str = ""
    steps: str = ""
    num_steps: int | None = None
    training_flops: float | None = None
    num_parameters: int | None = None


def _power(plan: Plan, out: Path) -> str:
    """Return the statistical power of the seeds; empty if nothing was ever run."""
    if plan.about.claim is None or not os.path.isfile(journal_in(out)):
        return ""
    from bakeoff.suite.reporting.power import power_of

    with Journal(journal_in(out), read_only=True) as journal:
        return power_of(plan, journal)


def _share(plan: Plan, out: Path, card: GpuSpec) -> str:
    """Return the GPU memory that trainings used, and the least share that holds one.

    Empty if the trainings do not share a GPU, or before the first one has run.
    """
    if not plan.resources.is_shared or not os.path.isfile(journal_in(out)):
        return ""
    with Journal(journal_in(out), read_only=True) as journal:
        taken = journal.gpu_bytes()
    of_trainings = [taken[t.trial_id] for t in plan.trials if t.training and t.trial_id in taken]
    if not of_trainings:
        return ""
    most = max(of_trainings)
    return (
        f"trainings took at most {most / 2**30:.3g} GiB of a GPU: gpus={card.share_for(most):g} "
        f"holds one of them on {card.title}; planned is {plan.resources.num_gpus:g}"
    )


def _choices(plan: Plan) -> dict[str, StepChoice]:
    """Return trial_id -> how its steps will run, for trainings on a GPU by one process."""
    trains = (t for t in plan.trials if t.training and t.subjects and t.parallel is None)
    trains = (t for t in trains if plan.resources.num_gpus)
    return {t.trial_id: step_choice(t, on_gpu=True) for t in trains}


def _steps(plan: Plan) -> str:
    """Return how the training steps on a GPU will run; empty without a GPU or a training."""
    ways: dict[str, list[StepChoice]] = {}
    for choice in _choices(plan).values():
        ways.setdefault(choice.said, []).append(choice)
    if not ways:
        return ""
    parts = []
    for said, alike in ways.items():
        reasons = dict.fromkeys(each.why for each in alike if each.runtime != "eager" and each.why)
        why = f" ({some_of([*reasons], 1)})" if reasons else ""
        parts.append(f"{number_of(len(alike), 'training')} {said}{why}")
    return f"steps on a GPU: {', '.join(parts)}"


def trial_states(plan: Plan, out: Path) -> list[TrialState]:
    """Return the state of every trial and every impossible cell; only read the folder."""
    if not os.path.isfile(journal_in(out)):  # nothing was ever run
        return list(_states(plan, {}, {}))
    with Journal(journal_in(out), read_only=True) as journal:
        return list(_states(plan, _failures(plan, journal), journal.done()))


def _failures(plan: Plan, journal: Journal) -> dict[str, str]:
    """Return trial_id -> status and reason; only failed results are read completely."""
    failed = journal.failed()
    return {
        result.trial_id: f"{result.status.value}: {result.reason}"
        for result in journal.results(t.trial_id for t in plan.trials if t.trial_id in failed)
        if result.status in FAILURES
    }


def _states(
    plan: Plan, failures: Mapping[str, str], done: Mapping[str, set[str]]
) -> Iterator[TrialState]:
    trials, choices = {trial.trial_id: trial for trial in plan.trials}, _choices(plan)
    spendings = _spendings(plan)
    cells: dict[str, list[Cell]] = {}
    for cell in (*plan.cells, *parent_cells(plan)):
        cells.setdefault(cell.trial_id, []).append(cell)
    for trial_id, (*_, cell) in cells.items():
        state: State = "missing"
        if trial_id not in trials:
            state = "skipped"
        elif is_done(trials[trial_id], plan.resources.for_trial(trials[trial_id]), done):
            state = "done"
        elif trial_id in failures:
            state = "failed"
        reasons = {"skipped": cell.reason, "failed": failures.get(trial_id, "")}
        variants = dict.fromkeys(each.variant for each in cells[trial_id])
        places = dict.fromkeys(each.at for each in cells[trial_id])
        yield TrialState(
            trial_id=trial_id,
            ablation=plan.about.ablation,
            scale=plan.about.scale,
            variant=" | ".join(variants),
            seed=cell.seed,
            task=cell.task,
            probe=cell.probe,
            state=state,
            reason=reasons.get(state, ""),
            at=" | ".join(places),
            steps=choices[trial_id].said if trial_id in choices else "",
            **asdict(spendings[trial_id]) if trial_id in spendings else {},
        )


def _spendings(plan: Plan) -> dict[str, Spending]:
    """Return trial_id -> the cost of a training, unless all have equally many steps."""
    about = plan.about
    if {about.budget_of(variant) for variant in about.variants} == {"steps"}:
        return {}
    found: dict[str, Spending] = {}
    of_kind: dict[Hashable, Spending] = {}
    for trial in plan.trials:
        if trial.training and len(trial.subjects) == 1:
            teachers = trial.teacher.subjects if trial.teacher else ()
            is_known = trial.pace is None  # the number of its steps
            kind = kinds_of(trial)[0], is_known, *(teacher.spelling for teacher in teachers)
            if kind not in of_kind:  # seeds of one variant cost the same
                of_kind[kind] = spending_of(trial)
            found[trial.trial_id] = of_kind[kind]
    return found


def count_states(states: Sequence[TrialState]) -> Counter[State]:
    """Count the trials in each state."""
    return Counter(state.state for state in states)
