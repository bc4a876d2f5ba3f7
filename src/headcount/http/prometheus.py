"""Readings from a page of metrics in the Prometheus text format. Knows nothing of what the names mean."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Reading", "readings"]


class Reading(NamedTuple):
    """One line of a page."""

    name: str
    labels: dict[str, str]
    value: float


def readings(page: str, names: Iterable[str]) -> list[Reading]:
    """The lines of ``page`` that bear one of ``names``, in its order; finite values only.

    Only those lines are parsed, one by one: a page may be megabytes of histograms, and one malformed line must
    not cost the others.

    >>> readings('a{x="1"} 2\\nb 3\\n# TYPE a gauge\\na nonsense', ["a"])
    [Reading(name='a', labels={'x': '1'}, value=2.0)]
    """
    wanted = frozenset(names)
    found = []
    for line in page.split("\n"):
        name = line.partition("{")[0].partition(" ")[0]
        if name in wanted:
            found += _parsed(line)
    return found


def _parsed(line: str) -> list[Reading]:
    try:
        samples = [sample for family in text_string_to_metric_families(line + "\n") for sample in family.samples]
    except ValueError:
        return []
    return [Reading(s.name, s.labels, float(s.value)) for s in samples if math.isfinite(s.value)]
