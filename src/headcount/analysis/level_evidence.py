"""What the checks of one level look at."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from headcount.analysis.level_test import Window
from headcount.analysis.table import Floats, Rows
from headcount.records import Level, Sample
from headcount.slo import Clause

__all__ = ["LevelEvidence"]


class LevelEvidence(msgspec.Struct, frozen=True):
    """One level: its requests, its samples, what was promised."""

    level: Level
    rows: Rows
    """Everything, in order of its end."""
    inside: Rows
    """What ended inside the steady window."""
    window: Window
    samples: tuple[Sample, ...]
    slo: tuple[Clause, ...]
    first_error: str | None

    def values(self, name: str) -> list[float]:
        """Samples of one name inside the steady window, in order of time."""
        return [s.value for s in self._sampled(name)]

    def by_place(self, name: str) -> dict[str, list[float]]:
        """The same, apart by what they were measured on."""
        found: dict[str, list[float]] = defaultdict(list)
        for sample in self._sampled(name):
            found[sample.of].append(sample.value)
        return found

    def total(self, name: str) -> Floats:
        """Their sum over all places, reading by reading."""
        places = list(self.by_place(name).values())
        length = min(map(len, places), default=0)
        return np.sum([values[:length] for values in places], axis=0) if length else np.array([])

    def _sampled(self, name: str) -> list[Sample]:
        began, ended = self.window.began_at_s, self.window.ended_at_s
        return [s for s in self.samples if s.name == name and began <= s.at_s <= ended]

    @property
    def ttft_bound_s(self) -> float | None:
        """The tightest bound on TTFT; None when no clause names it."""
        return min((c.bound for c in self.slo if c.metric == "ttft"), default=None)

    @property
    def tolerable_delay_s(self) -> float:
        """What our own side may add to a wait: max(20 ms, 10 % of the TTFT bound)."""
        return max(0.020, 0.1 * (self.ttft_bound_s or 0.0))
