"""The page in a real browser, where there is one: plots are drawn, react, and nothing is complained of or asked for.

Needs playwright and axe (``pip install --group browser``) and Chromium; CHROMIUM names it where it is not
/usr/bin/chromium. SCREENSHOTS names a folder in which to leave pictures of every page that is looked at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headcount.report import Report, write
from headcount.report.comparison import write_comparison
from headcount.report.versus import side_by_side
from tests.report.invented import ALL, FACTS, HOSTILE_FACTS, PLAIN, altered, level, report, stored

playwright = pytest.importorskip("playwright.sync_api", reason="the browser group is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the browser group is not installed")
CHROMIUM = shutil.which(os.environ.get("CHROMIUM", "chromium"))
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def opened(
    browser: Any, tmp_path: Path, name: str = "plain", language: str = "en", **how: Any
) -> tuple[Any, list[str]]:
    """The page of an invented verdict, and all that went wrong on it until now."""
    facts = HOSTILE_FACTS if name == "hostile" else FACTS
    file = tmp_path / "report.html"
    file.write_text(
        write("html", Report(ALL[name], facts, stored(tmp_path, ALL[name], facts), language)), encoding="utf-8"
    )
    return load(browser, file, **how)


def load(browser: Any, file: Path, **how: Any) -> tuple[Any, list[str]]:
    """Open a file and note complaints, dialogs and requests."""
    faults: list[str] = []
    page = browser.new_page(**how)
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on("request", lambda asked: None if asked.url == file.as_uri() else faults.append(asked.url))
    page.goto(file.as_uri())
    return page, faults


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_every_page_opens_without_a_fault(browser: Any, tmp_path: Path, name: str, language: str, size: Any) -> None:
    """In both widths; a plot is drawn for each figure, and nothing is wider than the window."""
    page, faults = opened(browser, tmp_path, name, language, viewport=size)

    drawn, wanted = (page.locator(one).count() for one in (".uplot canvas", "[data-figure]"))
    assert drawn == wanted
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert faults == []
    page.close()


def looked_at(page: Any, name: str) -> None:
    """Leave a picture where SCREENSHOTS says."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_axe_finds_no_serious_fault(browser: Any, tmp_path: Path, language: str, theme: str, size: Any) -> None:
    """Contrast, names, order, roles, in both themes, widths and languages, with everything unfolded."""
    page, faults = opened(browser, tmp_path, language=language, viewport=size, color_scheme=theme)
    looked_at(page, f"report-{language}-{theme}-{size['width']}")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    assert serious(page) == []
    assert faults == []
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_comparisons_are_pages_of_the_same_kind(browser: Any, tmp_path: Path, theme: str) -> None:
    """Curves of all runs in one plot, no fault, nothing wider than the window."""
    file = tmp_path / "comparison.html"
    slower = altered(levels=tuple(level(n, users, p95_s=0.08 * users) for n, users in enumerate((1, 16, 32, 48))))
    both = side_by_side([report(PLAIN), report(slower)], ("before", "after"))
    file.write_text(write_comparison("html", both), encoding="utf-8")
    page, faults = load(browser, file, viewport=PHONE, color_scheme=theme)
    looked_at(page, f"comparison-{theme}")

    assert page.locator(".uplot canvas").count() == page.locator("[data-figure]").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []
    assert faults == []
    page.close()


def serious(page: Any) -> list[str]:
    """What axe calls serious or critical, with the place."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def test_hover_tells_values(browser: Any, tmp_path: Path) -> None:
    """The legend shows the numbers under the pointer."""
    page, faults = opened(browser, tmp_path)
    plot = page.locator("[data-figure='0'] .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)

    page.wait_for_function("/\\d (ms|s)/.test(document.querySelector('[data-legend=\"0\"]').innerText)", timeout=5000)
    assert faults == []
    page.close()


def test_lines_can_be_hidden_with_the_keyboard(browser: Any, tmp_path: Path) -> None:
    """A name in the legend is a button that says its state."""
    page, faults = opened(browser, tmp_path)
    name = page.locator("[data-legend='0'] .u-label[role=button]").first
    name.focus()
    page.keyboard.press("Enter")

    assert name.get_attribute("aria-pressed") == "false"
    page.keyboard.press("Enter")
    assert name.get_attribute("aria-pressed") == "true"
    assert faults == []
    page.close()


def test_theme_and_scale_can_be_changed(browser: Any, tmp_path: Path) -> None:
    """The page and its plots are redrawn in the other colours, and on a logarithmic axis."""
    page, faults = opened(browser, tmp_path, color_scheme="light")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    page.locator("[data-log='0']").click()

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert page.locator("[data-log='0']").get_attribute("aria-pressed") == "true"
    assert page.locator(".uplot canvas").count() == page.locator("[data-figure]").count()
    assert faults == []
    page.close()


def test_text_and_tables_stand_without_a_script(browser: Any, tmp_path: Path) -> None:
    """Where scripts are off all is said but the plots, and the page says where their numbers are."""
    page, faults = opened(browser, tmp_path, java_script_enabled=False)

    assert page.get_by_text("The plots need JavaScript").is_visible()
    assert page.get_by_text(PLAIN.sentence).is_visible()
    assert page.locator("table").first.is_visible()
    assert not page.locator("#theme").is_visible()
    assert faults == []
    page.close()


def test_a_huge_report_opens_soon(browser: Any, tmp_path: Path) -> None:
    """200 levels: drawn within seconds even here; see benchmarks for the time on a quiet machine."""
    many = altered(
        levels=tuple(level(n, n + 1, "holds" if n < 150 else "fails", miss_fraction=n / 1000) for n in range(200))
    )
    file = tmp_path / "report.html"
    file.write_text(write("html", Report(many, FACTS, stored(tmp_path, many, each=20))), encoding="utf-8")
    page, faults = load(browser, file)

    assert page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") < 20_000
    assert faults == []
    page.close()
