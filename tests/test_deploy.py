"""Test the files of `deploy/`: kinds of fields, no secrets, and a server that answers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bakeoff.suite.errors import DONE, UNAVAILABLE
from tests.workplace import Workplace

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
YAMLS = ["cluster.yaml", *sorted(str(path.relative_to(ROOT)) for path in DEPLOY.rglob("*.yaml"))]

# The fields that we use in KubeRay's definition of a RayJob: names and types.
GROUP = {
    "type": "object",
    "additionalProperties": False,
    "required": ["groupName", "rayStartParams", "template", "maxReplicas", "minReplicas"],
    "properties": {
        "groupName": {"type": "string"},
        "replicas": {"type": "integer"},
        "minReplicas": {"type": "integer"},
        "maxReplicas": {"type": "integer"},
        "rayStartParams": {"type": "object", "additionalProperties": {"type": "string"}},
        "template": {"type": "object"},
    },
}
RAY_JOB = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["entrypoint", "rayClusterSpec", "shutdownAfterJobFinishes"],
            "properties": {
                "entrypoint": {"type": "string"},
                "runtimeEnvYAML": {"type": "string"},
                "submissionMode": {"enum": ["K8sJobMode", "HTTPMode", "SidecarMode"]},
                "backoffLimit": {"type": "integer"},
                "submitterConfig": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"backoffLimit": {"type": "integer"}},
                },
                "activeDeadlineSeconds": {"type": "integer"},
                "shutdownAfterJobFinishes": {"type": "boolean"},
                "ttlSecondsAfterFinished": {"type": "integer"},
                "rayClusterSpec": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"],
                    "properties": {
                        "rayVersion": {"type": "string"},
                        "authOptions": {"const": {"mode": "token"}},
                        "enableInTreeAutoscaling": {"type": "boolean"},
                        "autoscalerOptions": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "version": {"enum": ["v1", "v2"]},
                                "idleTimeoutSeconds": {"type": "integer"},
                            },
                        },
                        "headGroupSpec": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["rayStartParams", "template"],
                            "properties": {
                                "rayStartParams": GROUP["properties"]["rayStartParams"],  # type: ignore[index]
                                "template": {"type": "object"},
                            },
                        },
                        "workerGroupSpecs": {"type": "array", "items": GROUP},
                    },
                },
            },
        },
    },
}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / name).read_text()))


def settings() -> dict[str, str]:
    """Return the settings of `deploy/ray.env`."""
    lines = (DEPLOY / "ray.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    return documents("deploy/kuberay-rayjob.yaml")[1]


@pytest.fixture(scope="module")
def ray_cluster(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["rayClusterSpec"]
    return found


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return documents("deploy/mlflow/docker-compose.yaml")[0]


@pytest.mark.parametrize("name", YAMLS)
def test_every_yaml_holds_objects(name: str) -> None:
    assert all(isinstance(document, dict) for document in documents(name))


@pytest.mark.parametrize("name", YAMLS)
def test_no_yaml_holds_a_secret(name: str) -> None:
    text = (ROOT / name).read_text()
    assert re.findall(r"(?i)(?:password|token|secret_key): *['\"]?[^\s{\[/~*&]", text) == []
    assert not re.search(r"://[^/\s:@]+:[^@\s]+@", text)


def test_the_environment_stands_in_the_image_too() -> None:
    found = dict(
        re.findall(r"^(?:ENV |    )(RAY_\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text(), re.M)
    )
    assert found == settings()


def test_the_image_copies_what_exists_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.+) \S+$", text, re.M) for word in line.split()]
    assert {"pyproject.toml", "constraints.txt", "bakeoff", "suite", "models"} < set(copied)
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert re.findall(r"^USER (\S+)$", text, re.M)[-1] != "root"
    assert "-c constraints.txt" in text


def test_the_images_have_the_versions_of_the_constraints() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    asked = re.search(r"mlflow==(\S+)", (DEPLOY / "mlflow" / "Dockerfile").read_text())
    assert asked
    assert f"mlflow=={asked[1]}\n" in constraints


def test_the_job_has_fields_of_the_right_kinds(job: dict[str, Any]) -> None:
    jsonschema.validate(job, RAY_JOB)


def test_the_job_is_tried_once_and_cleaned_up(job: dict[str, Any]) -> None:
    spec = job["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["rayClusterSpec"]["rayVersion"] == version("ray")
    stop = int(yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"])
    head = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert head["terminationGracePeriodSeconds"] > stop >= 60


def test_the_command_of_the_job_is_one(job: dict[str, Any], tmp_path: Path) -> None:
    python, *words = job["spec"]["entrypoint"].split()
    assert python == "python"
    assert words[-2:] == ["--address", "auto"]
    words[words.index("--scale") + 1] = "none"  # refused, but only after all options are parsed
    done = subprocess.run(
        [sys.executable, *words], text=True, capture_output=True, cwd=tmp_path, check=False
    )
    assert "Invalid value for '--scale'" in done.stderr
    assert "No such option" not in done.stderr


def test_results_stay_on_a_volume(job: dict[str, Any], ray_cluster: dict[str, Any]) -> None:
    (claim, _) = documents("deploy/kuberay-rayjob.yaml")
    pod = ray_cluster["headGroupSpec"]["template"]["spec"]
    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert f"--out {mount['mountPath']} " in job["spec"]["entrypoint"]


def test_the_head_runs_no_trials_and_is_never_on_spot(ray_cluster: dict[str, Any]) -> None:
    head = ray_cluster["headGroupSpec"]
    assert head["rayStartParams"] == {"num-cpus": "0"}
    (term,) = head["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert {rule["operator"] for rule in term["matchExpressions"]} == {"NotIn", "DoesNotExist"}


def test_every_pod_is_confined_and_every_worker_declares_timing(
    ray_cluster: dict[str, Any],
) -> None:
    workers = ray_cluster["workerGroupSpecs"]
    assert len(workers) == 2
    for group in workers:
        declared = yaml.safe_load(yaml.safe_load(group["rayStartParams"]["resources"]))
        assert declared == {"timing": 1}
    for group in (ray_cluster["headGroupSpec"], *workers):
        pod = group["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_the_server_for_a_team_is_reached_on_this_machine_only(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert "ports" not in services["database"]
    assert all(port.startswith("127.0.0.1:") for port in services["mlflow"]["ports"])
    assert services["proxy"]["profiles"] == ["tls"]


def test_secrets_are_files_that_git_ignores(compose: dict[str, Any]) -> None:
    assert set(compose["secrets"]) == set(compose["services"]["mlflow"]["secrets"])
    for secret in compose["secrets"].values():
        path = f"deploy/mlflow/{secret['file']}"
        assert (DEPLOY / "mlflow" / ".gitignore").read_text().split() == ["/secrets/"]
        assert path.startswith("deploy/mlflow/secrets/")


def test_the_unit_gives_the_script_what_it_asks_for() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "mlflow" / "mlflow.service")
    text = (DEPLOY / "mlflow" / "mlflow.service").read_text()
    given = set(re.findall(r"^Environment=(\w+)=", text, re.M))
    needed = re.findall(r"\$\{(\w+):\?\}", (DEPLOY / "mlflow" / "start.sh").read_text())
    assert needed
    assert set(needed) <= given
    assert unit["Service"]["ExecStart"].endswith("/start.sh")
    assert {"admin_password", "session_key"} == set(
        re.findall(r"^LoadCredential=(\w+):", text, re.M)
    )


def test_the_guide_names_commands_and_files_that_exist() -> None:
    from bakeoff.suite.cli import app

    text = (ROOT / "docs" / "cluster.md").read_text()
    known = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    assert set(re.findall(r"^    bakeoff (\w+)", text, re.M)) <= known
    named = re.findall(r"(?<![\w/])((?:deploy/[\w./-]+|cluster)\.(?:yaml|env|sh))\b", text)
    assert {"cluster.yaml", "deploy/ray.env", "deploy/local-cluster.yaml"} <= set(named)
    assert [path for path in named if not (ROOT / path).exists()] == []


@dataclass(frozen=True)
class Server:
    """A running MLflow server with users; `password` belongs to the user admin."""

    port: int
    password: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def status_of(self, path: str, **headers: str) -> int:
        """Return the HTTP status of a request."""
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    for name in ("admin_password", "session_key"):
        (folder / name).write_text(f"the {name} of a test\n")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    own = {
        "SECRETS": str(folder),
        "DATABASE": f"sqlite:///{folder}/mlflow.db",
        "PORT": str(port),
        "ARTIFACTS": str(folder / "artifacts"),
        "ALLOWED_HOSTS": f"127.0.0.1:{port}",
        "WORKERS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(DEPLOY / "mlflow" / "start.sh")],
            env={**os.environ, **own},
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    try:
        running = Server(port, "the admin_password of a test")
        wait_for(running, process, log)
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError):
            if server.status_of("/health") == 200:
                return
        time.sleep(0.5)
    pytest.fail(log.read_text())


with_users = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("flask_wtf") is None, reason="mlflow[auth] is not installed"),
    pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh"),
]


class TestServer:
    """Tests of the command of `docs/cluster.md`, with SQLite instead of Postgres."""

    pytestmark = with_users
    experiments = "/api/2.0/mlflow/experiments/search?max_results=1"

    def test_it_asks_who_is_there_and_under_which_name(self, server: Server) -> None:
        known = {
            "Authorization": "Basic " + b64encode(f"admin:{server.password}".encode()).decode()
        }
        assert server.status_of(self.experiments) == 401
        assert server.status_of(self.experiments, **known) == 200
        assert server.status_of(self.experiments, **known, Host="elsewhere.example") == 403

    def test_a_sweep_is_recorded_by_who_has_the_password(
        self, server: Server, tmp_path: Path
    ) -> None:
        work = at(tmp_path, server.password)
        file = work.ablation(probes=["parameters"])
        inline = ("--executor", "inline", "--tracking-uri", server.url)
        done = work.bakeoff("run", file, *inline)
        assert done.returncode == DONE, done.stderr
        verified = work.bakeoff("verify", "--tracking-uri", server.url)
        assert verified.returncode == DONE, verified.stdout
        written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(server.password.encode() in body for body in written)
        assert server.password not in done.stdout + done.stderr

    def test_a_wrong_password_is_one_sentence(self, server: Server, tmp_path: Path) -> None:
        work = at(tmp_path, "a password that is wrong")
        file = work.ablation(probes=["parameters"])
        refused = work.bakeoff("run", file, "--executor", "inline", "--tracking-uri", server.url)
        assert refused.returncode == UNAVAILABLE, refused.stderr
        (sentence,) = [line for line in refused.stderr.splitlines() if "MLflow" in line]
        assert f"The MLflow store {server.url} is not available" in sentence
        assert "Traceback" not in refused.stderr
        assert "a password that is wrong" not in refused.stdout + refused.stderr


def at(folder: Path, password: str) -> Workplace:
    """Return a workplace whose user is admin."""
    user = {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": password}
    return replace(Workplace(folder), environment=user)
