"""Check that the newest complete checkpoint is used, with a message, whatever is damaged."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakeoff.models import build_model
from bakeoff.suite.events import Checkpoints
from bakeoff.suite.schema import Trial
from bakeoff.suite.stopping import TrainingStopped, ask
from bakeoff.suite.training import loop as resume
from bakeoff.suite.training import tensor_io as atomic_files
from bakeoff.suite.training.checkpoint import (
    MANIFEST,
    VERSION,
    Checkpointer,
    FoundCheckpoint,
    checkpointer_for,
    remove,
    saved_step,
    why_invalid,
    write_manifest,
)
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import TrainingProgress
from tests.suite.toy import training
from tests.suite.training.faulty_disk import ERRORS, Failing, Tape, restore, watch
from tests.suite.training.resumed import (
    ATTENTION,
    STEPS,
    STOP,
    TRIAL,
    Clock,
    Said,
    checkpointer_in,
    run,
    stopped,
)

OTHER_TRIAL = "5c" * 16
ANEW = "it has no other checkpoint and starts from the beginning"


EARLIER = b"""{"manifest": {
 "files": {
  "a": {
   "num_bytes": 5,
   "sha256": "4ba69735ca53765ed6a709edb56c6ea236b7193a3b29a6b390c346f0f4340e4e"
  }
 },
 "step": 7,
 "trial_id": "7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a",
 "version": 1
},
"sha256": "cb79286fa8cc64e9340277a08912dbb27f72afafc37d40cfb7a877d1e004a32a"}
"""


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture(scope="module")
def undisturbed() -> Said:
    torch.set_num_threads(1)
    return run(ATTENTION, None)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two generations of a training that was stopped."""
    folder = tmp_path_factory.mktemp("kept")
    torch.set_num_threads(1)
    stopped(folder)
    return folder


@pytest.fixture
def damaged(kept: Path, tmp_path: Path) -> Path:
    """Return a copy of the checkpoints for a test to damage."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return tmp_path


def newest(folder: Path) -> Path:
    return folder / TRIAL / "generation-000002"


def files(folder: Path) -> list[Path]:
    return sorted(newest(folder).iterdir())


def found_in(folder: Path) -> FoundCheckpoint:
    return checkpointer_in(folder, Clock()).latest()


def assert_previous_is_used(folder: Path) -> None:
    found = found_in(folder)
    assert found.generation == 1
    assert found.folder == folder / TRIAL / "generation-000001"
    assert len(found.remarks) == 1
    assert found.remarks[0].startswith("its checkpoint 2 is skipped: ")


def test_the_newest_is_found_and_nothing_is_said(kept: Path) -> None:
    found = found_in(kept)
    assert (found.generation, found.folder, found.remarks) == (2, newest(kept), ())
    assert len(files(kept)) == 8
    assert not any(b"pickle" in file.read_bytes() for file in files(kept))


def flipped(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


@pytest.mark.parametrize("number", range(100))
def test_a_flipped_bit_is_seen(number: int, damaged: Path) -> None:
    """Flip a bit in any file, each with equal probability."""
    chance = random.Random(number)
    file = chance.choice(files(damaged))
    flipped(file, chance.randrange(8 * file.stat().st_size))
    assert_previous_is_used(damaged)


def test_a_flipped_bit_in_a_third_of_the_bytes_of_the_manifest_is_seen(damaged: Path) -> None:
    whole = (newest(damaged) / MANIFEST).read_bytes()
    for place in range(0, len(whole), 3):
        (newest(damaged) / MANIFEST).write_bytes(whole)
        flipped(newest(damaged) / MANIFEST, 8 * place + random.Random(place).randrange(8))
        why = why_invalid(newest(damaged), TRIAL)
        assert "manifest.json" in why or "newer program" in why


@pytest.mark.bad_input(47)
@pytest.mark.parametrize("how", ["empty", "missing", "a folder", "a link", "longer"])
def test_any_file_that_is_not_what_was_written_is_seen(
    how: str, kept: Path, tmp_path: Path
) -> None:
    for number, name in enumerate(file.name for file in files(kept)):
        shutil.copytree(kept, tmp_path / str(number))
        file = newest(tmp_path / str(number)) / name
        if how == "longer":
            with file.open("ab") as opened:
                opened.write(b" ")
        else:
            file.rename(tmp_path / f"{number} before")
        if how == "empty":
            file.touch()
        elif how == "a folder":
            file.mkdir()
        elif how == "a link" and name != MANIFEST:
            file.symlink_to(tmp_path / f"{number} before")
        assert_previous_is_used(tmp_path / str(number))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(data=st.data())
def test_no_damage_that_hypothesis_finds_goes_unseen(data: st.DataObject, damaged: Path) -> None:
    """Replace any piece of a file with any other piece."""
    file = data.draw(st.sampled_from(files(damaged)))
    whole = file.read_bytes()
    start, stop = sorted(data.draw(st.integers(0, len(whole))) for _ in range(2))
    first, last = sorted(data.draw(st.integers(0, len(whole))) for _ in range(2))
    spoilt = whole[:start] + whole[first:last] + whole[stop:]
    file.write_bytes(spoilt)
    try:
        if spoilt == whole:
            assert found_in(damaged).generation == 2
        else:
            assert_previous_is_used(damaged)
    finally:
        file.write_bytes(whole)


def test_a_checkpoint_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Earlier versions wrote exactly these bytes as the manifest."""
    (tmp_path / "a").write_bytes(b"state")
    (tmp_path / MANIFEST).write_bytes(EARLIER)
    assert why_invalid(tmp_path, TRIAL) == ""
    (tmp_path / MANIFEST).unlink()
    write_manifest(tmp_path, TRIAL, STOP)
    assert (tmp_path / MANIFEST).read_bytes() == EARLIER


def sealed_again(folder: Path, trial_id: str = TRIAL) -> None:
    """Write a matching manifest, like an attacker with knowledge of the format."""
    (folder / MANIFEST).unlink()
    write_manifest(folder, trial_id, STOP)


class Bomb:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.touch, (self.canary,))


def bomb(folder: Path) -> None:
    """Replace each payload with a pickle bomb, and write a matching manifest."""
    for file in files(folder):
        file.write_bytes(pickle.dumps(Bomb(folder / "canary")))
    sealed_again(newest(folder))


def legacy_bomb(folder: Path) -> None:
    torch.save({"bomb": Bomb(folder / "canary")}, newest(folder) / "model.safetensors")
    sealed_again(newest(folder))


def plain_bomb(folder: Path) -> None:
    (newest(folder) / "model.safetensors").write_bytes(pickle.dumps(Bomb(folder / "canary")))


def of_another_trial(folder: Path) -> None:
    sealed_again(newest(folder), OTHER_TRIAL)


def newer(folder: Path) -> None:
    manifest = newest(folder) / MANIFEST
    content = json.loads(manifest.read_text())
    content["manifest"]["version"] = VERSION + 1
    content["manifest"]["what we do not know"] = []
    manifest.write_text(json.dumps(content))


def no_step(folder: Path) -> None:
    own = newest(folder) / "worker-0.json"
    own.write_text(own.read_text().replace('"step"', '"stop"', 1))
    sealed_again(newest(folder))


def bit(folder: Path) -> None:
    flipped(newest(folder) / "exp_avg.safetensors", 8 * 2000)


DAMAGES = {
    bomb: "worker-0.json cannot be read (",
    legacy_bomb: "model.safetensors cannot be read (",
    plain_bomb: "model.safetensors has ",
    of_another_trial: "it is of another trial (5c5c5c5c5c5c)",
    newer: "a newer program wrote it (layout 2; this one reads 1)",
    no_step: "it lacks what this program keeps ('step')",
    bit: "exp_avg.safetensors is damaged: its SHA-256 is not the one that was written down",
}


@pytest.mark.bad_input(46, 47)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_training_continues_from_the_one_before(
    damage: Callable[[Path], None], damaged: Path, undisturbed: Said
) -> None:
    damage(damaged)
    said = run(ATTENTION, checkpointer_in(damaged, Clock()))
    assert said.numbers == undisturbed.numbers
    assert said.num_steps == STEPS - (STOP - 1)
    assert said.remarks[0].startswith(f"its checkpoint 2 is skipped: {DAMAGES[damage]}")
    assert said.remarks[1:] == [f"it resumes from step {STOP - 1} of {STEPS}"]
    assert not (damaged / "canary").exists()


def test_the_bomb_would_go_off(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()


@pytest.mark.bad_input(47)
def test_where_all_are_damaged_it_begins_anew_and_says_so(damaged: Path, undisturbed: Said) -> None:
    bit(damaged)
    (damaged / TRIAL / "generation-000001" / MANIFEST).unlink()
    said = run(ATTENTION, checkpointer_in(damaged, Clock()))
    assert said.numbers == undisturbed.numbers
    assert said.num_steps == STEPS
    first, second, last = said.remarks
    assert first.startswith("its checkpoint 2 is skipped: exp_avg.safetensors is damaged")
    assert second == "its checkpoint 1 is skipped: it cannot be read (No such file or " + (
        "directory: manifest.json)"
    )
    assert last == ANEW


def test_a_damaged_one_is_never_kept_in_the_place_of_a_whole_one(damaged: Path) -> None:
    """Generation 2 is damaged, so after generation 3 the whole ones are 1 and 3."""
    bit(damaged)
    checkpointer = checkpointer_in(damaged, Clock())
    assert checkpointer.latest().generation == 1
    add(checkpointer)
    assert names_in(damaged) == ["generation-000001", "generation-000003"]
    add(checkpointer)
    assert names_in(damaged) == ["generation-000003", "generation-000004"]
    assert found_in(damaged) == FoundCheckpoint(4, damaged / TRIAL / "generation-000004")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / TRIAL).iterdir())


def add(checkpointer: Checkpointer, body: bytes = b"state") -> None:
    """Write a small checkpoint as a worker does."""
    draft = checkpointer.draft(random.getrandbits(48))
    why = resume._failure(lambda: fill(draft, body))
    why = why or resume._failure(lambda: checkpointer.publish(draft, 1))
    if why:
        checkpointer.discard(draft, why)


def fill(draft: Path, body: bytes) -> None:
    atomic_files.make_folder(draft)
    atomic_files.create(draft / "a", body)
    atomic_files.create(draft / "b", body[::-1])


def test_what_a_killed_process_has_left_is_cleared_by_the_first_worker(damaged: Path) -> None:
    half = checkpointer_in(damaged).draft(1)
    fill(half, b"half")
    second = Checkpointer(damaged / TRIAL, 0.0, is_first=False)
    assert second.latest().generation == 2
    assert half.exists()
    found_in(damaged)
    assert names_in(damaged) == ["generation-000001", "generation-000002"]


@pytest.mark.parametrize("is_for_good", [False, True])
@pytest.mark.parametrize("error", ERRORS)
def test_whatever_fails_an_old_one_can_be_loaded(
    error: str, is_for_good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail at any operation of the third checkpoint, which removes the first."""
    for at in itertools.count():
        folder = tmp_path / str(at)
        for body in (b"one", b"two"):
            add(checkpointer_in(folder), body)
        failing = Failing(at, ERRORS[error], is_for_good)
        with monkeypatch.context() as patch:
            watch(patch, failing)
            add(checkpointer_in(folder), b"three")
        found = found_in(folder)
        assert found.remarks == ()
        assert found.generation in (2, 3)
        assert found.folder is not None
        assert (found.folder / "a").read_bytes() == {2: b"two", 3: b"three"}[found.generation]
        assert all(name.startswith("generation") for name in names_in(folder)), "leftovers"
        assert len(names_in(folder)) >= 2
        if failing.count <= at:
            break
    assert found.generation == 3
    assert at > 30


@pytest.mark.whole
@pytest.mark.parametrize("is_for_good", [pytest.param(False, marks=pytest.mark.slow), True])
def test_whatever_fails_the_training_ends_with_the_same_numbers(
    is_for_good: bool, kept: Path, tmp_path: Path, undisturbed: Said, monkeypatch
) -> None:
    """Fail at every fifth operation of a training that saves two more."""
    errors = itertools.cycle(ERRORS.values())
    num_remarks = 0
    for at in range(is_for_good, 10_000, 5):
        folder, clock = tmp_path / str(at), Clock()
        shutil.copytree(kept, folder)
        failing = Failing(at, next(errors), is_for_good)
        checkpointer = checkpointer_in(folder, clock)
        with monkeypatch.context() as patch:
            watch(patch, failing)
            said = run(
                ATTENTION, checkpointer, lambda step, c=clock: c.__dict__.update(now=step // 2)
            )
        assert said.numbers == undisturbed.numbers
        assert found_in(folder).generation >= (1 if said.remarks else 2)
        num_remarks += any("could not be written" in remark for remark in said.remarks)
        if failing.count <= at:
            break
    assert num_remarks > 5


def test_that_one_cannot_be_written_is_said_once(tmp_path: Path, monkeypatch) -> None:
    def full(name: str, arguments: object, file: object) -> None:
        if name == "write":
            raise OSError(ERRORS["ENOSPC"], os.strerror(ERRORS["ENOSPC"]))

    watch(monkeypatch, full)
    said = run(ATTENTION, checkpointer_in(tmp_path))
    assert names_in(tmp_path) == []
    assert len(said.remarks) == 1
    assert said.remarks[0].startswith(
        "a checkpoint could not be written, and training continues without it: "
    )
    assert "No space left on device" in said.remarks[0]


def test_after_a_failure_the_next_one_is_tried_when_the_time_has_come(tmp_path: Path) -> None:
    clock = Clock()
    checkpointer = checkpointer_in(tmp_path, clock)
    clock.now = 5.0
    assert checkpointer.is_due()
    assert "because" in checkpointer.discard(checkpointer.draft(1), "because")
    assert not checkpointer.is_due()
    clock.now = 6.0
    assert checkpointer.is_due()
    assert checkpointer.discard(checkpointer.draft(1), "because") == ""
    add(checkpointer)
    assert not checkpointer.is_due()
    assert found_in(tmp_path).generation == 1


@pytest.mark.parametrize("loses", ["data", "half", "names"])
def test_after_a_power_cut_there_is_a_whole_one_or_none(loses: str, tmp_path: Path) -> None:
    """Cut the power after each operation of four checkpoints; the published one survives."""
    live = tmp_path / "live"
    live.mkdir()
    tape, checkpointer = Tape(live), checkpointer_in(live)
    with pytest.MonkeyPatch.context() as patch:
        watch(patch, tape)
        for number in (1, 2, 3, 4):
            add(checkpointer, b"state %d" % number)
            tape.note(number)
    seen = set()
    for place, (root, published) in enumerate(tape.crashes()):
        crashed = tmp_path / str(place)
        restore(root, crashed, loses)
        found = found_in(crashed)
        assert found.remarks == ()
        assert found.generation in (published, published + 1)
        seen.add(found.generation)
        if found.folder is not None:
            assert (found.folder / "a").read_bytes() == b"state %d" % found.generation
        shutil.rmtree(crashed)
    assert seen == {0, 1, 2, 3, 4}
    assert len(tape.steps) > 60


def test_a_real_state_survives_a_power_cut(tmp_path: Path) -> None:
    """Check that the engine's files, too, are on disk before they are needed."""
    live = tmp_path / "live"
    live.mkdir()
    tape = Tape(live)
    engine = LocalEngine(build_model(ATTENTION), training(STEPS), "cpu")
    with pytest.MonkeyPatch.context() as patch:
        watch(patch, tape)
        assert list(resume._save(engine, checkpointer_in(live), TrainingProgress())) == []
    *_, (root, _) = tape.crashes()
    for loses in ("data", "names"):
        restore(root, tmp_path / loses, loses)
        assert found_in(tmp_path / loses).generation == 1


def trial() -> Trial:
    return Trial(
        probe="quality",
        task="parity",
        task_digest="",
        length=3,
        batch=8,
        subjects=(ATTENTION,),
        training=None,
        seed=0,
        versions={},
    )


def test_keepers_for_trials(tmp_path: Path) -> None:
    checkpoints = Checkpoints(folder=tmp_path, seconds_between=3.0)
    assert checkpointer_for(trial(), Checkpoints(folder=tmp_path / "nowhere")) is None
    checkpointer = checkpointer_for(trial(), checkpoints)
    assert isinstance(checkpointer, Checkpointer)
    assert checkpointer.latest() == FoundCheckpoint()
    assert list(tmp_path.iterdir()) == [], "it is made with the first checkpoint"
    add(checkpointer)
    add(checkpointer)
    assert [path.name for path in tmp_path.iterdir()] == [trial().trial_id]
    remove(checkpoints, "another")
    remove(checkpoints, trial().trial_id)
    remove(checkpoints, trial().trial_id)
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_holds_unsaved_state_writes_and_reads_no_checkpoint(
    tmp_path: Path, undisturbed: Said
) -> None:
    resumable = Checkpoints(folder=tmp_path, seconds_between=0.0)
    stored = checkpointer_for(trial(), resumable)
    assert stored is not None
    add(stored)  # a checkpoint of an earlier version
    found = checkpointer_for(trial(), replace(resumable, unused=frozenset([trial().trial_id])))
    assert found is not None
    assert found.latest() == FoundCheckpoint()
    said = run(ATTENTION, found)
    assert said.numbers == undisturbed.numbers
    assert (said.remarks, said.num_steps) == ([], STEPS)
    assert len(list((tmp_path / trial().trial_id).iterdir())) == 1


def test_a_trial_that_holds_unsaved_state_stops_without_a_checkpoint(tmp_path: Path) -> None:
    unused = Checkpoints(folder=tmp_path, unused=frozenset([trial().trial_id]))
    ask(tmp_path)
    for each in (replace(unused, unused=frozenset()), unused):
        with pytest.raises(TrainingStopped):
            run(ATTENTION, checkpointer_for(trial(), each))
    assert saved_step(replace(unused, unused=frozenset()), trial().trial_id) == 1
    assert saved_step(unused, trial().trial_id) == 0
    assert len(list((tmp_path / trial().trial_id).iterdir())) == 1


def test_a_folder_that_cannot_be_looked_into_is_said(tmp_path: Path, undisturbed: Said) -> None:
    (tmp_path / TRIAL).write_bytes(b"no folder")
    said = run(ATTENTION, checkpointer_in(tmp_path, Clock()))
    assert said.numbers == undisturbed.numbers
    assert said.remarks[0].startswith("its checkpoints cannot be listed (")
    assert said.remarks[1] == ANEW
