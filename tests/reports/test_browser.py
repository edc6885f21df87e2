"""Test what a page shows and does in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bakeoff.reports.render import render, render_overview
from bakeoff.reports.view import Sweep
from tests.reports import conftest as synthetic
from tests.reports import hostile, mixers_alone

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
PHONE, DESK = 390, 1300
NAMES = {"heads=1": "1 head"} | {f"heads={n}": f"{n} heads" for n in (2, 4, 8, 16)}
PARAMETERS = {"heads=1": 9.0, "heads=2": 100.0, "heads=4": 20.0, "heads=8": 3.0, "heads=16": 11.5}
COMPARISON = "table.comparison >> nth=0"

pytestmark = [pytest.mark.browser, pytest.mark.whole]


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


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the reports of an ordinary sweep, of mixers alone, and of a hostile one."""
    folder = tmp_path_factory.mktemp("reports")
    sweeps = {
        "heads": _with_sizes(synthetic.sweep()),
        "complexity": mixers_alone.whole(),
        "hostile": hostile.sweep("hostile"),
        "many": synthetic.many(),
    }
    Path(folder, "pictures").mkdir()
    for name, sweep in sweeps.items():
        render(name, [sweep], folder)
    render_overview({name: [sweep] for name, sweep in sweeps.items()}, folder)
    return folder


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield an empty page; the test fails if anything is logged on the console."""
    said: list[str] = []
    with browser.new_context(viewport={"width": DESK, "height": 900}) as visit:
        visit.set_default_timeout(30_000)
        opened = visit.new_page()
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        yield opened
    assert said == []


def _with_sizes(sweep: Sweep) -> Sweep:
    """Give the variants sizes whose numeric order differs from the alphabetical one."""
    results = sweep.results.copy()
    sizes = results["metric"] == "num_parameters"
    results.loc[sizes, "value"] = results.loc[sizes, "variant"].map(PARAMETERS)
    return Sweep(sweep.about, results, sweep.curves)


def _open(page: Page, folder: Path, name: str = "heads/index.html") -> None:
    page.goto((folder / name).as_uri())


def _picture(page: Page, reports: Path, name: str) -> None:
    """Save the top of the page with the reports, or the whole page in BAKEOFF_PICTURES."""
    folder = os.environ.get("BAKEOFF_PICTURES")
    place = Path(folder or reports / "pictures") / f"{name}.png"
    page.screenshot(path=str(place), full_page=bool(folder))


def _order(page: Page) -> list[str]:
    return page.locator(f"{COMPARISON} >> tbody .label").all_text_contents()


def _sorted_heads(page: Page) -> list[str | None]:
    heads = page.locator("th[aria-sort]")
    return [heads.nth(index).get_attribute("aria-sort") for index in range(heads.count())]


def test_a_click_on_a_head_sorts_by_value_and_again_reverses(page: Page, reports: Path) -> None:
    _open(page, reports)
    before = _order(page)
    assert before == [NAMES[variant] for variant in PARAMETERS]
    button = page.locator(f"{COMPARISON} >> thead button", has_text="parameters")
    rising = [NAMES[variant] for variant in sorted(PARAMETERS, key=lambda v: PARAMETERS[v])]
    for order, direction in ((rising, "ascending"), (rising[::-1], "descending")):
        button.click()
        assert _order(page) == order
        assert _sorted_heads(page) == [direction]
        marked = page.locator(f"{COMPARISON} >> tr.is-baseline .label").all_text_contents()
        assert marked == ["8 heads"]
    page.locator(f"{COMPARISON} >> thead button", has_text="variant").click()
    assert _order(page) == before  # 2 heads before 16 heads
    assert _sorted_heads(page) == ["ascending"]


@pytest.mark.slow
def test_what_is_missing_stands_last_in_both_directions(page: Page, reports: Path) -> None:
    """Sort the second task, where heads=16 was skipped."""
    _open(page, reports)
    table = page.locator("section", has=page.get_by_role("heading", name="majority", exact=True))
    table = table.locator("table.comparison").first
    for _ in range(2):
        table.locator("thead button", has_text="accuracy").click()
        assert table.locator("tbody .label").all_text_contents()[-1] == "16 heads"


@pytest.mark.slow
def test_a_keyboard_sorts_too(page: Page, reports: Path) -> None:
    _open(page, reports)
    page.locator(f"{COMPARISON} >> thead button", has_text="parameters").focus()
    page.keyboard.press("Enter")
    assert _sorted_heads(page) == ["ascending"]
    page.keyboard.press("Space")
    assert _sorted_heads(page) == ["descending"]
    assert _order(page)[0] == "2 heads"


def test_buttons_switch_between_views(page: Page, reports: Path) -> None:
    _open(page, reports, "complexity/index.html")
    group = page.locator(".views", has=page.locator(".switch button")).first
    views, buttons = group.locator(".view"), group.locator(".switch button")
    assert views.count() == buttons.count() >= 2
    for index in (0, 1, 0):
        if index or buttons.nth(1).get_attribute("aria-pressed") == "true":
            buttons.nth(index).click()
        shown = [views.nth(number).is_visible() for number in range(views.count())]
        pressed = [
            buttons.nth(number).get_attribute("aria-pressed") == "true"
            for number in range(views.count())
        ]
        assert shown == pressed == [number == index for number in range(views.count())]
    names = [name.strip() for name in buttons.all_text_contents()]
    assert names == [name.strip() for name in group.locator("h4").all_text_contents()]
    assert group.locator(".switch").get_attribute("aria-label")


# Scrolling boxes are exempt; all others that extend beyond the window or are cut are returned.
_CUT = """(width) => [...document.querySelectorAll("body *")].filter((one) => {
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  if (!box.width || one.closest("svg")) return false;
  const isScrolled = one.parentElement.closest(".scroll, .card, pre");
  const isHidden = ["hidden", "clip"].includes(style.overflowX);
  return (!isScrolled && box.right > width + 1) || style.textOverflow === "ellipsis" ||
    (isHidden && one.scrollWidth > one.clientWidth);
}).map((one) => one.outerHTML.slice(0, 200))"""
_CUT_LABELS = """[...document.querySelectorAll("svg g[transform*=scale]")].filter((one) => {
  const box = one.getBoundingClientRect(), all = one.closest("svg").getBoundingClientRect();
  return box.width && (box.left < all.left - 1 || box.right > all.right + 1 ||
    box.top < all.top - 1 || box.bottom > all.bottom + 1);
}).map((one) => one.outerHTML.slice(0, 200))"""
_NOT_FIXED = """[...document.querySelectorAll(".scroll")].filter((box) => {
  box.scrollLeft = 120;
  const head = box.querySelector("tbody th, tbody td");
  const away = head.getBoundingClientRect().left - box.getBoundingClientRect().left;
  const isCut = box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "auto";
  box.scrollLeft = 0;
  return isCut || Math.abs(away) > 2;
}).map((box) => box.getAttribute("aria-label"))"""
_PAPER_OF_FIGURES = """[...new Set([...document.querySelectorAll("svg:not(.effect)")].map(
  (figure) => getComputedStyle(figure.querySelector(":scope > g path")).fill))]"""
_UNFOLD = """(isOpen) => document.querySelectorAll("details").forEach((one) => {
  one.open = isOpen;
})"""
_DARK_INK = """[...document.querySelectorAll("svg g[transform*=scale]")].map((one) =>
  getComputedStyle(one).fill.match(/\\d+/g).slice(0, 3).map(Number))
  .filter((levels) => Math.max(...levels) < 120)"""


@pytest.mark.parametrize("name", ["heads", "complexity", "hostile", "many", ""])
def test_pages_fit_their_window_and_cut_nothing(page: Page, reports: Path, name: str) -> None:
    """Check wide, phone and dark pages, and keep a picture of each for inspection."""
    _open(page, reports, f"{name}/index.html".lstrip("/"))
    for width in (DESK, PHONE):
        page.set_viewport_size({"width": width, "height": 844})
        _picture(page, reports, f"{name or 'overview'}-{width}")
        page.evaluate(_UNFOLD, True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(_CUT, width) == []
        assert page.evaluate(_NOT_FIXED) == []
        assert page.evaluate(_CUT_LABELS) == []
        page.evaluate(_UNFOLD, False)
    page.set_viewport_size({"width": DESK, "height": 844})
    page.emulate_media(color_scheme="dark")
    _picture(page, reports, f"{name or 'overview'}-dark")
    assert page.evaluate(_PAPER_OF_FIGURES) == (["rgb(20, 23, 28)"] if name else [])
    # the labels of figures
    assert bool(name) == (page.locator("svg g[transform*=scale]").count() > 20)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    assert page.evaluate(_DARK_INK) == []


def test_of_hundreds_of_variants_the_best_stand_first_and_all_are_folded(
    page: Page, reports: Path
) -> None:
    _open(page, reports, "many/index.html")
    assert page.evaluate("document.documentElement.scrollHeight") < 6_000
    assert _order(page)[:2] == ["15 heads, width 1", "15 heads, width 2"]
    assert "1 head, width 20" in _order(page)[:9]  # the baseline
    folded = page.locator("details", has_text="All 300 variants").first
    assert not folded.get_attribute("open")
    assert folded.locator("tbody tr").count() == 300


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_overview_is_as_wide_as_its_window(page: Page, reports: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    _open(page, reports, "index.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".claim").count() == 4
    page.locator(".claim", has_text="complexity").locator("th a").click()
    assert page.url.endswith("/complexity/index.html")


@pytest.mark.slow
def test_dark_is_dark_and_light_is_light(page: Page, reports: Path) -> None:
    _open(page, reports)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        paper, ink = page.evaluate(
            """() => ["backgroundColor", "color"].map((name) =>
                 getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3)
                   .reduce((sum, level) => sum + Number(level), 0) / 3)"""
        )
        assert abs(paper - ink) > 150
        assert (paper < ink) == (scheme == "dark")


@pytest.mark.slow
def test_on_paper_every_view_is_there_and_no_button(page: Page, reports: Path) -> None:
    _open(page, reports)
    page.emulate_media(media="print")
    views = page.locator(".view")
    assert views.count() >= 2
    assert all(views.nth(index).is_visible() for index in range(views.count()))
    assert all(page.locator(".view h4").nth(i).is_visible() for i in range(views.count()))
    assert not page.locator(".switch").first.is_visible()


@pytest.mark.slow
def test_printing_unfolds_what_is_folded(page: Page, reports: Path) -> None:
    _open(page, reports, "complexity/index.html")
    folded = page.locator("details:not([open])").count()
    assert folded > 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == folded


@pytest.mark.slow
def test_without_scripts_everything_is_shown(browser: Browser, reports: Path) -> None:
    with browser.new_context(java_script_enabled=False) as visit:
        page = visit.new_page()
        _open(page, reports)
        views = page.locator(".view")
        assert views.count() >= 2
        assert all(views.nth(index).is_visible() for index in range(views.count()))
        assert page.locator("button").count() == 0


def test_the_contents_lead_to_every_part(page: Page, reports: Path) -> None:
    _open(page, reports)
    links = page.locator("nav.contents a")
    headings = page.locator("main h2").all_text_contents()
    assert links.count() == len(headings)
    for index in range(links.count()):
        target = links.nth(index).get_attribute("href")
        assert page.locator(f"{target} h2").count() == 1
    page.locator('nav.contents a[href="#setting"]').click()
    assert page.locator("#setting > details[open] dl.settings").first.is_visible()


INJECTED = (
    "<script>window.pwned = 1</script>",
    '<img src="data:x" onerror="window.pwned = 1">',
    '<a id="bait" href="javascript:window.pwned = 1">x</a>',
    '<script src="data:text/javascript,window.pwned=1"></script>',
)


@pytest.mark.parametrize("markup", INJECTED)
def test_an_injected_script_does_not_run(
    browser: Browser, reports: Path, tmp_path: Path, markup: str
) -> None:
    """Check that the security policy holds without escaping while our own script runs."""
    text = (reports / "heads/index.html").read_text()
    (tmp_path / "page.html").write_text(text.replace("<main>", f"{markup}<main>", 1))
    said: list[str] = []
    with browser.new_context() as visit:
        page = visit.new_page()
        page.on("console", lambda message: said.append(message.text))
        _open(page, tmp_path, "page.html")
        if "bait" in markup:
            page.locator("#bait").click()
        page.wait_for_timeout(100)
        assert page.evaluate("window.pwned") is None
        assert page.locator("thead button").count() > 0
    assert any("Content Security Policy" in line for line in said)


@pytest.mark.bad_input(48)
def test_a_hostile_page_runs_nothing(page: Page, reports: Path) -> None:
    for name in ("hostile/index.html", "index.html"):
        _open(page, reports, name)
        page.wait_for_timeout(100)
        assert page.evaluate("window.pwned") is None
