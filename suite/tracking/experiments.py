"""Choose the experiment of an ablation in a store that other folders and users may share.

Our experiments are identified by their tags, not by their names. All runs of a shipped ablation are
recorded in one experiment. Files of different users may have the same name and ask different
questions: so an experiment lists the files that were recorded in it, and only runs of these files
are added to it.
"""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bakeoff.suite.journal.editions import SHOWN_DIGITS
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalError, journal_in
from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import redact
from bakeoff.suite.tracking.client import MlflowStore, StoreUnavailable, UnusableStore
from bakeoff.suite.tracking.location import Store
from bakeoff.suite.tracking.run_fields import Key
from bakeoff.suite.tracking.shared_views import EDITION_SHA256_TAG

ABLATION_TAG = "bakeoff.ablation"
# Digits of the hashes of users' files; empty for a shipped ablation.
SOURCES_TAG = "bakeoff.sources"
_MOST_OF_ONE_NAME = 1_000  # experiments for ablations of one name
_MOST_SOURCES = 300  # MLflow accepts 5,000 characters
_NO_SOURCE = ""  # in place of the hash, for an ablation without a user's file


class TrashedExperiment(StoreUnavailable):
    """Raised if the experiment was deleted in the dashboard; one sentence."""


@dataclass(frozen=True, kw_only=True)
class OutputFolder:
    """The data by which an output folder finds its experiments again.

    Attributes:
        artifacts: The folder for the artifacts of a local store.
        sources: Ablation -> hashes of the user's files that were run here; empty strings for a
            shipped ablation.
        editions: Ablation -> hashes of its editions, which identify it in stores of older versions.
    """

    artifacts: Path | None = None
    sources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    editions: Mapping[str, frozenset[str]] = field(default_factory=dict)


ANY_FOLDER = OutputFolder()


def folder_of(store: Store, planned: Iterable[tuple[Key, str]] = ()) -> OutputFolder:
    """Return the data that identify the folder's experiments, from its journal and from `planned`.

    Args:
        store: The store, with its output folder; without the folder, no source is known.
        planned: Sweeps that are about to run, each with the hash of the user's files.
    """
    sources: dict[str, set[str]] = {}
    editions: dict[str, set[str]] = {}
    for (name, _), sha256 in planned:
        sources.setdefault(name, set()).add(sha256)
    if store.out is not None and journal_in(store.out).is_file():
        with suppress(JournalError), Journal(journal_in(store.out), read_only=True) as journal:
            for name, edition, source in journal.edition_hashes():
                sources.setdefault(name, set()).add(source)
                editions.setdefault(name, set()).add(edition[:SHOWN_DIGITS])
    return OutputFolder(
        artifacts=store.artifacts.resolve() if store.artifacts is not None else None,
        sources={
            name: frozenset(s[:SHOWN_DIGITS] for s in found) for name, found in sources.items()
        },
        editions={name: frozenset(found) for name, found in editions.items()},
    )


def own_experiment(
    store: MlflowStore, folder: OutputFolder, ablation: str, experiments: Sequence[Any]
) -> Any | None:
    """Return the folder's experiment of the ablation, or None if there is none.

    Args:
        store: The store.
        folder: The output folder.
        ablation: The name of the ablation.
        experiments: The result of `MlflowStore.ablations`.

    Raises:
        TrashedExperiment: If the experiment is in the trash.
        SpecError: If several experiments match, and the folder has run none of them.
    """
    named = [each for each in experiments if each.tags[ABLATION_TAG] == ablation]
    active = [each for each in named if each.lifecycle_stage == "active"]
    found = _chosen(store, folder, ablation, active)
    trashed = [each for each in named if each not in active]
    if found is None and (lost := _chosen(store, folder, ablation, trashed)) is not None:
        uri = shlex.quote(redact(store.uri))
        raise TrashedExperiment(
            f"The experiment {lost.name!r} with the results of {ablation!r} is in the trash of the "
            f"MLflow store; `MLFLOW_TRACKING_URI={uri} mlflow experiments restore --experiment-id "
            f"{lost.experiment_id}` brings it back, or give another --tracking-uri."
        )
    return found


def readable_experiments(
    store: MlflowStore, folder: OutputFolder, asked: Collection[str] = ()
) -> dict[str, Any]:
    """Return the folder's experiment of each ablation, by the ablation's name.

    Raises:
        TrashedExperiment, SpecError: In the same cases as `own_experiment`, for the ablations in
            `asked`; other ablations are left out.
    """
    experiments, found = store.ablations(), {}
    for ablation in sorted({each.tags[ABLATION_TAG] for each in experiments}):
        try:
            own = own_experiment(store, folder, ablation, experiments)
        except (TrashedExperiment, SpecError):
            if ablation in asked:
                raise
            continue
        if own is not None:
            found[ablation] = own
        elif ablation in asked:
            raise SpecError(
                f"nothing of this folder's {ablation!r} is recorded yet; the results in the store "
                "under that name are from another file."
            )
    return found


def sources_tag(folder: OutputFolder, ablation: str, held: str = "") -> dict[str, str]:
    """Return the tag that lists the files recorded in an experiment; `held` is its old value."""
    known = folder.sources.get(ablation, frozenset()) - {_NO_SOURCE}
    listed = dict.fromkeys([*held.split(), *sorted(known)])
    return {SOURCES_TAG: " ".join([*listed][-_MOST_SOURCES:])} if listed else {}


def free_name(store: MlflowStore, ablation: str) -> str:
    """Return a name that no experiment has, including those of others and those in the trash.

    Raises:
        UnusableStore: If the store returns an experiment of another name, which no MLflow does.
    """
    for name in _names(ablation):
        found = store.client.get_experiment_by_name(name)
        if found is None:
            return name
        if found.name != name:
            break
    raise UnusableStore(
        f"The MLflow store {redact(store.uri)} cannot be used: it accepts no name for a new "
        f"experiment of {ablation!r}; is it an MLflow server?"
    )


def _names(ablation: str) -> Iterator[str]:
    yield ablation
    with suppress(KeyError, OSError):  # a user id without an entry in passwd
        yield f"{ablation} ({getpass.getuser()})"
    yield from (f"{ablation} ({number})" for number in range(2, _MOST_OF_ONE_NAME))


def _chosen(
    store: MlflowStore, folder: OutputFolder, ablation: str, experiments: Sequence[Any]
) -> Any | None:
    """Return the experiment that lists a file of the folder, or else one that the folder made."""
    sources = folder.sources.get(ablation, frozenset())
    by_name = sorted(experiments, key=lambda each: each.name != ablation)
    listed = [each for each in by_name if _sources_in(each) & sources]
    kept_here = [each for each in by_name if _is_kept_in(folder, each)]
    unlisted = [each for each in by_name if not _sources_in(each)]
    if not sources and not kept_here and not unlisted and len(experiments) > 1:
        names = ", ".join(repr(each.name) for each in experiments)
        raise SpecError(
            f"several ablations named {ablation!r} are recorded in the store, of different files "
            f"({names}); give --out a folder in which yours was run."
        )
    if sources and _NO_SOURCE not in sources:  # older versions did not list files
        unlisted = _of_editions(store, unlisted, folder.editions.get(ablation, frozenset()))
    others = experiments if not sources else ()
    return next(iter([*listed, *kept_here, *unlisted, *others]), None)


def _sources_in(experiment: Any) -> frozenset[str]:
    return frozenset(experiment.tags.get(SOURCES_TAG, "").split())


def _is_kept_in(folder: OutputFolder, experiment: Any) -> bool:
    location = Path(experiment.artifact_location)
    return folder.artifacts is not None and location.is_relative_to(folder.artifacts)


def _of_editions(
    store: MlflowStore, experiments: Sequence[Any], editions: frozenset[str]
) -> list[Any]:
    parents = store.parents([each.experiment_id for each in experiments])
    ids = {
        run.info.experiment_id
        for run in parents
        if run.data.tags.get(EDITION_SHA256_TAG, "")[:SHOWN_DIGITS] in editions
    }
    return [each for each in experiments if each.experiment_id in ids]
