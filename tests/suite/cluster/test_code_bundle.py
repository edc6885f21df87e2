"""Tests for the bundle sent to a cluster: the user's own files, their imports, nothing else."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from bakeoff.suite import cli
from bakeoff.suite.cluster import code_bundle
from bakeoff.suite.cluster.code_bundle import CodeBundle, bundle_code
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.provenance import commit
from bakeoff.suite.spec import SpecError
from tests.suite.small_ablation import WriteAblation

MIXER = '''
"""A mixer."""
from bakeoff.models.mixer import Mixer


class Mine(Mixer):
    def forward(self, x, mask=None, context=None, context_mask=None):
        return x.mean(dim=1, keepdim=True).expand_as(x)
'''


def mixer(name: str) -> dict[str, str]:
    return {
        "baseline": f'Model(mixer="{name}:Mine", position="none")',
        "axes": '[vary("learning_rate", [1e-3, 1e-2])]',
        "probes": '["quality"]',
        "tasks": '["fashion_mnist_patches"]',
        "scales": '{"quick": Scale(dim=8, depth=1, length=49, steps=4, batch=2)}',
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bundle").mkdir()
    return tmp_path / "bundle"


def test_a_shipped_ablation_takes_no_file_along(folder: Path) -> None:
    found = bundle_code([plan("heads")], folder)
    assert found.names == ("heads",)
    assert found.sizes() == {}
    assert found.package.name == "bakeoff"
    rooms = ("suite", "models", "ablations", "reports")
    assert all((found.package / room / "__init__.py").is_file() for room in rooms)


def test_a_file_and_the_module_of_its_mixer(write_ablation: WriteAblation, folder: Path) -> None:
    path = write_ablation(**mixer("mine_mixers"))
    (path.parent / "mine_mixers.py").write_text(MIXER)
    (path.parent / "mine_other.py").write_text("never imported")
    found = bundle_code([plan(str(path))], folder)
    assert found.names == ("mine.py",)
    assert set(found.sizes()) == {"mine.py", "mine_mixers.py"}
    assert (folder / "mine.py").read_bytes() == path.read_bytes()


def test_what_a_mixer_imports_and_the_whole_of_a_package(
    write_ablation: WriteAblation, folder: Path
) -> None:
    path = write_ablation(**mixer("own_package.mixers"))
    package = path.parent / "own_package"
    for name in ("__pycache__", ".git", "runs", "data"):
        (package / name).mkdir(parents=True)
        (package / name / "file").write_text("x")
    (package / "runs" / "journal.db").write_text("an output folder")
    (package / ".env").write_text("PASSWORD=x")
    (package / "circle").symlink_to(package)
    (package / "__init__.py").touch()
    (package / "parts.py").write_text(
        "from importlib import import_module\nimport numpy\nimport_module('own_far')\n"
    )
    (package / "mixers.py").write_text(f"from own_package import parts\n{MIXER}")
    (path.parent / "own_far.py").touch()
    found = bundle_code([plan(str(path))], folder)
    assert set(found.sizes()) == {
        "mine.py",
        "own_far.py",
        "own_package/__init__.py",
        "own_package/mixers.py",
        "own_package/parts.py",
        "own_package/data/file",
    }


def test_a_folder_without_init_is_a_package_too(
    write_ablation: WriteAblation, folder: Path
) -> None:
    path = write_ablation(**mixer("own_folder.mixers"))
    (path.parent / "own_folder").mkdir()
    (path.parent / "own_folder" / "mixers.py").write_text(MIXER)
    found = bundle_code([plan(str(path))], folder)
    assert set(found.sizes()) == {"mine.py", "own_folder/mixers.py"}


def test_a_mixer_of_ours_by_its_full_name_is_no_file_of_the_users(
    write_ablation: WriteAblation, folder: Path
) -> None:
    path = write_ablation(
        baseline='Model(mixer="bakeoff.models.mixers.attention:Attention", heads=4)'
    )
    assert set(bundle_code([plan(str(path))], folder).sizes()) == {"mine.py"}


IDS = """
import sys
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.provenance import commit
from bakeoff.suite.cluster.code_bundle import CodeBundle, bundle_code
from pathlib import Path
made = plan(sys.argv[1])
print(*sorted(trial.trial_id for trial in made.trials))
if len(sys.argv) > 2:
    print(*bundle_code([made], Path(sys.argv[2])).names)
"""


@pytest.mark.slow
def test_a_plan_made_from_the_parcel_has_the_same_trials(
    write_ablation: WriteAblation, folder: Path, tmp_path: Path
) -> None:
    path = write_ablation(**mixer("mine_mixers"))
    (path.parent / "mine_mixers.py").write_text(MIXER)

    def printed(where: Path, *arguments: str) -> list[str]:
        command = [sys.executable, "-c", IDS, *arguments]
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    ids, name = printed(Path("/"), str(path), str(folder))
    path.unlink()  # the bundle must not need the original
    (tmp_path / "mine_mixers.py").unlink()
    assert printed(folder, name) == [ids]


def test_the_id_of_a_submission_holds_the_content_of_what_is_sent(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    """Check the digest on a helper that is imported only by the ablation's file."""

    def digest(blocks: str, number: int) -> str:
        (tmp_path / "own_blocks.py").write_text(blocks)
        path = write_ablation()
        path.write_text(f"import own_blocks\n{path.read_text()}")
        folder = tmp_path / f"bundle{number}"
        folder.mkdir()
        return bundle_code([plan(str(path))], folder).digest()

    assert digest("", 1) == digest("", 2) != digest("# edited", 3)


def test_a_declared_file_travels(write_ablation: WriteAblation, folder: Path) -> None:
    path = write_ablation(**mixer("mine_mixers"))
    (path.parent / "mine_mixers.py").write_text(
        MIXER.replace("    def", "    files = ('texts/words.txt',)\n\n    def")
    )
    (path.parent / "texts").mkdir()
    (path.parent / "texts" / "words.txt").write_text("one")
    found = bundle_code([plan(str(path))], folder)
    assert set(found.sizes()) == {"mine.py", "mine_mixers.py", "texts/words.txt"}


def test_included_files_travel_at_their_places(
    write_ablation: WriteAblation, folder: Path, tmp_path: Path
) -> None:
    path = write_ablation()
    for name in ("words.txt", "texts/one.txt", "texts/deep/two.txt", "texts/.hidden", "other.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "words.txt")
    asked = ["./words.txt", "texts", "texts/one.txt", str(tmp_path / "link")]
    found = bundle_code([plan(str(path))], folder, asked)
    wanted = {"mine.py", "words.txt", "texts/one.txt", "texts/deep/two.txt", "link"}
    assert set(found.sizes()) == wanted
    assert (folder / "link").read_text() == "words.txt"
    digests = {found.digest()}
    (folder / "texts/one.txt").write_text("edited")
    digests.add(found.digest())
    assert len(digests) == 2  # another content is another submission


def test_for_a_shipped_ablation_files_are_in_the_current_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").touch()
    assert set(bundle_code([plan("heads")], folder, ["words.txt"]).sizes()) == {"words.txt"}


@pytest.mark.whole
def test_what_cannot_be_included_is_told_before_anything_is_sent(
    write_ablation: WriteAblation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Call the command, with an address where nothing would answer."""
    path = write_ablation()
    (tmp_path / "empty").mkdir()
    (tmp_path / "large").write_bytes(bytes(4 * 2**20))
    monkeypatch.setattr(code_bundle, "_MOST_BYTES", 3 * 2**20)
    refused = {
        "gone.txt": f"--include gone.txt: there is no such file or folder in {tmp_path}",
        "../x": f"--include ../x: it must be in {tmp_path}",
        "/etc/passwd": f"--include /etc/passwd: it must be in {tmp_path}",
        "empty": "this folder has no file to send",
        "large": "this one to 4; at most 3 MiB can be sent",
    }
    for name, sentence in refused.items():
        monkeypatch.setattr(
            sys, "argv", ["bakeoff", "submit", str(path), "--address", "127.0.0.1:1", "--dry-run"]
        )
        sys.argv += ["--include", "mine.py", "--include", name]
        said = io.StringIO()
        with redirect_stderr(said), pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        assert sentence in said.getvalue()
        assert said.getvalue().count("\n") == 1


def test_too_large_names_the_largest(
    write_ablation: WriteAblation, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_bundle, "_MOST_BYTES", 3 * 2**20)
    path = write_ablation(**mixer("own_large.mixers"))
    package = path.parent / "own_large"
    package.mkdir()
    (package / "mixers.py").write_text(MIXER)
    (package / "weights.bin").write_bytes(bytes(4 * 2**20))
    with pytest.raises(SpecError, match=r"weights\.bin: .* this one to 4; at most 3 MiB") as caught:
        bundle_code([plan(str(path))], folder)
    assert "\n" not in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_job_gets_packages_and_files_and_nothing_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "s3cret")
    bundle = CodeBundle(Path("/a/bakeoff"), tmp_path, ("heads",))
    found = bundle.runtime_env()
    assert found["py_modules"] == ["/a/bakeoff"]
    assert found["working_dir"] == str(tmp_path)
    assert found["env_vars"]["BAKEOFF_COMMIT"] == commit()
    assert int(found["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) >= 60
    assert "s3cret" not in str(found)
