"""Test that the structure check finds violations; `make lint` runs it on this repository."""

from pathlib import Path

import pytest

from tools.check_structure import findings


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"models/a.py": "class A: ...", "reports/b.py": "class A: ..."},
            ["class A is defined 2 times: reports/b.py:1, models/a.py:1"],
        ),
        (
            {
                "models/a.py": "class A:\n    class Config: ...",
                "models/b.py": "class B:\n    class Config: ...",
            },
            [],
        ),
        ({"suite/utils/a.py": ""}, ["suite/utils/a.py: the name does not say what the file holds"]),
        ({"suite/a.py": "x = 'a bert'"}, ["suite/a.py: names the architecture bert"]),
        ({"suite/a.py": '"""About bert."""'}, []),
        ({"suite/tasks/a.py": "class A:\n    architecture = 'bert'"}, []),
        (
            {"suite/a.py": "class A:\n    architecture = 'vit'"},
            ["suite/a.py: names the architecture vit"],
        ),
        (
            {"reports/a.py": "from bakeoff.models.architectures import vit"},
            ["reports/a.py: names the architecture bakeoff.models.architectures.vit"],
        ),
        (
            {
                "models/architectures/a.py": "class Alone: ...",
                "suite/a.py": "isinstance(x, (int, a.Alone))",
                "suite/b.py": "match x:\n    case Alone(): ...",
            },
            [
                "suite/a.py: names the architecture Alone",
                "suite/b.py: names the architecture Alone",
            ],
        ),
        ({"suite/a.py": "from bakeoff.models.architectures.mixer_alone import MixerAlone"}, []),
    ],
)
def test_a_broken_rule_is_found(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(findings(tmp_path)) == found
