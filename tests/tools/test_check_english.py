"""Test that the check of the English finds the forbidden forms and nothing else."""

from pathlib import Path

import pytest

from tools.check_english import findings, main


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ('def f():\n    """Return a name."""', []),
        ('def f():\n    """The name."""', [(2, "verb")]),
        ('def f():\n    """Whether it is so."""', [(2, "verb")]),
        ('def f():\n    """Numbers of pairs."""', [(2, "verb")]),
        ('def f():\n    """`[batch, time]`: how it is."""', [(2, "verb")]),
        ('def f():\n    """Process each."""', []),
        ('class A:\n    @property\n    def f(self):\n        """The name."""', []),
        ('class A:\n    @property\n    def f(self):\n        """Of the name."""', [(4, "opening")]),
        ('class A:\n    """What a thing is."""', [(2, "opening")]),
        ('"""What is a thing? None of these knows."""', [(1, "opening")]),
        ('"""A thing.\n\nOf all it is last."""', [(3, "opening")]),
        (
            'def f():\n    """Return a name.\n\n    Args:\n        a: Of it.\n    """',
            [(5, "opening")],
        ),
        ('def f():\n    """Return a name.\n\n    Args:\n        a: Whether it is.\n    """', []),
        ("x = 1  # of the first", [(1, "opening")]),
        ("# the first\n# of all", []),
        ("# the first\nx = 1  # of all", [(2, "opening")]),
        ('raise E(f"{x}: this is no number")', [(1, "no")]),
        ('raise E("there is no number, and it is no longer")', []),
        ('print("the model meets it")', [(1, "person")]),
        ('x = "the model meets it"', []),
        ('"""A model who reads."""', [(1, "person")]),
        ('"""A user who reads."""', []),
        ('class A:\n    """See `B`."""', [(2, "see")]),
        ('class A:\n    """See `B`, which is `no who`."""', []),
    ],
)
def test_each_rule(source: str, rules: list[tuple[int, str]]) -> None:
    assert [(line, rule) for line, rule, _ in findings(source)] == rules


def test_files_and_folders_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text('"""Of a thing."""\n')
    (tmp_path / "b.py").write_text('"""A thing."""\n')
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{tmp_path}/a.py:1: opening: Of a thing.\n"
    assert main([str(tmp_path), "--summary"]) == 1
    assert capsys.readouterr().out == f"{tmp_path}: opening 1\n1 findings\n"
    assert main([str(tmp_path / "b.py")]) == 0
