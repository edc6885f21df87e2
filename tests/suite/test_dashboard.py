"""The dashboard's server, and the pages as a person sees them."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from suite.dashboard import (
    Dashboard,
    DashboardUnavailable,
    NothingToShow,
    RefusedAddress,
    dashboard_command,
    running_dashboard,
    serve,
)
from suite.record import Recorder, load_artifacts
from suite.tracking_uri import BadUri, RefusedUri
from tests.suite.heads_sweep import HeadsSweep, LocalStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.suite.conftest import HeadsSweep, LocalStore

CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FILES = {"results.parquet": b"results", "curves.parquet": b"curves"}


@pytest.fixture(scope="session")
def heads() -> HeadsSweep:
    return HeadsSweep()


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    store = LocalStore(tmp_path_factory.mktemp("store"))
    store.recorder()
    return store


@pytest.fixture
def store(empty_store: LocalStore, tmp_path: Path) -> LocalStore:
    return empty_store.copied_to(tmp_path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _processes_with(text: str) -> list[int]:
    """Running processes whose command line holds the text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if text in line:
            found.append(int(folder.name))
    return found


@pytest.fixture(scope="module")
def shown(
    heads: HeadsSweep, empty_store: LocalStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dashboard]:
    """A dashboard over a finished sweep of three trials."""
    store = empty_store.copied_to(tmp_path_factory.mktemp("out"))
    recorder = store.recorder()
    recorder.open_sweep(heads.about)
    for trial in (heads.trial(1), heads.trial(8), heads.timing()):
        recorder.start_trial(heads.key, trial, heads.cells(trial), 1)
        recorder.finish_trial(heads.key, trial, heads.cells(trial), heads.result(trial))
    recorder.publish(heads.key, FILES)
    recorder.close_sweep(heads.key, {"ok": 3}, finished=True)
    with running_dashboard(store.out, store.uri, port=_free_port()) as dashboard:
        yield dashboard
    assert _processes_with(str(store.out)) == []


def test_the_command_serves_this_folder_to_this_machine(store: LocalStore) -> None:
    command = dashboard_command(store.out, store.uri, port=5077)
    assert command[:4] == [sys.executable, "-m", "mlflow", "server"]
    options = dict(zip(command[4::2], command[5::2], strict=True))
    assert options == {
        "--backend-store-uri": store.uri,
        "--artifacts-destination": str(store.out / "artifacts"),
        "--host": "127.0.0.1",
        "--port": "5077",
        "--workers": "1",
    }


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "", "127.0.0.1.evil"])
def test_other_machines_are_refused(store: LocalStore, host: str) -> None:
    with pytest.raises(RefusedAddress, match="no password"):
        dashboard_command(store.out, store.uri, host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_this_machine_has_several_names(store: LocalStore, host: str) -> None:
    assert host in dashboard_command(store.out, store.uri, host)


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000])
def test_nothing_to_show_yet(tmp_path: Path, content: bytes | None) -> None:
    database = tmp_path / "mlflow.db"
    if content is not None:
        database.write_bytes(content)
    with pytest.raises(NothingToShow, match=r"start with `bakeoff run`\.$"):
        dashboard_command(tmp_path, f"sqlite:///{database}")
    assert database.exists() == (content is not None)


def test_addresses_that_are_no_local_store(tmp_path: Path) -> None:
    with pytest.raises(NothingToShow, match="in a browser"):
        dashboard_command(tmp_path, "http://127.0.0.1:5000")
    with pytest.raises(RefusedUri):
        dashboard_command(tmp_path, "sqlite:///../x.db")
    with pytest.raises(BadUri):
        dashboard_command(tmp_path, "x.db")


@pytest.mark.parametrize("port", [70_000, -1])
def test_a_port_that_is_none(store: LocalStore, port: int) -> None:
    with pytest.raises(DashboardUnavailable, match=f"Port {port}"):
        serve(store.out, store.uri, port=port)


def test_a_port_that_is_taken_is_told_at_once(store: LocalStore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(DashboardUnavailable, match=rf"Port {port} .* --port"):
            serve(store.out, store.uri, port=port)
        assert time.monotonic() - started < 1.0


def test_a_server_that_does_not_start_says_why(store: LocalStore) -> None:
    with closing(sqlite3.connect(store.database)) as database:
        database.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
        database.commit()
    with pytest.raises(DashboardUnavailable, match=r"did not start: .*from_the_future"):
        serve(store.out, store.uri, port=_free_port())


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_ends_it_with_all_its_processes(store: LocalStore, number: signal.Signals) -> None:
    program = (
        "import sys; from pathlib import Path; from suite.dashboard import serve;"
        "serve(Path(sys.argv[1]), sys.argv[2], port=int(sys.argv[3]),"
        " say=lambda text: print(text, flush=True))"
    )
    port = _free_port()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(store.out), store.uri, str(port)],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as command:  # fmt: skip
        assert command.stdout is not None
        assert command.stdout.readline().startswith("Starting the dashboard")
        assert f"http://127.0.0.1:{port}/" in command.stdout.readline()
        os.kill(command.pid, number)
        assert command.stdout.read() == "The dashboard has ended.\n"
    assert command.returncode == 0
    assert _processes_with(str(store.out)) == []


def test_a_foreign_host_name_is_turned_away(shown: Dashboard) -> None:
    """A page of another site, whose name was made to point here, reads nothing."""
    base = shown.url.partition("/#")[0]
    request = urllib.request.Request(f"{base}/api/2.0/mlflow/experiments/get-by-name")
    request.add_header("Host", "evil.example.org")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=10)
    assert refusal.value.code == 403
    refusal.value.close()


def test_a_server_takes_what_a_file_takes(
    heads: HeadsSweep, shown: Dashboard, tmp_path: Path
) -> None:
    """The recorder speaks to a server over HTTP as well; twice is once there too."""
    base = shown.url.partition("/#")[0]
    about = replace(heads.about, ablation="over_http")
    key, trial = ("over_http", "quick"), heads.trial()
    for _ in range(2):
        recorder = Recorder(base, None)
        known = recorder.open_sweep(about)
        if not known:
            recorder.start_trial(key, trial, heads.cells(trial), 1)
        recorder.finish_trial(key, trial, heads.cells(trial), heads.result(trial))
        recorder.publish(key, FILES)
        recorder.close_sweep(key, {"ok": 1}, finished=True)
    assert known == {trial.trial_id: heads.result(trial).sha256}
    ((_, folder),) = load_artifacts(base, "over_http", tmp_path)
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=CHROMIUM_OPTIONS, timeout=60_000
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """As a first visit: nothing is remembered of pages seen before."""
    with browser.new_context(viewport={"width": 1600, "height": 1000}) as visit:
        visit.set_default_timeout(30_000)
        yield visit.new_page()


def _picture(page: Page, name: str) -> None:
    """Kept where BAKEOFF_PICTURES names a folder, to be looked at."""
    folder = os.environ.get("BAKEOFF_PICTURES")
    if folder:
        page.screenshot(path=str(Path(folder, f"{name}.png")))


@pytest.mark.browser
def test_the_list_of_experiments_leads_to_the_ablation(
    heads: HeadsSweep, shown: Dashboard, page: Page
) -> None:
    page.goto(shown.url.partition("/#")[0] + "/#/experiments?workflowType=machine_learning")
    page.get_by_text(heads.about.question).first.wait_for()
    _picture(page, "experiments")
    page.get_by_role("link", name="heads", exact=True).click()
    page.wait_for_url(re.compile(r"#/experiments/\d+"))


@pytest.mark.browser
def test_people_land_on_the_training_runs(heads: HeadsSweep, shown: Dashboard, page: Page) -> None:
    page.goto(shown.url)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    parent = page.locator("[role=row]", has_text="heads · quick").first
    parent.wait_for()
    parent.get_by_role("button").first.click()
    for name in ("heads=1 · shakes", "heads=8 · shakes", "step_time · 2 variants"):
        page.get_by_text(name).first.wait_for()
    _picture(page, "runs")


@pytest.mark.browser
def test_a_trial_shows_its_curve(heads: HeadsSweep, shown: Dashboard, page: Page) -> None:
    page.goto(shown.url)
    parent = page.locator("[role=row]", has_text="heads · quick").first
    parent.get_by_role("button").first.click()
    page.get_by_role("link", name="heads=8 · shakespeare_characters · seed 0").click()
    page.get_by_role("heading", name="heads=8 · shakespeare_characters · seed 0").wait_for()
    page.get_by_text("after 12.5 s on Test CPU").wait_for()
    _picture(page, "trial")
    page.get_by_role("tab", name="Model metrics").click()
    page.get_by_role("button", name="Add chart").last.scroll_into_view_if_needed()
    line = page.locator("path.js-line[d*=L], path.js-line[d*=C]")
    card = page.get_by_test_id("experiment-view-compare-runs-card").filter(has=line)
    card.first.wait_for()
    _picture(page, "curve")
    assert "bits_per_character" in card.first.inner_text()
    assert re.findall("[LC]", line.first.get_attribute("d") or "")[1:]  # three points, joined
