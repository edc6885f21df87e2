"""Ablation -> Plan: axes expanded, impossible cells marked with their reason, trials named.

Arrow: the first. Pure: no clock, no randomness, no store; the same ablation gives the same ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from suite.catalogue import Entry, find
from suite.cells import filled_cells
from suite.nearest import unknown_name
from suite.probes.registry import probe
from suite.schema import (
    About,
    Cell,
    ClaimSpec,
    DataSet,
    MetricSpec,
    Plan,
    Resources,
    Trial,
)
from suite.spec import SCALES, SEEDS, Ablation, Claim, Scale, SpecError
from suite.subjects import Impossible, Subject, refuse_foreign_axes, subject_of, with_defaults
from suite.tasks.registry import task_class
from suite.variants import Baseline, Variant, variants_of

MOST_TRIALS = 100_000

Table = Mapping[str, Subject | Impossible]  # variant label -> what it comes to on one task


def plan(
    ablation: Ablation | Entry | str, *, scale: str = "quick", seeds: int | None = None
) -> Plan:
    """What would run.

    Args:
        ablation: An ablation, or the name or path of one.
        scale: ``quick``, ``standard`` or ``paper``.
        seeds: Number of seeds, instead of the scale's.

    Raises:
        SpecError: for anything misspelt, mistyped, impossible in the baseline, or too large.
    """
    entry = _entry(ablation)
    try:
        return _expanded(entry, scale, seeds)
    except SpecError as error:
        raise SpecError(f"{entry.file}: {error}") from None


def _entry(ablation: Ablation | Entry | str) -> Entry:
    if isinstance(ablation, str):
        return find(ablation)
    if isinstance(ablation, Entry):
        return ablation
    return Entry(name="own", ablation=ablation, note="", file=Path("ABLATION"))


def _expanded(entry: Entry, scale_name: str, seeds: int | None) -> Plan:
    scale = _scale(entry.ablation, scale_name)
    num_seeds = _num_seeds(scale, scale_name, seeds)
    baseline = Baseline(
        ablation=entry.ablation, scale=scale, knobs=with_defaults(entry.ablation, scale)
    )
    refuse_foreign_axes(baseline)
    reference, variants = variants_of(baseline)
    _refuse_too_many(entry.ablation, variants, num_seeds)
    tables = {task: _table(baseline, variants, task) for task in entry.ablation.tasks}
    _refuse_impossible_baseline(reference, tables)
    _refuse_idle_axes(baseline, reference, variants, tables)
    filled = tuple(_fill(entry.ablation, tables, num_seeds))
    _refuse_foreign_claim(baseline, reference, variants, [cell for cell, _ in filled])
    return Plan(
        about=_about(entry, scale_name, baseline, reference, variants, filled, num_seeds),
        cells=tuple(cell for cell, _ in filled),
        trials=tuple({t.trial_id: t for _, t in filled if t is not None}.values()),
        resources=_resources(scale),
        source_paths=entry.source_paths,
    )


def _resources(scale: Scale) -> Resources:
    return Resources(
        num_cpus=scale.cpus, num_threads=scale.threads or scale.cpus, num_gpus=float(scale.gpus),
        memory_bytes=round(scale.memory_gib * 2**30), gpu_model=scale.gpu_model,
    )  # fmt: skip


def _scale(ablation: Ablation, name: str) -> Scale:
    if name not in SCALES:
        raise SpecError(unknown_name("scale", name, SCALES))
    if name not in ablation.scales:
        raise SpecError(
            f"this ablation declares no scale {name!r}; it has {', '.join(ablation.scales)}."
        )
    return ablation.scales[name]


def _num_seeds(scale: Scale, scale_name: str, seeds: int | None) -> int:
    if seeds is not None and not 1 <= seeds <= 10_000:
        raise SpecError(f"seeds={seeds} must lie between 1 and 10000.")
    return seeds or scale.seeds or SEEDS[scale_name]


def _refuse_too_many(ablation: Ablation, variants: tuple[Variant, ...], num_seeds: int) -> None:
    count = len(variants) * len(ablation.tasks) * num_seeds
    if count > MOST_TRIALS:
        raise SpecError(
            f"{len(variants)} variants x {len(ablation.tasks)} tasks x {num_seeds} seeds are "
            f"{count} trials; at most {MOST_TRIALS} are allowed."
        )


def _table(baseline: Baseline, variants: tuple[Variant, ...], task: str) -> Table:
    return {variant.label: _subject(baseline, variant, task) for variant in variants}


def _subject(baseline: Baseline, variant: Variant, task: str) -> Subject | Impossible:
    try:
        return subject_of(baseline, variant, task)
    except Impossible as reason:
        return reason


def _refuse_impossible_baseline(reference: Variant, tables: Mapping[str, Table]) -> None:
    for task, table in tables.items():
        subject = table[reference.label]
        if isinstance(subject, Impossible):
            raise SpecError(f"the baseline is impossible on {task}: {subject}.")


def _refuse_idle_axes(
    baseline: Baseline,
    reference: Variant,
    variants: tuple[Variant, ...],
    tables: Mapping[str, Table],
) -> None:
    """An axis that changes nothing is a mistake, and the commonest one of this field."""
    for axis in baseline.ablation.axes:
        changed = [v for v in variants if set(v.changes) == {axis.name}]
        same = [all(t[v.label] == t[reference.label] for t in tables.values()) for v in changed]
        if changed and all(same):
            raise SpecError(f"the axis {axis.name!r} changes nothing of what is trained.")


def _fill(
    ablation: Ablation, tables: Mapping[str, Table], num_seeds: int
) -> Iterator[tuple[Cell, Trial | None]]:
    for name in ablation.probes:
        for task, table in tables.items():
            yield from filled_cells(probe(name), task, table, num_seeds)


def _refuse_foreign_claim(
    baseline: Baseline, reference: Variant, variants: tuple[Variant, ...], cells: list[Cell]
) -> None:
    claim = baseline.ablation.claim
    if claim is None:
        return
    if claim.a == claim.b:
        raise SpecError(f"the claim: a and b are both {claim.a!r}; they must be two variants.")
    labels = [variant.label for variant in variants]
    metrics = {metric.name for cell in cells for metric in cell.metrics}
    for label in (claim.a, claim.b):
        if label in {baseline.label(axis.name) for axis in baseline.ablation.axes} - set(labels):
            raise SpecError(
                f"the claim: {label!r} is what the baseline has, and with several axes the "
                f"baseline's variant is called {reference.label!r}."
            )
        if label not in labels:
            raise SpecError(f"the claim: {unknown_name('variant', label, labels)}")
    if claim.metric not in metrics:
        raise SpecError(f"the claim: {unknown_name('metric', claim.metric, metrics)}")
    if claim.task is not None:
        tasks = {c.task for c in cells if claim.metric in {m.name for m in c.metrics}}
        if claim.task not in tasks:
            raise SpecError(f"the claim: {unknown_name('task', claim.task, tasks)}")


def _about(
    entry: Entry,
    scale_name: str,
    baseline: Baseline,
    reference: Variant,
    variants: tuple[Variant, ...],
    filled: tuple[tuple[Cell, Trial | None], ...],
    num_seeds: int,
) -> About:
    ablation, model = entry.ablation, entry.ablation.baseline
    cells = [cell for cell, _ in filled]
    tasks = tuple(dict.fromkeys(cell.task for cell in cells))
    settings = baseline.scale.settings()
    return About(
        ablation=entry.name, scale=scale_name, question=ablation.question,
        note=_paragraphs(entry.note),
        baseline=reference.label, variants=tuple(variant.label for variant in variants),
        tasks=tasks, probes=tuple(ablation.probes), num_seeds=num_seeds, settings=settings,
        model={
            "skeleton": model.skeleton, "mixer": model.mixer, "position": model.position,
            **baseline.knobs,
        },
        claim=_claim_spec(ablation.claim, cells), metrics=_metrics(cells),
        data_sets={task: _data_set(task) for task in tasks},
        is_indicative=scale_name == "quick",
        regenerate=_command(entry, scale_name, num_seeds),
    )  # fmt: skip


def _paragraphs(note: str) -> str:
    """The docstring without the line breaks that only its file needs."""
    return "\n\n".join(" ".join(part.split()) for part in note.split("\n\n"))


def _command(entry: Entry, scale_name: str, num_seeds: int) -> str:
    """What runs this again; a user's file by its name, since its folder differs by machine."""
    name = entry.file.name if entry.source_paths else entry.name
    asked = _num_seeds(_scale(entry.ablation, scale_name), scale_name, None)
    seeds = f" --seeds {num_seeds}" if num_seeds != asked else ""
    return f"bakeoff run {name} --scale {scale_name}{seeds}"


def _claim_spec(claim: Claim | None, cells: list[Cell]) -> ClaimSpec | None:
    """The claim with its task made plain: the first one whose metric it is about."""
    if claim is None:
        return None
    first = next(c.task for c in cells if claim.metric in {m.name for m in c.metrics})
    return ClaimSpec(
        statement=claim.statement, metric=claim.metric, a=claim.a, b=claim.b, by=float(claim.by),
        source=claim.source, task=claim.task or first,
    )  # fmt: skip


def _metrics(cells: list[Cell]) -> dict[str, dict[str, tuple[MetricSpec, ...]]]:
    """Task -> probe -> metrics, each once however many lengths it is measured at."""
    found: dict[str, dict[str, tuple[MetricSpec, ...]]] = {}
    for cell in cells:
        of_task = found.setdefault(cell.task, {})
        of_task[cell.probe] = tuple(dict.fromkeys((*of_task.get(cell.probe, ()), *cell.metrics)))
    return found


def _data_set(task: str) -> DataSet:
    source = task_class(task).source
    return DataSet(
        title=source.title, licence=source.licence, origin=source.origin, sha256=source.sha256
    )
