"""Why Ray cannot be started here, known before it is started."""

from __future__ import annotations

import pytest

from suite.cluster import connect
from suite.events import Checkpoints, ExecutorSettings, Unavailable


@pytest.mark.parametrize("variable", ["TMPDIR", "RAY_TMPDIR"])
def test_a_folder_too_long_for_sockets_is_named_before_ray_starts(
    variable: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = "/tmp/" + "x" * 110
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv(variable, folder)
    monkeypatch.setattr(connect.ray, "init", lambda **options: pytest.fail("it was started"))
    settings = ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path))
    with pytest.raises(Unavailable) as refused, connect.started(settings):
        pass
    said = str(refused.value)
    assert said.startswith(f"{variable}={folder} has 115 bytes, and Ray can use at most ")
    assert f"set a shorter one, as {variable}=/tmp" in said
    assert "busy" not in said
