"""Tests for the errors of a user's file: one sentence each, with file and line."""

import importlib.util
import signal
import sys
from pathlib import Path

import pytest

from bakeoff.suite import timeouts
from bakeoff.suite.planning.loader import LoadedAblation, find, find_all, recorded_as, shipped
from bakeoff.suite.spec import SpecError
from tests.suite.small_ablation import WriteAblation

BROKEN = {
    "syntax error below": ("\n\ndef f(:\n    pass\n", ":3", "invalid syntax"),
    "raises in a function": ("def f():\n    1 / 0\nf()\n", ":2", "ZeroDivisionError"),
    "ends it silently": ("raise SystemExit\n", "", "ends the program"),
    "misspelt field": (
        "from bakeoff import Scale\n\nScale(\n    dmi=1,\n)\n",
        ":3",
        "did you mean 'dim'",
    ),
}


def _refusal(path: Path | str) -> str:
    with pytest.raises(SpecError) as caught:
        find(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_place(case: str, write_ablation: WriteAblation) -> None:
    source, line, fragment = BROKEN[case]
    path = write_ablation(source)
    sentence = _refusal(path)
    assert sentence.startswith(f"{path}{line}: ")
    assert fragment in sentence


def test_two_ablations_are_named(write_ablation: WriteAblation) -> None:
    path = write_ablation()
    path.write_text(path.read_text() + "OTHER = ABLATION.model_copy()\n")
    assert "this file contains ABLATION, OTHER" in _refusal(path)


def test_an_ablation_under_another_name_is_none(write_ablation: WriteAblation) -> None:
    path = write_ablation()
    path.write_text(path.read_text().replace("ABLATION =", "HEADS ="))
    assert "HEADS has no name; give it Ablation(name=...)" in _refusal(path)


def test_the_limit_is_lifted_afterwards(
    write_ablation: WriteAblation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "SECONDS_TO_IMPORT", 1)
    find(str(write_ablation()))
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    "name",
    ["Mine.py", "my-heads.py", "1heads.py", "a" * 65 + ".py", "a\nb.py", "a\u202eb.py", "hé.py"],
)
def test_an_odd_file_name_is_refused(name: str, write_ablation: WriteAblation) -> None:
    assert "lower-case letters, digits and underscores" in _refusal(write_ablation(name=name))


def test_a_file_of_another_kind_is_refused(write_ablation: WriteAblation) -> None:
    assert "ending in .py" in _refusal(write_ablation(name="mine.txt"))


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "/", ".", "a" * 300 + ".py", "a/\nb", "no_such_file.py"]
)
def test_a_path_without_a_file_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"no such ablation file|no ablation"):
        find(name)


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    assert "did you mean 'heads'" in _refusal("heds")


@pytest.mark.parametrize("name", ["bakeoff.py", "copy.py", "numpy.py", "suite.py"])
def test_a_file_may_not_stand_in_for_a_module(name: str, write_ablation: WriteAblation) -> None:
    sentence = _refusal(write_ablation(name=name))
    assert f"a Python module {name[:-3]!r} exists already; rename the file" in sentence
    assert importlib.util.find_spec(name[:-3]) is not None


def test_the_path_of_a_shipped_file_is_the_shipped_ablation() -> None:
    file = shipped()["heads"]
    assert (
        find(str(file))
        == find("heads")
        == LoadedAblation(
            name="heads", ablation=find("heads").ablation, note=find("heads").note, file=file
        )
    )


def test_a_users_file_is_found_by_path_and_leaves_nothing_beside_it(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    path = write_ablation()
    entry = find(str(path))
    assert (entry.name, entry.note, entry.file) == ("mine", "A note.", path)
    assert entry.source_paths == (str(tmp_path),)
    assert list(tmp_path.iterdir()) == [path]


def test_an_edited_file_is_read_again(write_ablation: WriteAblation) -> None:
    first = find(str(write_ablation(axes='[vary("heads", [1, 2])]'))).ablation
    second = find(str(write_ablation(axes='[vary("heads", [1, 4])]'))).ablation
    assert (first.axes[0].values, second.axes[0].values) == ((1, 2), (1, 4))


def test_a_file_named_twice_counts_once(write_ablation: WriteAblation) -> None:
    path = write_ablation()
    entries = find_all([str(path), "heads", str(path.parent / "." / path.name), "heads"])
    assert [entry.name for entry in entries] == ["mine", "heads"]


def test_all_names_every_shipped_ablation_once() -> None:
    assert [entry.name for entry in find_all(["heads", "all"])] == [
        "heads",
        *(name for name in shipped() if name != "heads"),
    ]


def test_two_files_of_one_name_are_refused(write_ablation: WriteAblation, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [write_ablation(), write_ablation(name="other/mine.py")]
    with pytest.raises(SpecError, match="both have an ablation 'mine'; rename one"):
        find_all(list(map(str, paths)))


def test_the_recorded_name_of_a_missing_file_is_its_own() -> None:
    assert recorded_as(["heads", "/no/such/folder/mine.py"]) == {"heads": None, "mine": None}


def test_a_helper_that_an_installed_module_hides_is_named(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    (tmp_path / "own_helper.py").write_text("import filelock\n")
    (tmp_path / "filelock.py").touch()
    path = write_ablation()
    path.write_text(f"import own_helper\n{path.read_text()}")
    sentence = _refusal(path)
    assert f"{tmp_path / 'own_helper.py'} imports filelock, but Python finds" in sentence
    assert f"instead of {tmp_path / 'filelock.py'}; rename the latter." in sentence


def test_a_module_that_the_file_does_not_import_hides_nothing(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    (tmp_path / "filelock.py").write_text("1 / 0")
    assert find(str(write_ablation()))


def test_a_former_package_is_named_by_its_present_name(
    write_ablation: WriteAblation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" in entry])
    path = write_ablation()
    path.write_text(f"from models import Mixer\n{path.read_text()}")
    assert _refusal(path).endswith("Bakeoff's own package of this name is now `bakeoff.models`.")


def test_a_users_module_takes_precedence_over_the_installed_alias(
    write_ablation: WriteAblation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "suite.py").write_text((Path(__file__).parents[3] / "suite.py").read_text())
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    path = write_ablation(tasks="TASKS")
    (path.parent / "suite.py").write_text('TASKS = ["parity"]')
    path.write_text(f"from suite import TASKS\n{path.read_text()}")
    assert find(str(path)).ablation.tasks == ("parity",)
