"""The source of a plan is the ablation's file and what it imports of the user's own."""

from suite.planning.own_modules import source_of
from suite.planning.plan import plan
from tests.suite.cluster.test_code_bundle import MIXER, mixer
from tests.suite.small_ablation import WriteAblation


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
