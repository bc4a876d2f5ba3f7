"""The docs cannot drift: what they show is run, what they link to is there, what they must name they name."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headcount
from headcount.metrics import METRICS
from headcount.records import ERROR_KINDS
from headcount.slo import PRESETS

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [module.name for module in pkgutil.walk_packages(headcount.__path__, "headcount.")]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What can be linked to within a page: its headings in lower case, hyphens for spaces."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(page.read_text())}


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Links within the repository: as written, where they lead, and the anchor there or nothing."""
    for link in LINK.findall(page.read_text()):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            yield link, (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every file and heading that a page links to is there."""
    broken = [
        link
        for link, target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]

    assert broken == []


def test_every_page_can_be_reached() -> None:
    """From the index, link by link."""
    reached: set[Path] = set()
    waiting = [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        waiting += [target for _, target, _ in links(page)]

    assert [page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in reached] == []


@pytest.mark.timeout(600)
def test_console_blocks_show_what_happens() -> None:
    """Each command in a console block, run now, gives the output under it."""
    checked = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "renew.py"), "--check"], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name: str) -> None:
    """Every doctest gives what it shows."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_metrics_page_names_every_metric_error_and_preset() -> None:
    """A name that may stand in a scenario or a run folder is explained."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()

    assert [name for name in (*METRICS, *ERROR_KINDS, *PRESETS) if f"`{name}`" not in page] == []


def test_the_glossary_is_in_order() -> None:
    """Terms stand in the order of the alphabet."""
    terms = HEADING.findall((ROOT / "docs" / "reference" / "glossary.md").read_text())[1:]

    assert terms == sorted(terms, key=str.lower)
