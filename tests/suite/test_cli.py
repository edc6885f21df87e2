"""Test that the help of each command fits a terminal, with every sentence whole."""

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bakeoff.suite.cli import app

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_cuts_nothing(command: str, width: int) -> None:
    asked = [*filter(None, [command]), "--help"]
    done = CliRunner().invoke(app, asked, env={"COLUMNS": str(width)}, terminal_width=width)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line.endswith("...") and "Usage:" not in line]
    if not command:
        said = [line for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS]
        assert len(said) == len(COMMANDS)
        assert all(line.endswith(".") for line in said)
