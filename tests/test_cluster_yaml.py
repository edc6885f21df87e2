"""Check that Ray's schema accepts the cluster files and that nothing listens publicly."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = ["cluster.yaml", "deploy/local-cluster.yaml"]
STARTS = ("head_start_ray_commands", "worker_start_ray_commands")


def read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return loaded


@pytest.fixture(scope="module", params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def config(name: str) -> dict[str, Any]:
    return read(name)


@pytest.fixture(scope="module")
def aws() -> dict[str, Any]:
    return read("cluster.yaml")


def workers(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    types = config["available_node_types"]
    return {kind: types[kind] for kind in types if kind != config["head_node_type"]}


def start_line(config: dict[str, Any], key: str) -> str:
    """Return the only command of the list that starts Ray."""
    (line,) = [line for line in config[key] if "ray start" in line]
    return str(line)


def environment_of(line: str, home: Path = Path("/home/me")) -> dict[str, str]:
    """Return the environment of `ray start` by running the line with `env` in its place."""
    before = line.partition("ulimit")[0].replace("~/bakeoff", str(ROOT))
    said = subprocess.run(
        ["bash", "-c", f"{before} env"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    return dict(entry.split("=", 1) for entry in said.splitlines())


def test_ray_accepts_it(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


@pytest.mark.bad_input(21)
def test_ray_would_refuse_a_field_that_it_does_not_know(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    with pytest.raises(Exception, match="max_wokers"):
        validate_config(prepare_config({**config, "max_wokers": 3}))


def test_the_head_gives_no_cpu_to_trials(config: dict[str, Any]) -> None:
    assert "--num-cpus=0" in start_line(config, STARTS[0])


def test_the_head_type_gives_no_cpu_to_trials_and_is_the_only_one(aws: dict[str, Any]) -> None:
    head = aws["available_node_types"][aws["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    assert head["max_workers"] == 0


def test_dashboards_stay_on_loopback(name: str, config: dict[str, Any]) -> None:
    assert "--dashboard-host=127.0.0.1" in start_line(config, STARTS[0])
    assert "0.0.0.0" not in (ROOT / name).read_text()


def test_tokens_are_asked_for_everywhere(config: dict[str, Any]) -> None:
    assert all("RAY_AUTH_MODE=token" in start_line(config, key) for key in STARTS)
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert any("chmod 600 ~/.ray/auth_token" in line for line in config["setup_commands"])


@pytest.mark.parametrize("key", STARTS)
def test_ray_starts_with_what_a_sweep_needs(config: dict[str, Any], key: str) -> None:
    found = environment_of(start_line(config, key))
    assert found["RAY_AUTH_MODE"] == "token"
    assert found["PATH"].startswith("/home/me/venv/bin:")
    assert int(found["RAY_JOB_STOP_WAIT_TIME_S"]) >= 60


def test_the_driver_is_given_what_mlflow_asks_for(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / ".mlflow.env").write_text("MLFLOW_TRACKING_USERNAME=ada\n")
    found = environment_of(start_line(config, STARTS[0]), home=tmp_path)
    assert found["MLFLOW_TRACKING_USERNAME"] == "ada"


def test_a_silent_host_is_given_up_soon_but_not_at_the_first_hiccup(config: dict[str, Any]) -> None:
    found = environment_of(start_line(config, STARTS[0]))
    period, timeout, threshold = (
        int(found[f"RAY_health_check_{name}"])
        for name in ("period_ms", "timeout_ms", "failure_threshold")
    )
    assert 9_000 <= threshold * (period + timeout) <= 15_000
    assert threshold >= 3


def test_what_is_mounted_exists_and_is_all_that_pip_needs(config: dict[str, Any]) -> None:
    mounts = {to: from_ for to, from_ in config["file_mounts"].items() if "bakeoff" in to}
    assert mounts == {f"~/bakeoff/{path}": path for path in mounts.values()}
    assert [path for path in mounts.values() if not (ROOT / path).exists()] == []
    needed = {
        "bakeoff",
        "suite.py",
        "suite",
        "models",
        "ablations",
        "reports",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "NOTICE",
        "constraints.txt",
        "deploy/ray.env",
    }
    assert needed == set(mounts.values())


def test_both_files_install_the_same(aws: dict[str, Any]) -> None:
    local = read("deploy/local-cluster.yaml")
    assert local["file_mounts"] == aws["file_mounts"]
    assert [line for line in aws["setup_commands"] if "apt-get" not in line] == (
        local["setup_commands"]
    )


def test_every_worker_declares_that_timings_hold_it_alone(aws: dict[str, Any]) -> None:
    assert {kind["resources"].get("timing") for kind in workers(aws).values()} == {1}
    assert """--resources='{"timing": 1}'""" in start_line(
        read("deploy/local-cluster.yaml"), STARTS[1]
    )


def test_every_gpu_declares_its_model(aws: dict[str, Any]) -> None:
    with_gpus = [kind for kind in workers(aws).values() if kind["resources"].get("GPU")]
    assert with_gpus
    for kind in with_gpus:
        assert any(name.startswith("accelerator_type:") for name in kind["resources"])


def test_spot_is_for_workers_that_say_so_and_only_where_asked(aws: dict[str, Any]) -> None:
    spot = {
        name: kind
        for name, kind in aws["available_node_types"].items()
        if "InstanceMarketOptions" in kind["node_config"]
    }
    assert set(spot) == {"gpu_worker_spot"}
    assert spot["gpu_worker_spot"]["max_workers"] == 0
    other = aws["available_node_types"]["gpu_worker"]
    assert other["resources"] == spot["gpu_worker_spot"]["resources"]


def test_the_sums_agree(aws: dict[str, Any]) -> None:
    types = workers(aws).values()
    assert sum(kind["min_workers"] for kind in types) == 0
    assert sum(kind["max_workers"] for kind in types) == aws["max_workers"]


def test_the_sums_of_machines_that_one_has_agree() -> None:
    local = read("deploy/local-cluster.yaml")
    addresses = local["provider"]["worker_ips"]
    assert local["min_workers"] == local["max_workers"] == len(addresses)
    assert local["provider"]["head_ip"] not in addresses


def test_every_machine_has_the_image_and_the_disk(aws: dict[str, Any]) -> None:
    machines = [kind["node_config"] for kind in aws["available_node_types"].values()]
    assert len({machine["ImageId"] for machine in machines}) == 1
    for machine in machines:
        assert machine["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] >= 50
