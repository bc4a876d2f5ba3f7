"""Stored runs for scripts and notebooks: load, summarise, judge anew, plot. They show themselves in Jupyter.

Knows nothing of servers; everything comes out of the run folder.
"""

from __future__ import annotations

import functools
import html
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from headcount import store
from headcount.analysis.compare import Ratio
from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.analysis.verdict import judge
from headcount.errors import ScenarioError
from headcount.records import Level, Request, RunFacts, Sample
from headcount.report import Report, write
from headcount.report.comparison import write_comparison
from headcount.report.figures import Figure, people_figures, time_figures
from headcount.report.format import clean, moment
from headcount.report.page import page
from headcount.report.versus import SideBySide, sentence, side_by_side
from headcount.report.words import words
from headcount.review import asked_of, limits_of, review, scenario_of, summaries_of
from headcount.scenario import Scenario
from headcount.slo import parse_slo

__all__ = ["Compared", "Picture", "StoredRun", "compare", "open_run"]

PAGE_HEIGHT, PICTURE_HEIGHT = "75vh", "26rem"


def open_run(path: str | os.PathLike[str]) -> StoredRun:
    """A run folder of this or any older format; raises ``RunError`` when it is none."""
    return StoredRun(store.open_run(Path(path)))


class StoredRun:
    """One run: its facts as they were written down, and what follows from them."""

    def __init__(self, run: store.Run) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"<headcount run {self.path.name}: {self.verdict.sentence}>"

    def _repr_html_(self) -> str:
        return _framed(self.report("html"), PAGE_HEIGHT)

    # --- facts --------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The folder."""
        return self._run.path

    @property
    def facts(self) -> RunFacts:
        """What was measured, with what, from when on."""
        return self._run.facts

    @property
    def scenario(self) -> Scenario:
        """As it was given."""
        return scenario_of(self._run)

    def levels(self) -> list[Level]:
        """What was held, in order."""
        return self._run.levels()

    def requests(self, level: int | None = None) -> Iterator[Request]:
        """Every request, or those of one level by its index, in the order in which they ended; streamed."""
        return self._run.requests(level)

    def samples(self) -> Iterator[Sample]:
        """GPUs, the server's gauges, the client; in the order in which they were taken."""
        return self._run.samples()

    # --- what follows -------------------------------------------------------------------------

    @functools.cached_property
    def verdict(self) -> Verdict:
        """How many people, how sure, what gives out first; by the run's own service level."""
        return review(self._run)

    @property
    def summaries(self) -> tuple[LevelSummary, ...]:
        """Each level's figures and what was decided on it."""
        return self.verdict.levels

    def judge(self, slo: str | Sequence[str], headroom: float | None = None) -> Verdict:
        """Judge the same facts by another service level: a preset, or clauses such as ``ttft_p95 <= 1 s``.

        The levels were chosen for the run's own one: another limit may lie where nothing was measured, and the verdict
        then says so. An imported run of which only figures are known cannot be judged anew.
        """
        clauses = parse_slo(slo if isinstance(slo, str) else tuple(slo))
        scenario = self.scenario
        summaries = summaries_of(self._run, clauses)
        share = scenario.search.headroom if headroom is None else headroom
        # As fixed levels: no search would go on from here.
        limits = msgspec.structs.replace(limits_of(scenario), levels=tuple(sorted({one.users for one in summaries})))
        return judge(summaries, limits, clauses, headroom=share, comfort=scenario.comfort)

    # --- shown --------------------------------------------------------------------------------

    def report(self, form: str = "terminal", language: str = "en") -> str:
        """The report as text: ``terminal``, ``markdown``, ``json``, ``html`` or ``csv``."""
        return write(form, self._report(language))

    @property
    def pictures(self) -> tuple[str, ...]:
        """What ``plot`` can draw of this run."""
        return tuple(figure["key"] for figure in self._figures("en"))

    def plot(self, *keys: str, language: str = "en") -> Picture:
        """The plots of these names, of ``pictures``; all without any. Shows itself in a notebook."""
        figures = self._figures(language)
        known = {figure["key"]: figure for figure in figures}
        unknown = [key for key in keys if key not in known]
        if unknown:
            raise ScenarioError(f"this run has no plot {unknown[0]!r}", f"it has: {', '.join(known)}")
        chosen = [known[key] for key in keys] or figures
        said = {
            "title": clean(self.path.name),
            "when": moment(self.facts.started_utc),
            "version": self.facts.headcount_version,
        }
        return Picture(page("plot.html.j2", language, chosen, said), len(chosen))

    def _figures(self, language: str) -> list[Figure]:
        _ = words(language)
        return [
            *people_figures(self.verdict, self.facts, _),
            *time_figures(self.verdict, self.facts, self._run.samples, _),
        ]

    def _report(self, language: str) -> Report:
        return Report(self.verdict, self.facts, self._run, language)


class Picture(msgspec.Struct, frozen=True):
    """Plots as a page that is complete in itself."""

    html: str
    plots: int

    def __repr__(self) -> str:
        return f"<{self.plots} plot{'s' if self.plots != 1 else ''} of a headcount run; save(path) writes the page>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file."""
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        return _framed(self.html, PICTURE_HEIGHT if self.plots == 1 else PAGE_HEIGHT)


class Compared:
    """Two runs held against each other."""

    def __init__(self, both: SideBySide) -> None:
        self._both = both

    def __repr__(self) -> str:
        return f"<headcount comparison: {self.sentence}>"

    def _repr_html_(self) -> str:
        return _framed(self.report("html"), PAGE_HEIGHT)

    @property
    def statement(self) -> str:
        """Of the second run: ``better``, ``worse``, ``mixed``, ``no-difference``, ``cannot-tell`` or
        ``nothing-common``"""
        return self._both.pairs[0].comparison.statement

    @property
    def sentence(self) -> str:
        """The same in words."""
        return sentence(self._both.pairs[0], words("en"))

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """The second run over the first, level by level, then over all levels together."""
        comparison = self._both.pairs[0].comparison
        return (*comparison.levels, *comparison.overall)

    def report(self, form: str = "terminal") -> str:
        """As text: ``terminal``, ``markdown``, ``json`` or ``html``."""
        return write_comparison(form, self._both)


def compare(first: StoredRun, second: StoredRun, names: tuple[str, str] | None = None) -> Compared:
    """Hold two runs against each other where both held as many people."""
    runs = (first, second)
    reports = [Report(run.verdict, run.facts, store.open_run(run.path)) for run in runs]
    asked = [asked_of(run.scenario) for run in runs]
    return Compared(side_by_side(reports, names or [run.path.name for run in runs], first.scenario.comfort, asked))


def _framed(whole: str, height: str) -> str:
    """A page within a page, with no access to it: scripts run in the frame alone."""
    return (
        f'<iframe srcdoc="{html.escape(whole)}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {height}; border: 0"></iframe>'
    )
