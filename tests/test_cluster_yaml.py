"""The cluster file: Ray's own schema accepts it, and nothing of it listens to the world."""

from pathlib import Path
from typing import Any

import pytest
import yaml

FILE = Path(__file__).parents[1] / "cluster.yaml"


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return loaded


def test_ray_accepts_it(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


def test_ray_would_refuse_a_field_that_it_does_not_know(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    with pytest.raises(Exception, match="max_wokers"):
        validate_config(prepare_config({**config, "max_wokers": 3}))


def test_the_head_gives_no_cpu_to_trials(config: dict[str, Any]) -> None:
    head = config["available_node_types"][config["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    assert any("--num-cpus=0" in line for line in config["head_start_ray_commands"])


def test_dashboards_stay_on_loopback_and_tokens_are_asked_for(config: dict[str, Any]) -> None:
    starts = [
        line
        for key in ("head_start_ray_commands", "worker_start_ray_commands")
        for line in config[key]
        if "ray start" in line
    ]
    assert len(starts) == 2
    assert all("RAY_AUTH_MODE=token" in line for line in starts)
    assert "--dashboard-host=127.0.0.1" in starts[0]
    assert "0.0.0.0" not in FILE.read_text()
    assert "~/.ray/auth_token" in config["file_mounts"]
