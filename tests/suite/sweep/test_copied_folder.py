"""Tests for output folders that were copied, moved, archived or linked."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bakeoff.suite.commands import ui
from bakeoff.suite.reporting.build import sweeps_in
from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.sweep.verify import differences
from bakeoff.suite.tracking.artifacts import files_in
from bakeoff.suite.tracking.location import Store, store_of
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.heads_sweep import HEADS
from tests.workplace import Workplace

pytestmark = [pytest.mark.usefixtures("plain_figures"), pytest.mark.whole]

WAYS: dict[str, Callable[[Path, Path], object]] = {
    "copied": shutil.copytree,
    "moved": Path.rename,
    "archived": lambda out, new: shutil.unpack_archive(
        shutil.make_archive(f"{new}", "tar", out), new
    ),
    "linked": lambda out, new: new.symlink_to(out),
}


def measured(work: Workplace, out: Path, *depths: int) -> None:
    file = work.ablation(probes=["parameters"], axis="depth", values=depths)
    assert run(file, options=Options(out=out, executor="inline")).error == ""


def homes(out: Path) -> set[Path]:
    """Return the folders that the store's artifact paths point to."""
    with closing(sqlite3.connect(out / "mlflow.db")) as db:
        paths = db.execute("SELECT artifact_uri FROM runs").fetchall()
    return {Path(path).parents[3] for (path,) in paths}


@pytest.mark.parametrize("way", WAYS)
def test_neither_folder_changes_the_other(
    work: Workplace, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, new = work.out, work.path / "elsewhere"
    measured(work, out, 1, 2)
    WAYS[way](out, new)
    if way == "copied":
        measured(work, out, 1, 2, 3)  # must not appear in the copy
        assert sweeps_in(store_of(new, None))["small"][0].about.variants == ("depth=1", "depth=2")
    before = files_in(out)
    measured(work, new, 1, 2, 4)
    assert (f"{new} was moved or copied from {out};" in capsys.readouterr().err) is (
        way != "linked"
    )
    assert homes(new) == {new.resolve()}
    assert differences(new, None).differences == ()
    if way in ("copied", "archived"):
        assert files_in(out) == before
        assert differences(out, None).differences == ()


def test_the_dashboard_shows_the_files_of_a_copy_and_a_shared_store_stays(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui, "serve", lambda *_, **__: None)
    uri, other = store_of(work.out, None).uri, work.path / "other"
    writer = RunWriter(Store(uri=uri, artifacts=other / "artifacts"))
    writer.open_sweep(HEADS.about)
    writer.publish(HEADS.key, {"results.parquet": b"of the other folder"})
    ui.show(None, work.out, None, port=5000)
    ui.show(None, other, uri, port=5000)
    assert homes(work.out) == {other}
    copy = Path(shutil.copytree(other, work.path / "copy"))
    shutil.copy(work.out / "mlflow.db", copy)
    ui.show(None, copy, None, port=5000)
    assert homes(copy) == {copy}
