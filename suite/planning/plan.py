"""Ablation -> Plan: axes expanded, impossible cells marked with their reason, trials named.

Arrow: the first. Pure: no clock, no randomness, no store; the same ablation gives the same ids.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from models.model_spec import Knob
from suite.catalogue import Entry, find
from suite.cells import Sheet, filled_cells
from suite.errors import unknown_name
from suite.learning_rates import rates_in_words
from suite.mixer_alone import Coordinate, coordinates, mixer_subject_of
from suite.own_mixers import load_mixer
from suite.probes.probe import Probe
from suite.probes.registry import probe
from suite.schema import (
    FLOORS,
    MIXER_ALONE,
    QUALITY,
    About,
    Cell,
    ClaimSpec,
    DataSet,
    MetricSpec,
    MixerFacts,
    Plan,
    Resources,
    Trial,
)
from suite.spec import SCALES, SEEDS, TUNED, Ablation, Claim, Scale, SpecError
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
    if not isinstance(ablation, Ablation):
        raise SpecError(
            f"{reprlib.repr(ablation)} is no ablation; give one, its name, or the path of its file."
        )
    return Entry(name="own", ablation=ablation, note="", file=Path("ABLATION"))


def _expanded(entry: Entry, scale_name: str, seeds: int | None) -> Plan:
    entry = replace(entry, ablation=entry.ablation.at_scale(scale_name))
    scale = _scale(entry.ablation, scale_name)
    num_seeds = _num_seeds(scale, scale_name, seeds)
    baseline = Baseline(
        ablation=entry.ablation, scale=scale, knobs=with_defaults(entry.ablation, scale),
        scale_name=scale_name,
    )  # fmt: skip
    refuse_foreign_axes(baseline)
    _refuse_lone_floors(entry.ablation)
    reference, variants = variants_of(baseline)
    _refuse_too_many(entry.ablation, scale, variants, num_seeds)
    tables = {task: _table(baseline, variants, task) for task in entry.ablation.tasks}
    _refuse_impossible_baseline(reference, tables)
    _refuse_idle_axes(baseline, reference, variants, tables)
    sheets = _Sheets(baseline, reference, variants, tables)
    filled = tuple(_fill(sheets, num_seeds))
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
        raise SpecError(unknown_name("scale", str(name), SCALES))
    if name not in ablation.scales:
        raise SpecError(
            f"this ablation declares no scale {name!r}; it has {', '.join(ablation.scales)}."
        )
    return ablation.scales[name]


def _num_seeds(scale: Scale, scale_name: str, seeds: int | None) -> int:
    if seeds is not None and not (type(seeds) is int and 1 <= seeds <= 10_000):
        raise SpecError(f"seeds={reprlib.repr(seeds)} must lie between 1 and 10000.")
    return seeds or scale.seeds or SEEDS[scale_name]


def _refuse_too_many(
    ablation: Ablation, scale: Scale, variants: tuple[Variant, ...], num_seeds: int
) -> None:
    is_swept = any(probe(name).is_swept for name in ablation.probes)
    num_places = len(scale.lengths) + len(scale.dims) if is_swept else 0
    count = len(variants) * (len(ablation.tasks) + num_places) * num_seeds
    if count > MOST_TRIALS:
        places = f" and {num_places} places of a sweep" if num_places else ""
        raise SpecError(
            f"{len(variants)} variants x {len(ablation.tasks)} tasks{places} x {num_seeds} seeds "
            f"are {count} trials; at most {MOST_TRIALS} are allowed."
        )


def _refuse_lone_floors(ablation: Ablation) -> None:
    """Floors stand in the column of a score."""
    if FLOORS in ablation.probes and QUALITY not in ablation.probes:
        raise SpecError(f"probes: {FLOORS!r} stands beside a score; name {QUALITY!r} too.")


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


@dataclass(frozen=True)
class _Sheets:
    """The variants of an ablation, laid out as its probes meet them."""

    baseline: Baseline
    reference: Variant
    variants: tuple[Variant, ...]
    tables: Mapping[str, Table]

    @cached_property
    def of_tasks(self) -> tuple[Sheet, ...]:
        """In a model, on each task."""
        return tuple(
            Sheet(task=task, baseline=self.reference.label, table=table)
            for task, table in self.tables.items()
        )

    @cached_property
    def of_mixers(self) -> tuple[tuple[Coordinate, Sheet], ...]:
        """The mixers alone, at each coordinate."""
        return tuple(
            (place, Sheet(
                task=MIXER_ALONE, at=place.at, baseline=self.reference.label,
                table=self._alone(place),
            ))
            for place in coordinates(self.baseline.scale)
        )  # fmt: skip

    def of(self, probe: Probe) -> Iterator[Sheet]:
        """Those that the probe meets."""
        if not probe.is_swept:
            yield from self.of_tasks
            return
        for place, sheet in self.of_mixers:
            if probe.measures_at(place.length, is_along_lengths=place.is_along_lengths):
                yield sheet

    def _alone(self, coordinate: Coordinate) -> Table:
        table = {v.label: self._subject(v, coordinate) for v in self.variants}
        if all(isinstance(subject, Impossible) for subject in table.values()):
            reason = next(iter(table.values()))
            raise SpecError(f"no mixer can stand alone at {coordinate.at}: {reason}.")
        return table

    def _subject(self, variant: Variant, coordinate: Coordinate) -> Subject | Impossible:
        try:
            return mixer_subject_of(self.baseline, variant, coordinate)
        except Impossible as reason:
            return reason


def _fill(sheets: _Sheets, num_seeds: int) -> Iterator[tuple[Cell, Trial | None]]:
    for name in sheets.baseline.ablation.probes:
        for sheet in sheets.of(probe(name)):
            yield from filled_cells(probe(name), sheet, num_seeds)


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
    measuring = [c for c in cells if claim.metric in {m.name for m in c.metrics}]
    tasks = {cell.task for cell in measuring}
    if claim.task is not None and claim.task not in tasks:
        raise SpecError(f"the claim: {unknown_name('task', claim.task, tasks)}")
    _refuse_foreign_place(claim, [c for c in measuring if c.task == _task_of(claim, measuring)])


def _refuse_foreign_place(claim: Claim, cells: Sequence[Cell]) -> None:
    metrics = [m for cell in cells for m in cell.metrics if m.name == claim.metric]
    places = dict.fromkeys([*(cell.at for cell in cells), *(metric.at for metric in metrics)])
    if claim.at not in places:
        allowed = ", ".join(filter(None, places)) or "none, since nothing is swept there"
        raise SpecError(f"the claim: at={claim.at!r} is no coordinate of it; allowed: {allowed}.")


def _task_of(claim: Claim, measuring: Sequence[Cell]) -> str:
    """The claim's, or else the first one whose metric it is about."""
    return claim.task or measuring[0].task


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
    settings = _settings(baseline.scale, [trial for _, trial in filled if trial is not None])
    return About(
        ablation=entry.name, scale=scale_name, question=ablation.question,
        note=_paragraphs(entry.note),
        baseline=reference.label, variants=tuple(variant.label for variant in variants),
        tasks=tasks, probes=tuple(ablation.probes), num_seeds=num_seeds, settings=settings,
        model={
            "skeleton": model.skeleton, "mixer": model.mixer, "position": model.position,
            **({} if model.runtime == "eager" else {"runtime": model.runtime}), **baseline.knobs,
        },
        claim=_claim_spec(ablation.claim, cells), metrics=_metrics(cells),
        data_sets={task: _data_set(task) for task in tasks if task != MIXER_ALONE},
        subjects={variant.label: _facts(model.mixer, variant) for variant in variants},
        floors=_floors(cells), is_indicative=scale_name == "quick",
        regenerate=_command(entry, scale_name, num_seeds),
    )  # fmt: skip


def _floors(cells: list[Cell]) -> dict[str, tuple[str, ...]]:
    """Task -> the labels of its floors."""
    labels: dict[str, list[str]] = {}
    for cell in cells:
        if cell.probe == FLOORS:
            labels.setdefault(cell.task, []).append(cell.variant)
    return {task: tuple(found) for task, found in labels.items()}


def _settings(scale: Scale, trials: Sequence[Trial]) -> dict[str, Knob]:
    """What a report says of the scale; of tuned learning rates, which mixer got which."""
    settings = scale.settings()
    if scale.learning_rate == TUNED:
        settings["learning_rate"] = f"{TUNED}: {rates_in_words(trials)}"
    return settings


def _facts(of_baseline: str, variant: Variant) -> MixerFacts:
    name = str(variant.changes.get("mixer", of_baseline))
    mixer = load_mixer(name)
    return MixerFacts(mixer=name, **asdict(mixer.cost), is_proven=mixer.is_proven())


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
    """The claim with its task made plain."""
    if claim is None:
        return None
    measuring = [c for c in cells if claim.metric in {m.name for m in c.metrics}]
    return ClaimSpec(
        statement=claim.statement, metric=claim.metric, a=claim.a, b=claim.b, by=float(claim.by),
        source=claim.source, task=_task_of(claim, measuring), at=claim.at,
        published=claim.published,
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
