"""What is asked of one MLflow store, request by request, and how its failures are told.

The client is handed in: only `suite/record.py` imports mlflow.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from suite.text import redact
from suite.tracking.data_inputs import DataInput
from suite.tracking.limits import MetricRow, batches
from suite.tracking.uri import secrets_of, sqlite_path

SHA256_TAG = "bakeoff.sha256."  # of an artifact, on the parent; two while it is being replaced
NO_FILE = "none"  # in place of a hash, while a file is sent for the first time

_PAGE = 1_000
_REFUSED = "INVALID_PARAMETER_VALUE"  # MLflow's error code
_SECONDS_TO_SETTLE = 2.0  # how long a reader waits for a file that is being replaced


class StoreUnavailable(RuntimeError):
    """MLflow is not installed, not reachable, or refuses: one sentence, without secrets."""


class StoreRefuses(StoreUnavailable):
    """The store answers, and would refuse the same request again, however often it is sent."""


@contextmanager
def plainly(uri: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn these errors into `StoreUnavailable`, one sentence that shows no password.

    Into `StoreRefuses` where MLflow says that it was asked for what it does not take.
    """
    try:
        yield
    except errors as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        is_refused = getattr(error, "error_code", "") == _REFUSED
    else:
        return
    for secret in secrets_of(uri):
        said = said.replace(secret, "***")
    told = redact(said)[:300]
    if is_refused:
        raise StoreRefuses(f"The MLflow store {redact(uri)} refuses: {told}") from None
    raise StoreUnavailable(f"The MLflow store {redact(uri)} is not available: {told}") from None


def _pages(ask: Callable[[str | None], Any]) -> list[Any]:
    """Everything there is, page by page."""
    page = ask(None)
    found = [*page]
    while page.token:
        page = ask(page.token)
        found.extend(page)
    return found


def now_ms() -> int:
    """Milliseconds since 1970, MLflow's clock."""
    return time.time_ns() // 1_000_000


class Attended:
    """A client, and somebody who is called before each of its requests.

    Args:
        client: Any object whose methods are requests.
        before_request: Returns when the request may be sent; what it raises is raised.
    """

    def __init__(self, client: Any, before_request: Callable[[], None]) -> None:
        self._client = client
        self._before_request = before_request

    def __getattr__(self, name: str) -> Any:
        request = getattr(self._client, name)

        def sent(*values: Any, **named: Any) -> Any:
            self._before_request()
            return request(*values, **named)

        return sent


class Store:
    """One address, and what is asked of it through mlflow's client.

    Args:
        uri: A checked address.
        client: An `mlflow.MlflowClient` for it.
        entities: The module `mlflow.entities`.
        errors: What the client raises where the store fails.
    """

    def __init__(
        self, uri: str, client: Any, entities: Any, errors: tuple[type[Exception], ...]
    ) -> None:
        self.uri = uri
        self.client = client
        self._entities = entities
        self._errors = errors

    def reached(self) -> AbstractContextManager[None]:
        """Turn whatever the store raises, or the way to it, into `StoreUnavailable`."""
        return plainly(self.uri, self._errors)

    def experiment(self, name: str, location: str | None, tags: Mapping[str, str]) -> Any:
        """Find or create the experiment; one that was put into the bin is taken out of it."""
        found = self.client.get_experiment_by_name(name)
        if found is None:
            return self.client.get_experiment(
                self.client.create_experiment(name, location, dict(tags))
            )
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        for tag, value in tags.items():
            if found.tags.get(tag) != value:
                self.client.set_experiment_tag(found.experiment_id, tag, value)
        return found

    def runs(self, experiment_id: str, scale: str) -> list[Any]:
        """Parents and children of a sweep, the earliest first."""
        return self._searched([experiment_id], f"tags.`bakeoff.scale` = '{scale}'")

    def parents(self, experiment_ids: Sequence[str]) -> list[Any]:
        """The parents of several ablations, the earliest first; one request for all of them."""
        if not experiment_ids:
            return []  # none given would mean all to MLflow
        return self._searched(experiment_ids, "tags.`bakeoff.role` = 'sweep'")

    def _searched(self, experiment_ids: Sequence[str], query: str) -> list[Any]:
        found = _pages(
            lambda token: self.client.search_runs(
                list(experiment_ids),
                query,
                max_results=_PAGE,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
        )
        return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))

    def experiments(self) -> list[Any]:
        """All of the store, those of others included."""
        return _pages(
            lambda token: self.client.search_experiments(max_results=_PAGE, page_token=token)
        )

    def create(self, experiment_id: str, tags: Mapping[str, str], start_ms: int) -> Any:
        """A run with all its tags, in one request."""
        run = self.client.create_run(experiment_id, start_time=start_ms, tags=dict(tags))
        if not run.info.run_id:  # a proxy answers everything with an empty page
            raise OSError("what answers there is no MLflow server.")
        return run

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        rows: Sequence[MetricRow] = (),
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Parameters, metrics and tags, in one request where they fit into one."""
        kinds = self._entities
        for batch in batches(params or {}, rows, tags or {}):
            self.client.log_batch(
                run_id,
                [kinds.Metric(r.key, r.value, r.timestamp_ms, r.step) for r in batch.rows],
                [kinds.Param(name, value) for name, value in batch.params.items()],
                [kinds.RunTag(name, value) for name, value in batch.tags.items()],
                synchronous=True,
            )

    def log_inputs(self, run_id: str, data: Sequence[DataInput]) -> None:
        """The data sets that a run trained on; those that it has already stay as they are."""
        kinds = self._entities
        context = [kinds.InputTag("mlflow.data.context", "training")]
        inputs = [
            kinds.DatasetInput(kinds.Dataset(d.name, d.digest, d.source_type, d.source), context)
            for d in data
        ]
        self.client.log_inputs(run_id, inputs)

    def put_files(self, run_id: str, files: Mapping[str, bytes]) -> None:
        """Artifacts, by their path; all of them in one go."""
        with tempfile.TemporaryDirectory() as folder:
            for name, body in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
            self.client.log_artifacts(run_id, folder)

    def history(self, run_id: str, metric: str) -> list[MetricRow]:
        """Every number that was logged under a name."""
        found = self.client.get_metric_history(run_id, metric)
        return [MetricRow(each.key, each.value, each.timestamp, each.step) for each in found]

    def end(self, run_id: str, status: str) -> None:
        """The run's end, now."""
        self.client.set_terminated(run_id, status, now_ms())

    def fetch(self, run: Any, name: str, folder: Path) -> None:
        """Fetch an artifact of a parent that is, by its hash, one that was published."""
        tags, until = run.data.tags, 0.0
        while hashlib.sha256(self._body(run, name, folder)).hexdigest() not in (
            tags[SHA256_TAG + name].split()
        ):
            if until and time.monotonic() > until:
                raise StoreUnavailable(
                    f"{name} in the store is not the file that was published, by its SHA-256; "
                    "`bakeoff run` publishes it again."
                )
            until = until or time.monotonic() + _SECONDS_TO_SETTLE
            time.sleep(0.2)
            tags = self.client.get_run(run.info.run_id).data.tags

    def held_file(self, run: Any, name: str, folder: Path) -> bytes | None:
        """An artifact as it lies there, whatever its hash; None if it cannot be fetched."""
        try:
            return self._body(run, name, folder)
        except self._errors:
            return None

    def held_folder(self, run: Any, name: str, folder: Path) -> Path:
        """A folder of artifacts as it lies there; where it cannot be fetched, one that is not."""
        try:
            return self._beside(run, name) or Path(
                self.client.download_artifacts(run.info.run_id, name, str(folder))
            )
        except self._errors:
            return folder / name

    def _beside(self, run: Any, name: str) -> Path | None:
        """Where an artifact lies if database and artifacts were moved together."""
        database, old = sqlite_path(self.uri), Path(run.info.artifact_uri)
        if database is None or not old.is_absolute() or old.is_dir():
            return None
        return database.parent.joinpath("artifacts", *old.parts[-3:], name)

    def _body(self, run: Any, name: str, folder: Path) -> bytes:
        """Download the artifact; from beside the database where both were moved together."""
        beside = self._beside(run, name)
        if beside is not None:
            return Path(shutil.copy(beside, folder / name)).read_bytes()
        self.client.download_artifacts(run.info.run_id, name, str(folder))
        return (folder / name).read_bytes()
