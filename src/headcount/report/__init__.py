"""What people and machines read. An extension point: one file a format, table ``FORMATS``.

A format is a function from a ``Report`` to text. Milliseconds and percent exist only in ``format.py``, and every
text from outside (a model's name, a server's error) is cleaned or escaped there and in the format's own file.
Knows nothing of how the verdict was reached.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from headcount.analysis.conclusions import Verdict
from headcount.errors import RunError, ScenarioError
from headcount.prices import Prices
from headcount.records import RunFacts
from headcount.report.words import language_of
from headcount.store import Run, open_run

__all__ = ["FORMATS", "Report", "known_format", "save_html", "write", "write_report"]

FORMATS: dict[str, str] = {
    "terminal": "headcount.report.terminal:write",
    "json": "headcount.report.as_json:write",
    "markdown": "headcount.report.markdown:write",
    "html": "headcount.report.html:write",
    "csv": "headcount.report.as_csv:write",
}


class Report(msgspec.Struct, frozen=True):
    """What a report is made from: the verdict, and the facts behind it."""

    verdict: Verdict
    facts: RunFacts
    run: Run | None = None
    """None: only what the verdict itself carries can be told."""
    language: str = "en"
    width: int = 100
    """Columns of a terminal."""
    prices: Prices | None = None
    """What the owner pays; None: energy is told, cost is not."""


def write(name: str, report: Report) -> str:
    """The report as text in the format ``name``; see ``known_format``."""
    return known_format(name)(report)


def known_format(name: str) -> Callable[[Report], str]:
    """The function behind a key of ``FORMATS`` or ``module:function``; ``ScenarioError`` for anything else, so that
    a wrong name is noticed before the work and not after it."""
    where = FORMATS.get(name, name)
    module, colon, attribute = where.partition(":")
    if not colon:
        raise ScenarioError(f"format {name!r} is not known", f"known: {', '.join(FORMATS)}, or module:function")
    try:
        function: Callable[[Report], str] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"format {name!r} cannot be loaded: {error}", "check the module's path and name") from error
    return function


def write_report(
    name: str,
    verdict: Verdict,
    facts: RunFacts,
    path: Path,
    language: str | None = None,
    prices: Prices | None = None,
) -> None:
    """The report of the run folder ``path`` on stdout; in colour where stdout is a terminal, and a page is saved there
    instead of shown. The language is the locale's unless given."""
    language = language or language_of(os.environ)
    if sys.stdout.isatty() and name == "html":
        print(save_html(verdict, facts, path, language, prices))
        return
    if sys.stdout.isatty() and name == "terminal":
        from rich.console import Console

        from headcount.report.terminal import render

        console = Console(highlight=False)
        console.print(render(verdict, facts, width=console.width, language=language, prices=prices))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    sys.stdout.write(write(name, Report(verdict, facts, open_run(path), language, width, prices)))


def save_html(
    verdict: Verdict, facts: RunFacts, path: Path, language: str | None = None, prices: Prices | None = None
) -> Path:
    """Write ``report.html`` into the run folder ``path``, replacing an earlier one; where it is."""
    report = Report(verdict, facts, open_run(path), language or language_of(os.environ), prices=prices)
    page = path / "report.html"
    try:
        page.write_text(write("html", report), encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {page}: {error.strerror or error}", "the run's facts are kept") from error
    return page
