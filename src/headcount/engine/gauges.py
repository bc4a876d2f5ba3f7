"""A server's own figures by our names: a table from our name to theirs, newest first, and how to read a page by it.

Knows no kind of server: each brings its table. A name that no page bears is absent from the result, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from headcount.engine import inquiry
from headcount.http import Client
from headcount.http.prometheus import Reading, readings

__all__ = ["Gauge", "Meter", "Page", "combined", "figures", "largest", "mean", "total"]

_MOST_BYTES = 16 * 1024 * 1024
_TIMEOUT_S = 5.0
"""A page that takes longer says more about the server's load than its figures would."""

_WORKER_LABELS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"})
"""Series that differ in these alone are one engine as several of its workers see it: counted once."""


class Gauge(msgspec.Struct, frozen=True):
    """One of our figures on a server's page."""

    names: tuple[str, ...]
    """Theirs, newest first: the first that is on the page counts."""
    across: Literal["sum", "max", "mean"] = "sum"
    """What to make of several series, one a data-parallel engine."""


def total(*names: str) -> Gauge:
    """The sum over all series."""
    return Gauge(names)


def largest(*names: str) -> Gauge:
    """The fullest of several engines."""
    return Gauge(names, "max")


def mean(*names: str) -> Gauge:
    """The mean over several engines."""
    return Gauge(names, "mean")


class Page(msgspec.Struct, frozen=True):
    """What was found where metrics should be."""

    state: str
    """As in ``EngineFacts.metrics``."""
    text: str = ""
    figures: dict[str, float] = {}
    """By our names; empty unless it is a Prometheus page with names we know."""


class Meter(msgspec.Struct, frozen=True):
    """Where one kind of server shows its figures, under which names, and what turns them on."""

    table: dict[str, Gauge]
    turn_on: str
    """Said when there are none: a flag, in a sentence's second half ("start it with --metrics")."""
    path: str = "/metrics"

    async def page(self, client: Client) -> Page:
        """The page as it is; never raises."""
        response = await inquiry.get(client, self.path, _TIMEOUT_S)
        if response is None:
            return Page("absent")
        if response.status in (401, 403):
            return Page("protected")
        if response.status != 200:
            return Page("absent")
        text = response.body[:_MOST_BYTES].decode("utf-8", "replace")
        if not _is_metrics(text):
            return Page("malformed", text)
        return Page("prometheus", text, figures(text, self.table))

    async def notes(self, client: Client) -> tuple[str, ...]:
        """What a person should know when the server's queue and memory stay invisible; empty otherwise. To be
        asked after a first answer: some servers show a figure only once there was one."""
        page = await self.page(client)
        if page.figures:
            return ()
        return (
            {
                "absent": f"the server shows no metrics at {self.path}: {self.turn_on}",
                "protected": f"the server's metrics at {self.path} are protected: give the right API key",
                "prometheus": f"the metrics at {self.path} bear none of the names known to us: another version?",
            }.get(page.state, f"what the server shows at {self.path} are no metrics: is something in between?"),
        )


def figures(text: str, table: dict[str, Gauge]) -> dict[str, float]:
    """Our figures from a Prometheus page.

    >>> page = 'run{engine="0"} 3\\nrun{engine="1"} 5\\nold_kv{engine="0"} 0.2\\nold_kv{engine="1"} 0.8'
    >>> figures(page, {"running": total("run"), "kv": largest("new_kv", "old_kv"), "waiting": total("wait")})
    {'running': 8.0, 'kv': 0.8}
    """
    by_name: dict[str, list[Reading]] = {}
    for reading in readings(text, (name for gauge in table.values() for name in gauge.names)):
        by_name.setdefault(reading.name, []).append(reading)
    found = {}
    for ours, gauge in table.items():
        theirs = next((name for name in gauge.names if name in by_name), None)
        if theirs is not None:
            found[ours] = combined(_by_engine(by_name[theirs]), gauge.across)
    return found


def combined(values: Iterable[float], across: str) -> float:
    """Several engines' values as one; there must be at least one."""
    known = list(values)
    if across == "max":
        return max(known)
    return sum(known) / (len(known) if across == "mean" else 1)


def _by_engine(series: list[Reading]) -> list[float]:
    """One value an engine: of its workers the one that tells most."""
    found: dict[frozenset[tuple[str, str]], float] = {}
    for reading in series:
        key = frozenset(pair for pair in reading.labels.items() if pair[0] not in _WORKER_LABELS)
        found[key] = max(reading.value, found.get(key, reading.value))
    return list(found.values())


def _is_metrics(text: str) -> bool:
    """Whether a line is a name and a number, or there is no line but comments yet."""
    lines = [line for line in text.split("\n", 2000)[:2000] if line.strip() and not line.startswith("#")]
    for line in lines:
        name = line.partition("{")[0].partition(" ")[0]
        if readings(line, [name]):
            return True
    return not lines
