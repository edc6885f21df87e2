"""Convert trials and results to MLflow's names, parameters, tags and metric rows. No I/O.

MLflow would store infinity as 1.8e308, and keep two points that differ only in their time stamp. So
non-finite numbers become tags, and time stamps are derived from the steps. The time of all rows
here counts from the start of the run.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from bakeoff.models.model_spec import ModelSpec
from bakeoff.suite.schema import (
    FAILURES,
    About,
    Cell,
    ClaimSpec,
    Measurement,
    Point,
    Result,
    Status,
    Trial,
)
from bakeoff.suite.text import redact
from bakeoff.suite.tracking.artifacts import sample_files
from bakeoff.suite.tracking.client import (
    CONTENT_TAG,
    PARAM_LIMIT,
    TAG_LIMIT,
    MetricRow,
    RunContent,
    entity_key,
    shortened,
)
from bakeoff.suite.tracking.shared_views import (
    EDITION_TAG,
    VARIANT_SHA256_TAG,
    comparison_page,
    edition_tags,
    judged_metric,
    report_page,
)

RESULT_SHA256_TAG = "bakeoff.result_sha256"
MARKS_OF_COMPLETE = frozenset({CONTENT_TAG, RESULT_SHA256_TAG, VARIANT_SHA256_TAG})
VARIANT_TAG = "bakeoff.variant"  # the variants that a trial measures
AXES_TAG = "bakeoff.axes"  # the names of the axes
DESCRIPTION_TAG = "mlflow.note.content"
NAME_TAG = "mlflow.runName"
# Hashes of the name and the note that we wrote last; another name or note was written by a person.
WRITTEN_TAGS = {NAME_TAG: "bakeoff.written_name", DESCRIPTION_TAG: "bakeoff.written_note"}
VERDICT_TAG = "bakeoff.verdict"  # a word, on the parent
FINDING_TAG = "bakeoff.finding"  # the verdict as a sentence

Key = tuple[str, str]  # (ablation, scale)

_ROWS_IN_DESCRIPTION = 40
_FORMAT = 1  # version of the content of a trial's run; a change rewrites all runs


def trial_sha256(
    key: Key, trial: Trial, cells: Sequence[Cell], axes: Sequence[str], result_sha256: str
) -> str:
    """Return the hash of everything that determines the content of a trial's run."""
    tags, params = trial_tags(key, trial, cells, axes), trial_params(trial, cells, axes)
    content = json.dumps([_FORMAT, tags, params, result_sha256], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def trial_content(
    key: Key, trial: Trial, cells: Sequence[Cell], axes: Sequence[str], result: Result
) -> RunContent:
    """Return the content of the run of a trial with this result."""
    tags = trial_tags(key, trial, cells, axes) | result_tags(trial, cells, result)
    tags, long_tags = shortened(tags, TAG_LIMIT, "long_tags.json")
    params, long_params = shortened(
        trial_params(trial, cells, axes), PARAM_LIMIT, "long_params.json"
    )
    texts = {
        "long_tags.json": long_tags,
        "long_params.json": long_params,
        "traceback.txt": redact(result.traceback),
        "output.txt": redact(result.output),
    }
    files = {name: text.encode(errors="replace") for name, text in texts.items() if text}
    return RunContent(
        sha256=trial_sha256(key, trial, cells, axes, result.sha256),
        place=("trial", trial.trial_id, result.provenance.environment_id),
        tags=tags,
        params=params,
        rows=tuple(result_rows(trial, cells, result)),
        files=sample_files(result) | files,
        status="FAILED" if result.status in FAILURES else "FINISHED",
        may_have_more=result.status is not Status.OK,
    )


def marked(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags, preceded by the hashes of the name and the note if they are given."""
    given = {WRITTEN_TAGS[name]: _digest(tags[name]) for name in WRITTEN_TAGS if name in tags}
    return {**given, **tags}


def added_by_people(tags: Mapping[str, str]) -> dict[str, str]:
    """Return what people added to one of our runs: tags, and a name or note that is not ours.

    Names and notes of a run without such hashes were written by older versions, and count as ours.
    """
    is_marked = any(mark in tags for mark in WRITTEN_TAGS.values())
    found = {k: v for k, v in tags.items() if not k.startswith(("bakeoff.", "mlflow."))}
    for name, mark in WRITTEN_TAGS.items():
        if is_marked and tags.get(name) and _digest(tags[name]) != tags.get(mark):
            found[name] = tags[name]
    return found


def kept_for_people(held: Mapping[str, str], ours: Mapping[str, str]) -> set[str]:
    """Return those of our names and notes, with their marks, that must not overwrite `held`.

    Older versions left no marks: their notes are recognized by how they begin.
    """
    changed, kept = added_by_people(held), set[str]()
    for name, mark in WRITTEN_TAGS.items():
        is_old = bool(held.get(name)) and mark not in held and held[name] != ours.get(name)
        if name in changed or (is_old and not held[name].startswith("**")):
            kept |= {name, mark}
    return kept


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def trial_name(trial: Trial, cells: Sequence[Cell]) -> str:
    """Return ``heads=4 · shakespeare_characters · seed 1``; other probes name themselves first."""
    labels = _labels(trial, cells)
    if not trial.subjects:
        return f"{trial.probe} · {trial.task_label} · length {trial.length}"
    what = labels[0] if len(labels) == 1 else f"{len(labels)} variants"
    if trial.probe == "quality":
        return f"{what} · {trial.task_label} · seed {trial.seed}"
    where = next(
        (cell.at for cell in cells if cell.at), f"{trial.task_label} · length {trial.length}"
    )
    return f"{trial.probe} · {what} · {where} · process {trial.seed}"


def trial_tags(
    key: Key, trial: Trial, cells: Sequence[Cell], axes: Sequence[str] = ()
) -> dict[str, str]:
    """Return the tags that identify a trial, before it has a result."""
    return {
        NAME_TAG: trial_name(trial, cells),
        "bakeoff.role": "trial",
        "bakeoff.ablation": key[0],
        "bakeoff.scale": key[1],
        "bakeoff.trial_id": trial.trial_id,
        "bakeoff.probe": trial.probe,
        "bakeoff.task": trial.task_label,
        VARIANT_TAG: variant_of(trial, cells),
        "bakeoff.seed": str(trial.seed),
        **({AXES_TAG: ", ".join(axes)} if axes else {}),  # some servers reject an empty tag
    }


def variant_of(trial: Trial, cells: Sequence[Cell]) -> str:
    """Return the variants of a trial; they change when the plan gains an axis, for example."""
    return " | ".join(_labels(trial, cells))


def trial_params(trial: Trial, cells: Sequence[Cell], axes: Sequence[str] = ()) -> dict[str, str]:
    """Return everything that determines the trial's number, flat; for models the common fields.

    Axes also have a parameter of their own name (``heads`` besides ``mixer.heads``), for the
    baseline and every variant, so that tables and charts can be sorted and grouped by it. Other
    fields of the recipe are left out at their default.
    """
    params: dict[str, object] = {
        "variant": variant_of(trial, cells),
        "probe": trial.probe,
        "task": trial.task_label,
        "seed": trial.seed,
        "length": trial.length,
        "batch": trial.batch,
    }
    recipe: dict[str, object] = {}
    if trial.training is not None:
        recipe = {
            **asdict(trial.training),
            "start": trial.start.task_label if trial.start else "none",
        }
        told = {**trial.training.hashed, "label_smoothing": trial.training.label_smoothing}
        params |= {f"training.{name}": value for name, value in told.items()}
    if trial.precision != Trial.precision:
        params["precision"] = trial.precision
    if trial.parallel is not None:
        params |= {f"parallel.{name}": value for name, value in asdict(trial.parallel).items()}
    if trial.start is not None:
        params |= {"start": trial.start.task_label, "start_trial": trial.start.trial_id}
    if trial.teacher is not None:
        params["teacher_trial"] = trial.teacher.trial_id
    params |= _shared(trial.subjects)
    by_field = recipe | {name.rpartition(".")[2]: value for name, value in params.items()}
    params = {axis: by_field[axis] for axis in axes if axis in by_field} | params
    return {entity_key(name): str(value) for name, value in params.items()}


def result_tags(trial: Trial, cells: Sequence[Cell], result: Result) -> dict[str, str]:
    """Return status, place and non-finite numbers of a result as tags; its hash comes last.

    The name starts with the status, because MLflow's own status is FINISHED for a diverged trial.
    """
    is_noisy = any(each.status is Status.NOISY for each in result.measurements)
    fate = (Status.NOISY if is_noisy else "") if result.status is Status.OK else result.status
    tags = {
        **({NAME_TAG: f"{fate}: {trial_name(trial, cells)}"} if fate else {}),
        "bakeoff.status": result.status.value,
        "bakeoff.environment_id": result.provenance.environment_id,
        "bakeoff.device": result.provenance.device,
        "mlflow.source.name": "bakeoff",
        "mlflow.source.git.commit": result.provenance.commit,
        DESCRIPTION_TAG: trial_description(trial, cells, result),
    }
    tags |= {"bakeoff.reason": redact(result.reason)} if result.reason else {}
    labels = _labels(trial, cells)
    for measurement in result.measurements:
        name = _measurement_key(measurement, labels)
        if measurement.status is not Status.OK:
            said = f"{measurement.status.value}: {redact(measurement.reason)}".rstrip(": ")
            tags[f"bakeoff.status.{name}"] = said
        if measurement.value is not None and not math.isfinite(measurement.value):
            tags[f"bakeoff.not_finite.{name}"] = str(measurement.value)
    tags |= not_finite_tags(result.points)
    return {**tags, RESULT_SHA256_TAG: result.sha256}


def not_finite_tags(points: Iterable[Point]) -> dict[str, str]:
    """Return a tag for each curve with non-finite numbers, which gives the first such step."""
    tags: dict[str, str] = {}
    for point in points:
        if not math.isfinite(point.value):
            name = f"bakeoff.not_finite.{entity_key(point.metric)}"
            tags.setdefault(name, f"{point.value} from step {point.step}")
    return tags


def result_rows(trial: Trial, cells: Sequence[Cell], result: Result) -> list[MetricRow]:
    """Return curves under their own names, ``final/`` and ``best/`` of each, and measurements.

    A measurement with the name of a curve gets the prefix ``final/``, so that MLflow does not
    append it to the curve.
    """
    labels = _labels(trial, cells)
    rows = _summary_rows(result.points)
    curves = {entity_key(point.metric) for point in result.points}
    for measurement in result.measurements:
        if measurement.value is not None and math.isfinite(measurement.value):
            name = _measurement_key(measurement, labels)
            name = f"final/{name}" if name in curves else name
            rows[name] = MetricRow(name, float(measurement.value), 0, 0)
    taken = {"trial_seconds": result.seconds, "trial_joules": result.joules}
    for name, value in taken.items():
        if value is not None:
            rows[name] = MetricRow(name, float(value), 0, 0)
    return [*point_rows(result.points), *rows.values()]


def point_rows(points: Iterable[Point]) -> list[MetricRow]:
    """Return the finite points of a curve; the time stamp of each is its step."""
    return [
        MetricRow(entity_key(point.metric), float(point.value), point.step, point.step)
        for point in points
        if math.isfinite(point.value)
    ]


def trial_description(trial: Trial, cells: Sequence[Cell], result: Result) -> str:
    """Return a description of the trial, and its numbers with their units, as Markdown."""
    labels = _labels(trial, cells)
    head = f"**{result.status.value}** after {result.seconds:.1f} s on {result.provenance.device}"
    lines = [_text(_in_words(trial, labels)), "", f"{_text(head)}.", ""]
    if result.reason:
        lines += [_text(redact(result.reason))[:1000], ""]
    if result.measurements:
        lines += ["| variant | metric | value | unit | status |", "| --- | --- | --- | --- | --- |"]
    lines += [_line(measurement, labels) for measurement in result.measurements]
    left_out = len(result.measurements) - _ROWS_IN_DESCRIPTION
    if left_out > 0:
        lines = [*lines[:-left_out], "", f"{left_out} more are in the sweep's `results.parquet`."]
    return "\n".join(lines)


def sweep_tags(about: About) -> dict[str, str]:
    """Return the tags that identify the parent of an ablation at one scale."""
    return {
        NAME_TAG: f"{about.ablation} · {about.scale}",
        "mlflow.source.name": "bakeoff",
        "bakeoff.role": "sweep",
        "bakeoff.ablation": about.ablation,
        "bakeoff.scale": about.scale,
        **edition_tags(about),
    }


def sweep_description(
    about: About, experiment_id: str, run_id: str, *, has_report: bool, finding: str
) -> str:
    """Return the parent's note as Markdown: question, claim, verdict, and links to its pages.

    `finding` is the verdict in a sentence; empty if there is none yet.
    """
    pages = {"The report": report_page(experiment_id, run_id)} if has_report else {}
    if judged_metric(about):
        pages["The variants side by side"] = comparison_page(experiment_id, about.scale)
    pages["The trials"] = comparison_page(experiment_id, about.scale, has_variants=False)
    links = " · ".join(f"[{title}]({page})" for title, page in pages.items())
    number = about.edition
    earlier = "edition 1 stays" if number == 2 else f"editions 1 to {number - 1} stay"
    parts = [  # MLflow shows three lines of it, the last one faded; the rest is collapsed
        f"**{_text(about.question)}** {links}",
        f"Verdict: {_text(finding or 'none yet')}" if about.claim else "",
        _text(_claim(about.claim)) if about.claim else "",
        f"This is edition {number}; what belonged to {earlier} under its number, in the tag "
        f"`{EDITION_TAG}`."
        if number > 1
        else "",
        f"Again: `{about.regenerate}`",
        _text(about.note, keep_lines=True),
    ]
    return "\n\n".join(part for part in parts if part)


def _claim(claim: ClaimSpec) -> str:
    published = f"published: {claim.published}" if claim.published else ""
    origin = "; ".join(filter(None, (claim.source, published)))
    return f"Claim: {claim.statement}{f' ({origin})' if origin else ''}"


def _in_words(trial: Trial, labels: Sequence[str]) -> str:
    """Return ``quality of heads=8 on TASK, trained for 300 steps of 32 x 128 tokens, seed 0.``."""
    variants = labels[0] if len(labels) == 1 else f"{len(labels)} variants ({', '.join(labels)})"
    if not trial.subjects:
        return f"{trial.probe} of {trial.task_label} at {trial.length} tokens: {', '.join(labels)}."
    size = f"{trial.batch} x {trial.length} tokens"
    if trial.training is None:
        return f"{trial.probe} of {variants}, on {trial.task_label}: {size}, process {trial.seed}."
    time = "the time of " if trial.pace else ""
    steps = f"trained for {time}{trial.training.steps} steps of {size}"
    return f"{trial.probe} of {variants} on {trial.task_label}, {steps}, seed {trial.seed}."


def _labels(trial: Trial, cells: Sequence[Cell]) -> list[str]:
    """Return the variant of each subject, in order; without subjects, that of each row."""
    by_subject = {cell.subject: cell.variant for cell in cells if cell.trial_id == trial.trial_id}
    if not trial.subjects:
        return [by_subject[index] for index in sorted(by_subject)]
    return [by_subject.get(index, f"subject {index}") for index in range(len(trial.subjects))]


def _measurement_key(measurement: Measurement, labels: Sequence[str]) -> str:
    label = labels[measurement.subject] if len(labels) > 1 else ""
    return entity_key("/".join(filter(None, (measurement.metric, label, measurement.at))))


def _shared(subjects: Sequence[ModelSpec]) -> dict[str, object]:
    """Return the fields of model, architecture and mixer in which all subjects agree."""
    flat = [_flat(subject) for subject in subjects]
    return {
        name: value
        for name, value in (flat[0] if flat else {}).items()
        if all(name in other and other[name] == value for other in flat)
    }


def _flat(subject: ModelSpec) -> dict[str, object]:
    fields = asdict(subject)
    parts = {"mixer": fields.pop("knobs"), "architecture": fields.pop("settings"), "model": fields}
    return {
        f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()
    }


def _summary_rows(points: Sequence[Point]) -> dict[str, MetricRow]:
    curves: dict[str, list[Point]] = {}
    for point in points:
        if math.isfinite(point.value):
            curves.setdefault(entity_key(point.metric), []).append(point)
    rows: dict[str, MetricRow] = {}
    for name, curve in curves.items():
        chosen = {"final": max(curve, key=lambda point: point.step)}
        if curve[0].better != "none":
            pick = max if curve[0].better == "higher" else min
            chosen["best"] = pick(curve, key=lambda point: point.value)
        for word, point in chosen.items():
            key = f"{word}/{name}"
            rows[key] = MetricRow(key, float(point.value), 0, 0)
    return rows


def _line(measurement: Measurement, labels: Sequence[str]) -> str:
    value = "" if measurement.value is None else f"{measurement.value:.6g}"
    if measurement.spread_low is not None and measurement.spread_high is not None:
        value += f" ({measurement.spread_low:.6g} to {measurement.spread_high:.6g})"
    metric = " ".join(filter(None, (measurement.metric, measurement.at)))
    cells = (labels[measurement.subject], metric, value, measurement.unit, measurement.status.value)
    return "| " + " | ".join(_text(cell).replace("|", "\\|") for cell in cells) + " |"


def _text(text: str, *, keep_lines: bool = False) -> str:
    """Return the text escaped, so that Markdown and HTML show tags literally."""
    return html.escape(text if keep_lines else " ".join(text.split()), quote=False)
