"""What people and machines read. An extension point: one file a format, table ``FORMATS``.

A format is a function from a ``Report`` to text. Milliseconds and percent exist only in ``format.py``, and every
text from outside (a model's name, a server's error) is cleaned or escaped there and in the format's own file.
Knows nothing of how the facts were stored or the verdict was reached.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

import msgspec

from headcount.analysis.conclusions import Verdict
from headcount.errors import ScenarioError
from headcount.records import Level, Request, RunFacts, Sample

__all__ = ["FORMATS", "Report", "write"]

FORMATS: dict[str, str] = {
    "terminal": "headcount.report.terminal:write",
    "json": "headcount.report.as_json:write",
    "markdown": "headcount.report.markdown:write",
}


def _no_requests(level: int | None) -> Iterable[Request]:
    return ()


def _no_samples() -> Iterable[Sample]:
    return ()


class Report(msgspec.Struct, frozen=True):
    """What a report is made from: the verdict, and the facts behind it."""

    verdict: Verdict
    facts: RunFacts
    scenario_text: str = ""
    levels: tuple[Level, ...] = ()
    requests: Callable[[int | None], Iterable[Request]] = _no_requests
    """Requests of one level, or all for None; streamed."""
    samples: Callable[[], Iterable[Sample]] = _no_samples
    language: str = "en"
    width: int = 100
    """Columns of a terminal."""


def write(name: str, report: Report) -> str:
    """The report as text in the format ``name``: a key of ``FORMATS`` or ``module:function``."""
    where = FORMATS.get(name, name)
    module, colon, attribute = where.partition(":")
    if not colon:
        raise ScenarioError(f"format {name!r} is not known", f"known: {', '.join(FORMATS)}, or module:function")
    try:
        function: Callable[[Report], str] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"format {name!r} cannot be loaded: {error}", "check the module's path and name") from error
    return function(report)
