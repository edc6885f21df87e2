"""How a parcel is brought to where it runs."""

from pathlib import Path

import pytest

from suite.cluster.runtime_env import runtime_env
from suite.parcel import Parcel
from suite.provenance import commit


def test_packages_files_and_where_they_come_from(tmp_path: Path) -> None:
    found = runtime_env(Parcel((Path("/a/suite"), Path("/a/models")), tmp_path, ("heads",)))
    assert found["py_modules"] == ["/a/suite", "/a/models"]
    assert found["working_dir"] == str(tmp_path)
    assert found["env_vars"]["BAKEOFF_COMMIT"] == commit()
    assert int(found["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) >= 60


def test_nothing_of_the_environment_goes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "s3cret")
    assert "s3cret" not in str(runtime_env(Parcel((), tmp_path, ())))
