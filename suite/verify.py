"""`bakeoff verify`: journal, MLflow and report agree; nothing is lost, nothing is there twice."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reports.render import render
from suite.answers import sweeps_in
from suite.frames import sweep_files
from suite.journal import Journal, journal_in
from suite.lock import FolderUnavailable, is_held
from suite.record import children, load_artifacts
from suite.rows import by_trial
from suite.schema import Plan
from suite.spec import SpecError
from suite.store import Store, existing_store_of


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was compared, and where it differs: a sentence each."""

    differences: tuple[str, ...]
    summary: str


def differences(out: Path, tracking_uri: str | None) -> Comparison:
    """Hold the store and the reports against the journal of the folder.

    Raises:
        SpecError: if nothing was run in the folder yet.
        StoreUnavailable: if the store cannot be reached.
    """
    path = journal_in(out)
    if not path.is_file():
        raise SpecError(f"--out {out}: nothing was run here yet; `bakeoff run` does that.")
    store = existing_store_of(out, tracking_uri)
    if is_held(out):
        raise FolderUnavailable(f"--out {out}: a run is under way; wait for its end.")
    with Journal(path, read_only=True) as journal:
        plans = journal.plans()
        found = [line for plan in plans for line in _of_sweep(plan, journal, store)]
    found += [line for name in _names(plans) for line in _of_report(name, store, out / "reports")]
    num_trials = len({trial.trial_id for plan in plans for trial in plan.trials})
    state = f"{len(found)} differences" if found else "journal, store and reports agree"
    return Comparison(
        differences=tuple(found),
        summary=f"{num_trials} trials of {', '.join(_names(plans))}: {state}",
    )


def _names(plans: list[Plan]) -> list[str]:
    return list(dict.fromkeys(plan.about.ablation for plan in plans))


def _of_sweep(plan: Plan, journal: Journal, store: Store) -> Iterator[str]:
    """The journal's results against the children of the parent, and against its artifacts."""
    where = f"{plan.about.ablation}, {plan.about.scale}"
    kept = {
        (result.trial_id, result.provenance.environment_id): result.sha256
        for result in journal.results(trial.trial_id for trial in plan.trials)
    }
    held = {(entry.trial_id, entry.environment_id) for entry in journal.entries()}
    recorded = [c for c in children(store.uri, *plan.key) if c.is_complete]
    shown = Counter((child.trial_id, child.environment_id) for child in recorded)
    hashes = {(child.trial_id, child.environment_id): child.result_sha256 for child in recorded}
    for key, sha256 in kept.items():
        if key not in shown:
            yield f"{where}: trial {key[0]} is in the journal, not in the store."
        elif hashes[key] != sha256:
            yield f"{where}: trial {key[0]} differs between journal and store."
    for key, number in shown.items():
        if number > 1:
            yield f"{where}: trial {key[0]} is in the store {number} times."
        if key not in kept and key not in held:
            yield f"{where}: trial {key[0]} is in the store, not in the journal."
    yield from _of_artifacts(plan, journal, store, where)


def _of_artifacts(plan: Plan, journal: Journal, store: Store, where: str) -> Iterator[str]:
    wanted = sweep_files(plan, by_trial(journal.results(t.trial_id for t in plan.trials)))
    with tempfile.TemporaryDirectory() as folder:
        held = dict(load_artifacts(store.uri, plan.about.ablation, Path(folder)))
        home = held.get(plan.about.scale)
        for name, body in wanted.items():
            if home is None or not (home / name).is_file():
                yield f"{where}: the parent in the store has no {name}."
            elif _sha256((home / name).read_bytes()) != _sha256(body):
                yield f"{where}: {name} of the store is not what the journal gives."


def _of_report(name: str, store: Store, folder: Path) -> Iterator[str]:
    """The report on disk against one made now."""
    if not (folder / name / "index.html").is_file():
        yield f"{name}: there is no report; `bakeoff report {name}` makes it."
        return
    with tempfile.TemporaryDirectory() as fresh:
        render(name, sweeps_in(store, name), Path(fresh))
        file = Path(name) / "results.csv"
        if (Path(fresh) / file).read_bytes() != (folder / file).read_bytes():
            yield f"{name}: results.csv is not what the store gives; `bakeoff report {name}`."


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
