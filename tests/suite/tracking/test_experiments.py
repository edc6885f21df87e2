"""Tests for the experiment that belongs to a folder, among others with the same name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bakeoff.suite.spec import SpecError
from bakeoff.suite.tracking.experiments import (
    ABLATION_TAG,
    SOURCES_TAG,
    OutputFolder,
    TrashedExperiment,
    own_experiment,
    sources_tag,
)

A, B = "a" * 12, "b" * 12


def experiment(
    name: str, sources: str = "", location: str = "mlflow-artifacts:/1", stage: str = "active"
) -> Any:
    tags = {ABLATION_TAG: "exp", **({SOURCES_TAG: sources} if sources else {})}
    return SimpleNamespace(
        name=name, experiment_id=name, tags=tags, artifact_location=location, lifecycle_stage=stage
    )


def chosen(folder: OutputFolder, *experiments: Any, edition: str = "") -> str | None:
    """Return the name of the folder's experiment; `edition` is a tag of an older version."""
    run = SimpleNamespace(
        info=SimpleNamespace(experiment_id="old"),
        data=SimpleNamespace(tags={"bakeoff.edition_sha256": edition}),
    )
    store: Any = SimpleNamespace(uri="http://team", parents=lambda ids: [run] if ids else [])
    found = own_experiment(store, folder, "exp", experiments)
    return None if found is None else str(found.name)


def folder(*sources: str, edition: str = "", artifacts: Path | None = None) -> OutputFolder:
    return OutputFolder(
        artifacts=artifacts,
        sources={"exp": frozenset(sources)} if sources else {},
        editions={"exp": frozenset({edition})} if edition else {},
    )


def test_an_own_file_finds_the_experiment_that_lists_it_whatever_its_name() -> None:
    of_a, of_b = experiment("final", f"{A} {'c' * 12}"), experiment("exp", B)
    assert chosen(folder(A), of_a, of_b) == "final"
    assert chosen(folder("d" * 12, "c" * 12), of_b, of_a) == "final"  # the file was edited since
    assert chosen(folder(B), of_a, of_b) == "exp"
    assert chosen(folder("d" * 12), of_a, of_b) is None
    assert chosen(folder(""), of_a, of_b) is None  # for example an ablation defined in Python


def test_without_a_journal_a_folder_knows_what_has_its_artifacts_there() -> None:
    here = Path("/home/ada/out/artifacts")
    of_a, of_b = experiment("exp", A, f"{here}/exp"), experiment("exp (bob)", B, "/home/bob/exp")
    assert chosen(folder(artifacts=here), of_b, of_a) == "exp"
    assert chosen(folder("d" * 12, artifacts=here), of_b, of_a) == "exp"


def test_a_shipped_ablation_is_shared_by_all_who_run_it() -> None:
    assert chosen(folder(""), experiment("renamed")) == "renamed"
    assert chosen(folder(""), experiment("renamed"), experiment("exp")) == "exp"
    assert chosen(folder(), experiment("renamed")) == "renamed"
    assert sources_tag(folder(""), "exp") == {}


def test_a_store_of_an_older_version_is_known_by_its_edition() -> None:
    assert chosen(folder(A, edition="e" * 12), experiment("old"), edition="e" * 12) == "old"
    assert chosen(folder(A, edition="f" * 12), experiment("old"), edition="e" * 12) is None


def test_a_reader_that_has_run_nothing_reads_the_only_one_and_chooses_among_none() -> None:
    assert chosen(folder(), experiment("exp", A)) == "exp"
    with pytest.raises(SpecError, match="several ablations named 'exp'"):
        chosen(folder(), experiment("exp", A), experiment("exp (bob)", B))


def test_one_in_the_trash_is_said_unless_another_goes_on() -> None:
    deleted = experiment("exp", A, stage="deleted")
    with pytest.raises(TrashedExperiment, match="experiments restore --experiment-id exp"):
        chosen(folder(A), deleted)
    assert chosen(folder(A), deleted, experiment("new", A)) == "new"
    assert chosen(folder(B), deleted) is None


def test_the_files_are_listed_once() -> None:
    assert sources_tag(folder(A, B, ""), "exp", held=f"{B} {'c' * 12}") == {
        SOURCES_TAG: f"{B} {'c' * 12} {A}"
    }
