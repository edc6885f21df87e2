"""Tests for the source of a plan: the ablation's file and the user's own modules it imports."""

import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from bakeoff.suite.planning.own_modules import planned_code, source_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import Model, SpecError
from tests.suite.cluster.test_code_bundle import MIXER, mixer
from tests.suite.small_ablation import WriteAblation, make_ablation

Planned = Callable[..., list[str]]


def test_source_of_a_file_its_mixer_and_its_package(write_ablation: WriteAblation) -> None:
    path = write_ablation(**mixer("mine_mixers"))
    files = {"__init__": "", "one": "from . import two", "two": "'https://me:word@host'", "no": ""}
    for name, text in files.items():
        (path.parent / "mine_parts").mkdir(exist_ok=True)
        (path.parent / "mine_parts" / f"{name}.py").write_text(text)
    (path.parent / "mine_mixers.py").write_text(f"from mine_parts.one import two\n{MIXER}")
    found = source_of(plan(str(path)))
    inner = [f"mine_parts/{name}.py" for name in ("__init__", "one", "two")]
    assert list(found) == ["mine.py", "mine_mixers.py", *inner]
    assert found["mine.py"] == path.read_text()
    assert found["mine_parts/two.py"] == "'https://***@host'"


NET = """
from dataclasses import dataclass
from torch import nn
from bakeoff.models import Architecture

class Net(Architecture):
    files = {files}

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 16

    def build(self, seeds):
        self.head = nn.Linear(self.spec.input_size, self.spec.output_size)

    def forward(self, inputs):
        return scale_by(self.head(inputs).mean(dim=1))
"""


@pytest.fixture
def planned(write_ablation: WriteAblation, tmp_path: Path) -> Planned:
    """Return a function that plans with the given files and returns the versions of the class."""

    def make(
        *names: str, question: str = "'How many?'", files: object = (), **sources: str
    ) -> list[str]:
        for name, text in sources.items():
            file = tmp_path / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + NET.format(files=repr(files)) if ":Net" in text else text)
        path = write_ablation(
            question=question,
            baseline=f'Model("{names[0]}:Net", width=8)',
            axes='[vary("width", [8, 16])]',
            tasks='["fashion_mnist_patches"]',
            probes='["quality"]',
            scales='{"quick": Scale(length=49, steps=1, batch=2, seeds=1)}',
        )
        trials = plan(str(path)).trials
        return sorted({str(trial.versions[f"skeleton {names[0]}:Net"]) for trial in trials})

    return make


HELPER = {
    "beside": (
        "own_net",
        {
            "own_net": "from own_blocks import scale_by  # :Net\n",
            "own_blocks": "def scale_by(x): return x\n",
        },
    ),
    "through another": (
        "own_net",
        {
            "own_net": "import own_far\nscale_by = own_far.scale_by  # :Net\n",
            "own_far": "from own_blocks import scale_by\n",
            "own_blocks": "def scale_by(x): return x\n",
        },
    ),
    "relative, in a package whose __init__ imports it too": (
        "own_pkg.inner.net",
        {
            "own_pkg/__init__": "from . import own_blocks\n",
            "own_pkg/inner/__init__": "",
            "own_pkg/inner/net": "from ..own_blocks import scale_by  # :Net\n",
            "own_pkg/own_blocks": "def scale_by(x): return x\n",
        },
    ),
    "imported by the __init__ alone": (
        "own_pkg.net",
        {
            "own_pkg/__init__": "from . import own_blocks\n",
            "own_pkg/net": "def scale_by(x): return x  # :Net\n",
            "own_pkg/own_blocks": "import torch\n",
        },
    ),
    "in a folder without __init__": (
        "own_folder.net",
        {
            "own_folder/net": "from own_folder.own_blocks import scale_by  # :Net\n",
            "own_folder/own_blocks": "def scale_by(x): return x\n",
        },
    ),
    "by a name that is computed": (
        "own_pkg.net",
        {
            "own_pkg/__init__": "",
            "own_pkg/net": "from importlib import import_module\n"
            "scale_by = import_module('own_pkg.own_' + 'blocks').scale_by  # :Net\n",
            "own_pkg/own_blocks": "def scale_by(x): return x\n",
        },
    ),
}


@pytest.mark.parametrize("case", HELPER)
def test_a_helper_is_part_of_the_identity_of_a_class_that_imports_it(
    case: str, planned: Planned, tmp_path: Path
) -> None:
    name, sources = HELPER[case]
    before = planned(name, **sources)
    assert planned(name, question="'Another?'", **sources) == before
    (helper,) = tmp_path.rglob("own_blocks.py")
    edited = helper.read_text() + "\n# edited\n"
    (place,) = (place for place in sources if place.endswith("own_blocks"))
    after = planned(name, **{**sources, place: edited})
    assert len(before) == len(after) == 1
    assert after != before, "one process, whose modules were edited between two plans"
    assert planned(name, **sources) == before


ALONE = {"own_net": "def scale_by(x): return x  # :Net\n"}


def test_a_class_that_imports_nothing_has_the_hash_of_its_file(
    planned: Planned, tmp_path: Path
) -> None:
    found = planned("own_net", **ALONE)
    assert found == [hashlib.sha256((tmp_path / "own_net.py").read_bytes()).hexdigest()[:16]]


def test_a_declared_file_is_part_of_the_identity(planned: Planned, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("one")
    before = planned("own_net", files=("words.txt",), **ALONE)
    words.write_text("two")
    assert planned("own_net", files=("words.txt",), **ALONE) != before


@pytest.mark.parametrize(
    ("files", "fragment"),
    [
        (("own_none.txt",), "own_none.txt does not exist"),
        ((".",), "in the folder of its module"),
        (("inner",), "is a folder; name its files"),
        (("../words.txt",), "in the folder of its module"),
        (("/etc/hostname",), "in the folder of its module"),
        ("words.txt", "it must be a tuple of names"),
    ],
)
def test_a_file_that_cannot_travel_is_refused(
    files: object, fragment: str, planned: Planned, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    with pytest.raises(SpecError, match=fragment) as caught:
        planned("own_net", files=files, **ALONE)
    assert "\n" not in str(caught.value)
    assert "own_net:Net declares files" in str(caught.value)


def test_what_was_edited_after_the_plan_is_not_run(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    (tmp_path / "own_mixers.py").write_text(MIXER)
    found = plan(str(write_ablation(**mixer("own_mixers"))))
    code = planned_code([found])
    assert code is not None
    assert code.modules["own_mixers"].source == MIXER
    (tmp_path / "own_mixers.py").write_text(f"{MIXER}\n# edited\n")
    with pytest.raises(SpecError, match=r"own_mixers\.py was changed after it had been imported"):
        planned_code([found])


def test_a_module_that_the_program_had_imported_is_compared_too(
    write_ablation: WriteAblation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_mixers.py").write_text(MIXER)
    importlib.import_module("own_mixers")
    assert plan(str(write_ablation(**mixer("own_mixers"))))
    (tmp_path / "own_mixers.py").write_text(MIXER.replace("x.mean", "2 * x.mean"))
    with pytest.raises(SpecError, match="restart the program"):
        plan(str(write_ablation(**mixer("own_mixers"))))


def test_a_class_of_the_program_itself_is_refused() -> None:
    with pytest.raises(SpecError, match="put the class into its own file") as caught:
        plan(make_ablation(baseline=Model("__main__:Net")))
    assert "'my_models:Net'" in str(caught.value)
