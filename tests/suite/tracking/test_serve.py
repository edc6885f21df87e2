"""Tests for the dashboard's server, and for its pages in a browser."""

from __future__ import annotations

import csv
import os
import re
import shutil
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
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.finish import SweepOutcome, conclude, counted
from bakeoff.suite.tracking.artifacts import files_in
from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.location import RefusedUri, Store, store_of
from bakeoff.suite.tracking.read import StoreReader
from bakeoff.suite.tracking.serve import (
    Dashboard,
    dashboard_command,
    landing_page,
    running_dashboard,
    serve,
)
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.finished_sweep import FinishedSweep
from tests.suite.heads_sweep import LocalStore

pytestmark = pytest.mark.whole

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _processes_with(text: str) -> list[int]:
    """Return the ids of the running processes whose command line contains the text."""
    processes = psutil.process_iter(["pid", "cmdline"])
    return [p.info["pid"] for p in processes if text in " ".join(p.info["cmdline"] or [])]


@pytest.fixture(scope="module")
def finished() -> FinishedSweep:
    return FinishedSweep("heads")


@pytest.fixture(scope="module")
def shown_store(
    finished: FinishedSweep, empty_store: LocalStore, tmp_path_factory: pytest.TempPathFactory
) -> LocalStore:
    """Return the store of a finished sweep of nine trials, with its report."""
    store = empty_store.copied_to(tmp_path_factory.mktemp("out"))
    _conclude(finished, store.writer(), store.out, store_of(store.out, None))
    return store


@pytest.fixture(scope="module")
def shown(shown_store: LocalStore) -> Iterator[Dashboard]:
    store = shown_store
    with running_dashboard(store.out, store.uri, port=_free_port()) as dashboard:
        yield dashboard
    assert _processes_with(str(store.out)) == []


EDITIONS = (20, 30, 40)  # steps of each edition


@pytest.fixture(
    scope="module",
    params=[pytest.param(num_seeds, marks=pytest.mark.slow) for num_seeds in (5, 17, 67)],
)
def edited(
    request: pytest.FixtureRequest,
    empty_store: LocalStore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LocalStore, Dashboard]]:
    """Yield a sweep of three variants and three editions, with 5, 17 or 67 seeds each."""
    store = empty_store.copied_to(tmp_path_factory.mktemp("edited"))
    for steps in EDITIONS:
        sweep = FinishedSweep("edited", num_seeds=request.param, steps=steps)
        _conclude(sweep, store.writer(), store.out, store_of(store.out, None))
    with running_dashboard(store.out, store.uri, port=_free_port()) as dashboard:
        yield store, dashboard


def _conclude(sweep: FinishedSweep, writer: RunWriter, out: Path, store: Store) -> SweepOutcome:
    """Do everything that a driver does, except running the trials."""
    with Journal(out / "journal.db") as journal:
        planned = sweep.recorded(writer, journal)
        ended = counted([planned], journal, 0)
        return conclude(ended, [planned], journal, writer, out, store)


def _base(dashboard: Dashboard) -> str:
    return dashboard.url.partition("/#")[0]


def test_the_command_serves_this_folder_to_this_machine(store: LocalStore) -> None:
    command = dashboard_command(store.out, store.uri, port=5077)
    assert command[:4] == [sys.executable, "-m", "bakeoff.suite.tracking.mlflow_server", "server"]
    options = dict(zip(command[4::2], command[5::2], strict=True))
    assert options == {
        "--backend-store-uri": store.uri,
        "--artifacts-destination": str(store.out / "artifacts"),
        "--host": "127.0.0.1",
        "--port": "5077",
        "--workers": "1",
    }


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000])
def test_nothing_to_show_yet(tmp_path: Path, content: bytes | None) -> None:
    database = tmp_path / "mlflow.db"
    if content is not None:
        database.write_bytes(content)
    with pytest.raises(SpecError, match=r"start with `bakeoff run NAME --out \S+`\.$"):
        dashboard_command(tmp_path, f"sqlite:///{database}")
    assert database.exists() == (content is not None)


def test_addresses_that_are_no_local_store(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="in a browser"):
        dashboard_command(tmp_path, "http://127.0.0.1:5000")
    with pytest.raises(RefusedUri):
        dashboard_command(tmp_path, "sqlite:///../x.db")


def test_a_port_that_cannot_be_used_is_refused_at_once(store: LocalStore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (70_000, -1, taken.getsockname()[1]):
            started = time.monotonic()
            with pytest.raises(StoreUnavailable, match=rf"Port {port} .* --port"):
                serve(store.out, store.uri, port=port)
            assert time.monotonic() - started < 1.0


def test_a_server_that_does_not_start_says_why(store: LocalStore) -> None:
    with closing(sqlite3.connect(store.database)) as database:
        database.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
        database.commit()
    with pytest.raises(StoreUnavailable, match=r"from_the_future"):
        serve(store.out, store.uri, port=_free_port())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_all_its_processes(store: LocalStore, number: signal.Signals) -> None:
    program = (
        "import sys; from pathlib import Path; from bakeoff.suite.tracking.serve import serve;"
        "serve(Path(sys.argv[1]), sys.argv[2], port=int(sys.argv[3]),"
        " say=lambda text: print(text, flush=True))"
    )
    port = _free_port()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(store.out), store.uri, str(port)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline().startswith("Starting the dashboard")
        assert f"http://127.0.0.1:{port}/" in command.stdout.readline()
        os.kill(command.pid, number)
        assert command.stdout.read() == "The dashboard has ended.\n"
    assert command.returncode == 0
    assert _processes_with(str(store.out)) == []


def test_a_foreign_host_name_is_turned_away(shown: Dashboard) -> None:
    """Check that DNS rebinding fails: a page of another site cannot read the server."""
    request = urllib.request.Request(f"{_base(shown)}/api/2.0/mlflow/experiments/get-by-name")
    request.add_header("Host", "evil.example.org")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=10)
    assert refusal.value.code == 403
    refusal.value.close()


@pytest.mark.slow
def test_a_server_takes_what_a_file_takes_and_gives_the_same_report_anywhere(
    shown: Dashboard, tmp_path: Path
) -> None:
    """Check that a second recording adds nothing, and that a deleted report is remade exactly."""
    base, sweep = _base(shown), FinishedSweep("over_http")
    for folder in ("first", "again"):
        (tmp_path / folder).mkdir()
        store = Store(uri=base, artifacts=None)
        outcome = _conclude(sweep, RunWriter(store), tmp_path / folder, store)
        assert outcome.error == ""
    assert len(StoreReader(base).sweep(("over_http", "quick")).trials) == len(sweep.plan.trials)
    (comparison,) = outcome.comparisons
    assert comparison.startswith(f"{base}/#/experiments/")
    made = files_in(tmp_path / "again" / "reports")
    assert {"index.html", "over_http/index.html"} <= set(made)
    shutil.rmtree(tmp_path / "again")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [str(Path(sys.executable).with_name("bakeoff")), "report", "over_http"]
    done = subprocess.run(
        [*command, "--tracking-uri", base],
        cwd=elsewhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    remade = files_in(elsewhere / "out" / "reports")
    overviews = ["index.html", "index.md"]
    # The new overview lists everything on the server.
    assert b"heads/index.html" in remade[overviews[1]]
    for name in overviews:
        del made[name], remade[name]
    assert remade == made


def test_it_opens_at_one_ablation_or_the_last_one(
    shown_store: LocalStore, shown: Dashboard, store: LocalStore
) -> None:
    page = landing_page(shown_store.uri, "heads")
    assert shown.url == f"{_base(shown)}/{page}"
    assert "viewStateShareKey=quick&compareRunsMode=CHART" in page
    assert landing_page(store.uri, "") == "#/experiments?workflowType=machine_learning"
    with pytest.raises(SpecError, match="`bakeoff run unheard_of` does that"):
        landing_page(shown_store.uri, "unheard_of")


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
    """Yield a page of a new browser context, without cookies and storage."""
    with browser.new_context(viewport={"width": 1600, "height": 1000}) as visit:
        visit.set_default_timeout(30_000)
        yield visit.new_page()


def _picture(page: Page, name: str) -> None:
    """Save a screenshot in the folder that BAKEOFF_PICTURES names, if it is set."""
    folder = os.environ.get("BAKEOFF_PICTURES")
    if folder:
        page.screenshot(path=str(Path(folder, f"{name}.png")))


def _runs(shown: Dashboard, page: Page) -> None:
    """Open the experiment's table with an unfolded parent, by an address without a page type."""
    page.goto(f"{_base(shown)}/#/experiments/1")
    page.get_by_role("link", name="heads=8 · shakespeare_characters · seed 0").wait_for()


@pytest.mark.slow
@pytest.mark.browser
def test_the_list_of_experiments_leads_to_the_ablation(
    finished: FinishedSweep, shown: Dashboard, page: Page
) -> None:
    page.goto(f"{_base(shown)}/#/experiments?workflowType=machine_learning")
    page.get_by_text(finished.plan.about.question).first.wait_for()
    _picture(page, "experiments")
    page.get_by_role("link", name="heads", exact=True).click()
    page.wait_for_url(re.compile(r"#/experiments/\d+"))


@pytest.mark.browser
def test_people_land_on_the_variants_side_by_side(shown: Dashboard, page: Page) -> None:
    page.goto(shown.url)
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    page.locator("path.js-line[d*=L], path.js-line[d*=C]").first.wait_for()
    _picture(page, "comparison")
    means, curves = (card.inner_text() for card in cards.all()[:2])
    assert means.startswith("bits_per_character\n")
    assert {"2.71", "2.56", "2.51"} <= set(means.splitlines())  # over three seeds each
    assert curves.startswith("validation_bits_per_character\n")
    page.get_by_text("3 matching runs").wait_for()


@pytest.mark.slow
@pytest.mark.browser
def test_before_there_is_a_report_people_see_the_trials_and_their_curves(
    shown: Dashboard, page: Page
) -> None:
    page.goto(shown.url.replace("viewStateShareKey=quick", "viewStateShareKey=quick.trials"))
    for _ in range(2):
        page.get_by_text("9 matching runs").wait_for()
        page.get_by_role("link", name="heads=8 · shakespeare_characters · seed 0").wait_for()
        page.get_by_test_id("experiment-view-compare-runs-card").first.wait_for()
        _picture(page, "trials")
        page.reload()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1600, 800])
def test_every_way_in_shows_the_reports_numbers_of_the_newest_edition(
    edited: tuple[LocalStore, Dashboard], page: Page, width: int
) -> None:
    """Check the address, a reload and the table; editions must not be averaged."""
    store, shown = edited
    with (store.out / "reports/edited/tables/shakespeare_characters.csv").open() as file:
        report = {row["variant"]: row for row in csv.DictReader(file)}
    scores = [float(report[f"heads={heads}"]["bits_per_character (bit)"]) for heads in (8, 2, 1)]
    page.set_viewport_size({"width": width, "height": 1000})
    page.goto(f"{_base(shown)}/")
    for _ in range(2):
        page.get_by_text("3 matching runs").wait_for()
        card = page.get_by_test_id("experiment-view-compare-runs-card").first
        for score in scores:
            card.get_by_text(f"{score:.2f}", exact=True).wait_for()
        _picture(page, f"edited-{width}")
        page.reload()
    page.set_viewport_size({"width": 1600, "height": 1000})  # narrow pages hide these columns
    page.goto(shown.url.replace("CHART", "TABLE"))
    page.get_by_role("link", name="heads=8 · shakespeare_characters · edition 3").wait_for()
    for row, heads in enumerate((8, 2, 1)):
        for end, column in (("", " (bit)"), ("_low", "_low"), ("_high", "_high")):
            name = f"metrics.`bits_per_character{end}`"
            cell = page.locator(f'[row-index="{row}"] [col-id="{name}"]')
            wanted = float(report[f"heads={heads}"][f"bits_per_character{column}"])
            assert float(cell.inner_text()) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.browser
def test_the_parent_leads_to_its_report(shown: Dashboard, page: Page) -> None:
    _runs(shown, page)
    page.get_by_role("link", name="heads · quick").first.click()
    page.get_by_text("8 heads beat one: supported").first.wait_for()
    _picture(page, "parent")
    # The description is redrawn while the page loads, and would lose a click.
    page.goto(page.get_by_role("link", name="The report").evaluate("link => link.href"))
    report = page.frame_locator("iframe#html")
    report.get_by_role("heading", level=1).wait_for()
    _picture(page, "report")
    header = report.locator("th", has=report.get_by_role("button")).first
    header.get_by_role("button").click()  # the page's script runs in the frame
    report.locator("th[aria-sort=ascending]").first.wait_for()


@pytest.mark.slow
@pytest.mark.browser
def test_a_trial_shows_its_curve_and_what_its_model_writes(shown: Dashboard, page: Page) -> None:
    _runs(shown, page)
    page.get_by_role("link", name="heads=8 · shakespeare_characters · seed 0").click()
    page.get_by_role("heading", name="heads=8 · shakespeare_characters · seed 0").wait_for()
    page.get_by_text("after 12.5 s on Test CPU").wait_for()
    page.get_by_text("38 plays of William Shakespeare").first.wait_for()
    _picture(page, "trial")
    page.get_by_role("tab", name="Model metrics").click()
    page.get_by_role("button", name="Add chart").last.scroll_into_view_if_needed()
    line = page.locator("path.js-line[d*=L], path.js-line[d*=C]")
    card = page.get_by_test_id("experiment-view-compare-runs-card").filter(has=line)
    card.first.wait_for()
    _picture(page, "curve")
    assert "bits_per_character" in card.first.inner_text()
    assert re.findall("[LC]", line.first.get_attribute("d") or "")[1:]  # connected points
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("samples").click()
    page.get_by_text("continuation.txt").click()
    page.get_by_text("To be, or not to be").wait_for()
    _picture(page, "sample")
