"""Send requests to one MLflow store within its limits, and explain its errors in one sentence.

The client is passed in: only `connect` imports mlflow. MLflow would truncate long values silently;
this module replaces them by a hash, and stores them whole in a file.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bakeoff.suite.errors import UnavailableError
from bakeoff.suite.schema import DataSet
from bakeoff.suite.text import command, redact
from bakeoff.suite.tracking.location import secrets_of, sqlite_path

PARAM_LIMIT = 6_000  # characters; these limits are in mlflow/utils/validation.py
TAG_LIMIT = 8_000
KEY_LIMIT = 220  # MLflow: 250; the difference is for our prefixes
REQUEST_LIMIT = 500_000  # half of what a server accepts
MAX_ENTITIES = 1_000  # per request
MAX_PARAMS = MAX_TAGS = 100
_MOST = {"params": MAX_PARAMS, "tags": MAX_TAGS}

_PLAIN = re.compile(r"(?:[/\w.=-]|, )*")


CONTENT_TAG = "bakeoff.content_sha256"  # tag of a run: the hash of its content; set last
_OUR_TAGS = "bakeoff."


@dataclass(frozen=True)
class MetricRow:
    """One number as MLflow stores it; sent twice with the same content it is stored once."""

    key: str
    value: float
    timestamp_ms: int
    step: int

    def from_start(self, start_ms: int) -> MetricRow:
        """Return the row with absolute time, for a run that began at `start_ms`."""
        return MetricRow(self.key, self.value, start_ms + self.timestamp_ms, self.step)


@dataclass(frozen=True, kw_only=True)
class RunContent:
    """The content of the run of a trial or a variant; it follows from the journal alone.

    Values that MLflow does not accept are already replaced by their hashes.

    Attributes:
        sha256: Hash of everything that determines the content.
        place: The trial or the variant of the run, as in `ChildRun.place`.
        tags: Name, note, and our own tags.
        params: Parameters.
        rows: Metrics; their time stamps count from the start of the run.
        files: Artifacts by path.
        status: MLflow's status of the run once it has ended.
        may_have_more: Whether the run may have live points that the result lacks: a failed trial
            has sent them before it ended.
    """

    sha256: str
    place: tuple[str, ...]
    tags: Mapping[str, str]
    params: Mapping[str, str]
    rows: tuple[MetricRow, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    status: str = "FINISHED"
    may_have_more: bool = False

    @property
    def our_tags(self) -> dict[str, str]:
        """The tags that no other program may change."""
        return {name: value for name, value in self.tags.items() if name.startswith(_OUR_TAGS)}

    @property
    def curves(self) -> dict[str, list[MetricRow]]:
        """The rows of each metric that has several."""
        found: dict[str, list[MetricRow]] = {}
        for row in self.rows:
            found.setdefault(row.key, []).append(row)
        return {name: rows for name, rows in found.items() if len(rows) > 1}

    @property
    def newest(self) -> dict[str, float]:
        """The value of each metric that MLflow shows as its newest."""
        order = sorted(self.rows, key=lambda row: (row.step, row.timestamp_ms, row.value))
        return {row.key: row.value for row in order}

    def may_hold(self, rows: Iterable[MetricRow]) -> bool:
        """Return True if a run to which these rows were sent can still get this content."""
        return self.may_have_more or set(rows) <= set(self.rows)


@dataclass(frozen=True)
class LogRequest:
    """The content of one request."""

    params: list[tuple[str, str]] = field(default_factory=list)
    rows: list[MetricRow] = field(default_factory=list)
    tags: list[tuple[str, str]] = field(default_factory=list)


def entity_key(text: str) -> str:
    """Convert the text to a valid name: ``heads=4, dim=64`` becomes ``heads:4 dim:64``.

    If anything else has to change, a hash of the text is added, so that names stay distinct.
    """
    is_plain = _PLAIN.fullmatch(text) is not None and posixpath.normpath(text) == text
    if is_plain and text != "." and not text.startswith(("/", "..")) and len(text) <= KEY_LIMIT:
        return text.replace("=", ":").replace(", ", " ")
    cut = re.sub(r"[^\w.-]", "_", text.replace("=", "-"))[: KEY_LIMIT - 20]
    return f"{cut}.{_sha256(text)[:8]}"


def shortened(values: Mapping[str, str], limit: int, file: str) -> tuple[dict[str, str], str]:
    """Replace values above the limit by a hash.

    Returns:
        The values, and the content of the file that holds the long ones whole, which is empty if
        all values fit.
    """
    long = {name: value for name, value in values.items() if len(value) > limit}
    hashed = {
        name: f"sha256:{_sha256(value)} ({len(value)} characters, whole in {file})"
        for name, value in long.items()
    }
    body = json.dumps(long, indent=1, sort_keys=True, ensure_ascii=False) if long else ""
    return {**values, **hashed}, body


def requests_for(
    params: Mapping[str, str], rows: Sequence[MetricRow], tags: Mapping[str, str]
) -> list[LogRequest]:
    """Split the content into as few requests as possible, in order; the last tag comes last."""
    kinds: dict[str, Iterable[MetricRow | tuple[str, str]]] = {
        "params": params.items(),
        "rows": rows,
        "tags": tags.items(),
    }
    requests: list[LogRequest] = []
    num_bytes, held = 0, Counter[str]()  # size and entities of the last request
    for kind, entities in kinds.items():
        for entity in entities:
            size = len(json.dumps(str(entity))) + 50  # an estimate that counts JSON escapes
            is_full = held.total() == MAX_ENTITIES or held[kind] == _MOST.get(kind)
            if not requests or is_full or num_bytes + size > REQUEST_LIMIT:
                requests.append(LogRequest())
                num_bytes, held = 0, Counter()
            getattr(requests[-1], kind).append(entity)
            num_bytes += size
            held[kind] += 1
    return requests


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# Tag prefix on the parent, for an artifact's hash; holds two hashes during a replacement.
SHA256_TAG = "bakeoff.sha256."
NO_FILE = "none"  # in place of a hash, while a file is sent for the first time

_PAGE = 1_000
_INVALID = "INVALID_PARAMETER_VALUE"  # MLflow's error code
_SECONDS_TO_SETTLE = 2.0  # how long a reader waits for a file that is being replaced
_NAME_LIMIT = 500  # characters; see mlflow/utils/validation.py
_DIGEST_LENGTH = 12  # digits; MLflow accepts 36, but every row of the table shows them
_UNREACHABLE = {
    "Connection refused": "nothing answers there (connection refused)",
    "timed out": "it does not answer in time",
    "Failed to resolve": "the host name is unknown",
}
# Signs of permanent errors: MLflow's error codes, and words of MLflow, alembic and SQLite.
_SHUT = ("UNAUTHENTICATED", "PERMISSION_DENIED", "ENDPOINT_NOT_FOUND")
_NEVER = (
    "not in a valid JSON format",
    "out-of-date database schema",
    "Can't locate revision",
    "readonly database",
    "not a database",
    "No module named",
)
_ADDRESS = re.compile(r"https?://[^\s,;]+")


class StoreUnavailable(UnavailableError):
    """Raised if MLflow is not installed, not reachable or refuses; one sentence, no secrets."""


class StoreRefuses(StoreUnavailable):
    """Raised if the store answers, and would refuse the same request again."""


class UnusableStore(StoreUnavailable):
    """Raised if this is not a usable MLflow store, and waiting does not change that."""


@contextmanager
def store_errors(uri: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Convert these errors to `StoreUnavailable`, with one sentence that shows no password.

    They become `StoreRefuses` if MLflow reports an invalid request, and `UnusableStore` if no
    request will ever succeed.
    """
    try:
        yield
    except errors as error:
        reason = _reason(str(error).strip() or type(error).__name__)
        code = getattr(error, "error_code", "")
        is_refused = code == _INVALID
        is_unusable = code in _SHUT or any(sign in str(error) for sign in _NEVER)
    else:
        return
    for secret in secrets_of(uri):
        reason = reason.replace(secret, "***")
    reason = redact(reason)[:300]
    kind, does = (StoreRefuses, "refuses") if is_refused else (StoreUnavailable, "is not available")
    if is_unusable and not is_refused:
        kind, does = UnusableStore, "cannot be used"
    raise kind(f"The MLflow store {redact(uri)} {does}: {reason}") from None


def _reason(told: str) -> str:
    """Return the reason in plain words, without mlflow's list of retries."""
    if "Max retries exceeded" in told:
        return next((plain for words, plain in _UNREACHABLE.items() if words in told), told[:100])
    return told.splitlines()[0]


def now_ms() -> int:
    """Return the time in milliseconds since 1970, as MLflow counts."""
    return time.time_ns() // 1_000_000


class MlflowStore:
    """One store, and the requests that are sent to it through mlflow's client.

    Args:
        uri: A checked address.
        client: An `mlflow.MlflowClient` for it.
        entities: The module `mlflow.entities`.
        errors: The exceptions that the client raises if the store fails.
        transaction: Sends the requests of a block in one transaction, or None if the store does not
            support that.
    """

    def __init__(
        self,
        uri: str,
        client: Any,
        entities: Any,
        errors: tuple[type[Exception], ...],
        transaction: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:
        self.uri = uri
        self.client = client
        self._entities = entities
        self._errors = errors
        self._transaction = transaction

    def call_before_requests(self, callback: Callable[[], None]) -> None:
        """Call this before each request from now on; its exceptions propagate."""
        self.client = _ClientWithCallback(self.client, callback)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send the requests of the block in one transaction, if the store is a file.

        A request that fails is rolled back alone, unless its error leaves the block: then all are.
        """
        if self._transaction is None:
            yield
            return
        client = self.client
        if isinstance(client, _ClientWithCallback):
            self.client = client.told_once()
        try:
            with self._transaction():
                yield
        finally:
            self.client = client

    def reached(self) -> AbstractContextManager[None]:
        """Convert errors of the store and of the connection to it to `StoreUnavailable`."""
        return store_errors(self.uri, self._errors)

    def new_experiment(self, name: str, location: str | None, tags: Mapping[str, str]) -> Any:
        """Create an experiment."""
        return self.client.get_experiment(self.client.create_experiment(name, location, dict(tags)))

    def tag_experiment(self, experiment: Any, tags: Mapping[str, str]) -> None:
        """Set the tags that are missing or have another value."""
        for tag, value in tags.items():
            if experiment.tags.get(tag) != value:
                self.client.set_experiment_tag(experiment.experiment_id, tag, value)

    def runs(self, experiment_id: str, scale: str) -> list[Any]:
        """Return parents and children of a sweep, the earliest first."""
        return self._search([experiment_id], f"tags.`bakeoff.scale` = '{scale}'")

    def parents(self, experiment_ids: Sequence[str]) -> list[Any]:
        """Return the parents of several ablations, the earliest first, by one request."""
        if not experiment_ids:
            return []  # MLflow would search all experiments
        return self._search(experiment_ids, "tags.`bakeoff.role` = 'sweep'")

    def _search(self, experiment_ids: Sequence[str], query: str) -> list[Any]:
        found = _all_pages(
            lambda token: self.client.search_runs(
                list(experiment_ids),
                query,
                max_results=_PAGE,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
        )
        return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))

    def ablations(self) -> list[Any]:
        """Return the experiments that have our tag, the earliest first, including deleted ones."""
        every = self._entities.ViewType.ALL
        found = _all_pages(
            lambda token: self.client.search_experiments(every, _PAGE, page_token=token)
        )
        ours = (each for each in found if "bakeoff.ablation" in each.tags)
        return sorted(ours, key=lambda each: (each.creation_time or 0, each.experiment_id))

    def create(self, experiment_id: str, tags: Mapping[str, str], start_ms: int) -> Any:
        """Create a run with all its tags, in one request."""
        run = self.client.create_run(experiment_id, start_time=start_ms, tags=dict(tags))
        if not run.info.run_id:  # a proxy answers every request with an empty page
            raise OSError("the server there is not an MLflow server.")
        return run

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        rows: Sequence[MetricRow] = (),
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Log parameters, metrics and tags, in one request if they fit into one."""
        kinds = self._entities
        for request in requests_for(params or {}, rows, tags or {}):
            self.client.log_batch(
                run_id,
                [kinds.Metric(r.key, r.value, r.timestamp_ms, r.step) for r in request.rows],
                [kinds.Param(name, value) for name, value in request.params],
                [kinds.RunTag(name, value) for name, value in request.tags],
                synchronous=True,
            )

    def log_data_sets(self, run_id: str, data_sets: Mapping[str, DataSet]) -> None:
        """Log each data set of these tasks once; data sets that the run already has are kept."""
        kinds = self._entities
        context = [kinds.InputTag("mlflow.data.context", "training")]
        inputs = [
            kinds.DatasetInput(kinds.Dataset(**dataset_fields(data_set)), context)
            for data_set in dict.fromkeys(data_sets.values())
        ]
        self.client.log_inputs(run_id, inputs)

    def put_files(self, run_id: str, files: Mapping[str, bytes]) -> None:
        """Send artifacts, by their path, in one request."""
        with tempfile.TemporaryDirectory() as folder:
            for name, body in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
            self.client.log_artifacts(run_id, folder)

    def history(self, run_id: str, metric: str) -> list[MetricRow]:
        """Return every number that was logged under a name."""
        found = self.client.get_metric_history(run_id, metric)
        return [MetricRow(each.key, each.value, each.timestamp, each.step) for each in found]

    def end(self, run_id: str, status: str) -> None:
        """End the run, now."""
        self.client.set_terminated(run_id, status, now_ms())

    def fetch(self, run: Any, name: str, folder: Path) -> None:
        """Fetch an artifact of a parent; raise if its hash is not one that was published."""
        tags, until = run.data.tags, 0.0
        while hashlib.sha256(self._download(run, name, folder)).hexdigest() not in (
            tags[SHA256_TAG + name].split()
        ):
            if until and time.monotonic() > until:
                raise StoreUnavailable(
                    f"{name} in the store differs from the published file: its SHA-256 differs. "
                    f"`{command('run', 'NAME')}` publishes it again."
                )
            until = until or time.monotonic() + _SECONDS_TO_SETTLE
            time.sleep(0.2)
            tags = self.client.get_run(run.info.run_id).data.tags

    def held_file(self, run: Any, name: str, folder: Path) -> bytes | None:
        """Return an artifact without a check of its hash, or None if it cannot be fetched."""
        try:
            return self._download(run, name, folder)
        except self._errors:
            return None

    def held_folder(self, run: Any, name: str, folder: Path) -> Path:
        """Return a folder of artifacts, whose path does not exist if they cannot be fetched."""
        try:
            return self._local_artifact(run, name) or Path(
                self.client.download_artifacts(run.info.run_id, name, str(folder))
            )
        except self._errors:
            return folder / name

    def _local_artifact(self, run: Any, name: str) -> Path | None:
        """Return the path of an artifact beside the database, even if its folder was copied."""
        database, recorded = sqlite_path(self.uri), Path(run.info.artifact_uri)
        if database is None or not recorded.is_absolute():
            return None
        here = database.parent.joinpath("artifacts", *recorded.parts[-3:])
        return here / name if here.is_dir() or not recorded.is_dir() else None

    def _download(self, run: Any, name: str, folder: Path) -> bytes:
        local = self._local_artifact(run, name)
        if local is not None:
            return Path(shutil.copy(local, folder / name)).read_bytes()
        self.client.download_artifacts(run.info.run_id, name, str(folder))
        return (folder / name).read_bytes()


def dataset_fields(data_set: DataSet) -> dict[str, str]:
    """Describe a data set in MLflow's fields; the dashboard can open ``http`` sources."""
    address = _ADDRESS.search(data_set.origin)
    source = {
        "licence": data_set.licence,
        "origin": data_set.origin,
        "sha256": data_set.sha256,
        **({"url": address.group()} if address else {}),
    }
    return {
        "name": data_set.title[:_NAME_LIMIT],
        "digest": data_set.sha256[:_DIGEST_LENGTH],
        "source_type": "http" if address else "external",
        "source": json.dumps(source, sort_keys=True),
    }


def _all_pages(ask: Callable[[str | None], Any]) -> list[Any]:
    found = [*(page := ask(None))]
    while page.token:
        found += (page := ask(page.token))
    return found


class _ClientWithCallback:
    """A wrapper that calls the callback before each request to the client."""

    def __init__(self, client: Any, callback: Callable[[], None]) -> None:
        self._client = client
        self._callback = callback

    def told_once(self) -> Any:
        """Call the callback once, now; return the client without the callback."""
        self._callback()
        return self._client

    def __getattr__(self, name: str) -> Any:
        request = getattr(self._client, name)

        def send(*args: Any, **kwargs: Any) -> Any:
            self._callback()
            return request(*args, **kwargs)

        return send
