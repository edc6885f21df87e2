"""Compute the cost of a variant: its state, and the time, FLOPs and memory of its training.

Time is the number of steps times the measured time of a training step, not the duration of a
training run: trials that train share their machine, while trials that time have it to themselves.
Costs that depend on the machine are taken from one environment, the one with most measurements.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bakeoff.reports.document import NO_ENTRY, Column, Entry
from bakeoff.reports.results.axis_values import values_of
from bakeoff.reports.results.reading import coordinates
from bakeoff.reports.results.series import STATE_BYTES, Series
from bakeoff.reports.stats.intervals import Estimate, Notation
from bakeoff.suite.schema import TIMED_RECIPE, About

STATE = "state"  # key of the state kept between tokens
TRAINING_STEP = "training_step_seconds"
_FLOPS, _MEMORY = "forward_flops", "peak_memory_bytes"
_TRAINING_OVER_FORWARD = 3.0  # the backward pass counts as twice the forward one
_UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_PASSES = ("distillation", "scheduled_sampling", "adversarial_steps")  # which these fields add
_AT_LEAST = 2.0  # a unit is used if the median cost is at least this many of it


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """The time of a training step, in one environment.

    Attributes:
        task: The task of the measurements.
        environment_id: Their environment.
        seconds: Variant -> median over processes.
    """

    task: str
    environment_id: str
    seconds: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class VariantCost:
    """The amounts of one cost, by variant.

    Attributes:
        key: Name in file names.
        title: Name on an axis.
        unit: Unit of the amounts.
        how: A sentence that says how the amounts are obtained.
        amounts: Variant -> amount, positive, if it is known.
    """

    key: str
    title: str
    unit: str
    how: str
    amounts: Mapping[str, float]


def variant_costs(about: About, measured: Sequence[Series], task: str) -> Iterator[VariantCost]:
    """Yield the known costs: state between tokens, and training time, FLOPs and peak memory."""
    kept = _most_measured(measured, task, STATE_BYTES)
    if kept:
        yield VariantCost(
            key=STATE,
            title="state between tokens",
            unit="B",
            amounts=_medians(about, kept),
            how=(
                "The state is the memory that a model keeps per sequence between two tokens, in "
                f"float32, computed by formula{_after(kept)}."
            ),
        )
    times = step_times(measured, task)
    if times:
        yield VariantCost(
            key="seconds",
            title="training time",
            unit="s",
            amounts=training_seconds(about, times),
            how="Time is the number of training steps times the median time of a training step"
            f"{where(about, times.environment_id)}{_without_start(about)}.",
        )
    counted = _most_measured(measured, task, _FLOPS)
    if counted:
        yield VariantCost(
            key="flops",
            title="training FLOPs",
            unit="FLOP",
            amounts=_training_flops(about, counted),
            how=(
                "Training FLOPs are those of all training steps, forward and backward, with the "
                f"passes that the recipe adds{_without_start(about)}."
            ),
        )
    sized = _most_measured(measured, task, _MEMORY)
    if sized:
        yield VariantCost(
            key="bytes",
            title="peak memory",
            unit="B",
            amounts=_medians(about, sized),
            how=(
                "Memory is the peak memory of one training "
                f"step{where(about, sized.environment_id)}."
            ),
        )


def timed_steps(measured: Sequence[Series], task: str) -> Series | None:
    """Return the series of step times of the environment with most of them, or None."""
    return _most_measured(measured, task, TRAINING_STEP)


def step_times(measured: Sequence[Series], task: str) -> StepTimes | None:
    """Return the step times of the environment with most of them, or None if no step was timed."""
    timed = timed_steps(measured, task)
    if timed is None:
        return None
    found = {variant: _median(timed, variant) for variant in timed.readings}
    seconds = {variant: one for variant, one in found.items() if one}
    if not seconds:
        return None
    return StepTimes(task=task, environment_id=timed.environment_id, seconds=seconds)


def training_seconds(about: About, times: StepTimes) -> dict[str, float]:
    """Return variant -> seconds of a whole training, if the steps and their time are known."""
    found = {
        v: num_steps(about, v, times.task) * one
        for v, one in times.seconds.items()
        if is_timed_as_trained(about, v)
    }
    return {variant: seconds for variant, seconds in found.items() if seconds}


def is_timed_as_trained(about: About, variant: str) -> bool:
    """Return False if the variant's training steps do more than those that were timed.

    A recipe that all variants share may differ from the timed one in what takes little time.
    """
    values = {**about.settings, **values_of(about, variant)}
    return all(
        values.get(name, plain) == plain
        for name, plain in TIMED_RECIPE.items()
        if name in about.axes or name in _PASSES
    )


def num_steps(about: About, variant: str, task: str) -> int:
    """Return the training steps of a variant on a task, or 0 if they are not known."""
    if found := about.training_steps.get(task, {}).get(variant):
        return found
    return 0 if about.budget_of(variant) == "seconds" else setting(about, variant, "steps")


def setting(about: About, variant: str, name: str) -> int:
    """Return a variant's own whole-number setting, else that of the scale, else 0."""
    said = str(values_of(about, variant).get(name, about.settings.get(name, "")))
    return int(said) if said.isascii() and said.isdigit() else 0


def steps_column(about: About, task: str, variants: Sequence[str]) -> Column | None:
    """Return a column with the steps of each training, or None if no budget but steps is equal."""
    steps = about.training_steps.get(task, {})
    if not steps:
        return None
    return Column(
        key="training_steps",
        title="training steps",
        measured_unit="1",
        entries={
            variant: Entry(estimate=Estimate(n=1, point=steps[variant]), text=f"{steps[variant]:,}")
            if variant in steps
            else NO_ENTRY
            for variant in variants
        },
    )


def cost_column(
    about: About, measured: Sequence[Series], task: str, variants: Sequence[str]
) -> Column | None:
    """Return a column with the core-hours or GPU-hours of one training, in one environment.

    It is None if the environment, the training steps or their time are unknown for every variant.
    """
    times = step_times(measured, task)
    made = about.provenances.get(times.environment_id) if times else None
    if times is None or made is None:
        return None
    # The timed step used these devices alone: timing trials never share a GPU.
    num_devices, device = float(made.num_threads), "core"
    if made.num_gpus > 0:
        num_devices, device = max(1.0, made.num_gpus), "GPU"
    seconds = training_seconds(about, times)
    spent = {v: seconds[v] * num_devices for v in variants if v in seconds}
    if not spent:
        return None
    times_devices = f" × {num_devices:g} {device}s" if num_devices != 1 else ""
    typical = statistics.median_low(spent.values())
    factor, noun = next(((f, n) for f, n in _UNITS if typical >= _AT_LEAST * f), _UNITS[-1])
    return Column(
        key="training_cost",
        title="training time",
        measured_unit=f"{device}-seconds",
        unit=f"{device}-{noun}",
        arrow="↓",
        note=f"steps × training step{times_devices}{where(about, times.environment_id)}",
        entries={variant: _entry(spent.get(variant), factor) for variant in variants},
    )


def _entry(device_seconds: float | None, factor: float) -> Entry:
    if device_seconds is None:
        return NO_ENTRY
    text = Notation().write(device_seconds / factor)
    return Entry(estimate=Estimate(n=1, point=device_seconds), text=text)


def where(about: About, environment_id: str) -> str:
    """Return a phrase as `` on AMD EPYC with 2 threads``; empty if the environment is unknown."""
    made = about.provenances.get(environment_id)
    if made is None:
        return ""
    threads = "1 thread" if made.num_threads == 1 else f"{made.num_threads} threads"
    return f" on {made.device} with {threads}"


def _without_start(about: About) -> str:
    """Return a remark if trainings may start from another one, whose cost is not in the results."""
    is_asked = "start" in about.axes or "start" in about.settings
    return ", without pre-training" if is_asked else ""


def _after(series: Series) -> str:
    """Return a phrase as `` after 512 tokens``; empty if the length differs between variants."""
    tokens = coordinates(series.at).get("length")
    return f" after {tokens:,} tokens" if isinstance(tokens, int) else ""


def _training_flops(about: About, counted: Series) -> dict[str, float]:
    """Return variant -> FLOPs of its training, without those of a training that it starts from.

    They are those of its learning curve. A variant without a curve has three times the forward
    FLOPs of all its examples, if its recipe adds no pass.
    """
    known = about.training_flops.get(counted.task, {})
    plain = {
        variant: _TRAINING_OVER_FORWARD * forward * rows
        for variant, forward in _medians(about, counted).items()
        if is_timed_as_trained(about, variant)
        if (rows := setting(about, variant, "batch") * num_steps(about, variant, counted.task))
    }
    found = {**plain, **known}
    return {variant: found[variant] for variant in about.variants if variant in found}


def _medians(about: About, series: Series) -> dict[str, float]:
    found = {variant: _median(series, variant) for variant in about.variants}
    return {variant: one for variant, one in found.items() if one and one > 0}


def _median(series: Series, variant: str) -> float | None:
    """Return the median over processes that are ok or noisy, or None if there is no number."""
    kept = [reading.value for reading in series.of(variant) if reading.is_usable]
    return statistics.median(kept) if kept else None


def _most_measured(measured: Sequence[Series], task: str, metric: str) -> Series | None:
    """Return the series of the environment with most numbers; ties are broken by its id."""
    found = [s for s in measured if (s.task, s.metric) == (task, metric)]

    def size(series: Series) -> tuple[int, str]:
        usable = sum(r.is_usable for some in series.readings.values() for r in some)
        return usable, series.environment_id

    return max(found, key=size, default=None)
