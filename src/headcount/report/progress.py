"""What is happening, while it happens: one live line on a terminal, plain lines elsewhere. All of it on stderr.

Told by the session about once a second; reads no clock of its own.
"""

from __future__ import annotations

import sys

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headcount.analysis.conclusions import LevelSummary, Plan
from headcount.records import Level
from headcount.report.format import clean, duration, number, seconds, tokens_per_s
from headcount.report.words import people, words

__all__ = ["Progress"]

_STYLES = {"holds": "green", "fails": "red", "undecided": "yellow", "void": "dim"}


class Progress:
    """Shows levels as they begin, go on and end. A context manager, since a live line must be taken away.

    Where stderr is no terminal a level gets a line at its beginning and end, and one every ``line_every_s`` seconds
    of the run between.
    """

    def __init__(self, console: Console | None = None, *, line_every_s: float = 15.0, language: str = "en") -> None:
        self._console = console or Console(file=sys.stderr, highlight=False)
        self._on_terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        self._line_every_s = line_every_s
        self._words = words(language)
        self._live: Live | None = None
        self._time_s = 0.0
        self._written_at_s = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def say(self, text: str) -> None:
        """A line that stays: what was found, a caution as it comes up."""
        self._console.print(Text(clean(text, 1000)), soft_wrap=True)

    def level_began(self, level: Level, plan: Plan) -> None:
        """A level begins: the live line appears, or one plain line is written."""
        self._time_s, self._written_at_s = plan.time_s, level.began_at_s
        line = self._start(level).append("  " + self._left(plan.time_s), "dim")
        if not self._on_terminal:
            self._console.print(line, soft_wrap=True)
            return
        self.close()
        # stdout stays untouched: data goes there.
        self._live = Live(line, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False)
        self._live.start()

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """Figures of the steady window so far; the live line is redrawn four times a second, however often told."""
        line = self._start(level).append("  " + self._figures(summary, in_flight))
        line.append("  " + self._left(self._time_s - (summary.ended_at_s - level.began_at_s)), "dim")
        if self._live is not None:
            self._live.update(line)
        elif not self._on_terminal and summary.ended_at_s - self._written_at_s >= self._line_every_s:
            self._written_at_s = summary.ended_at_s
            self._console.print(line, soft_wrap=True)

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """One line that stays, with the reason when the level is void."""
        self.close()
        _ = self._words
        line = self._people(level).append("  ").append(_padded(_(_outcome(summary)), 9), _STYLES[summary.decision])
        line.append("  " + self._figures(summary, summary.in_flight_mean))
        self._console.print(line, soft_wrap=True)
        if summary.decision == "void":
            for caution in summary.cautions:
                if caution.fatal:
                    self._console.print(Text(f"{'':12}  {clean(_(caution.sentence))}", "dim"), soft_wrap=True)

    def close(self) -> None:
        """Take the live line away; needed before anything else writes to the terminal. May be called twice."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _people(self, level: Level) -> Text:
        who = people(level.users, self._words)
        shown = Text(" " * max(0, 12 - cell_len(who)) + who, "bold")
        return shown.append(f"  {clean(self._words(level.condition), 24)}", "cyan") if level.condition else shown

    def _start(self, level: Level) -> Text:
        return self._people(level).append("  " + _padded(self._words(level.purpose), 9), "dim")

    def _left(self, left_s: float) -> str:
        _ = self._words
        return _("at most {time} left").format(time=duration(left_s, _))

    def _figures(self, summary: LevelSummary, in_flight: float | None) -> str:
        _ = self._words
        whole = summary.ttft_s.n == 0 and summary.e2e_s.n > 0
        latency_s = summary.e2e_s.p95 if whole else summary.ttft_s.p95
        figures = [
            _("{n} in flight").format(n=number(in_flight)),
            _("{n} answers").format(n=number(summary.n_requests, 9)),
            (_("answer p95 {time}") if whole else _("TTFT p95 {time}")).format(time=seconds(latency_s)),
            _("{n} tokens/s").format(n=tokens_per_s(summary.output_tokens_per_s)),
        ]
        if summary.n_errors:
            figures.append(_("{n} errors").format(n=summary.n_errors))
        return "  ".join(figures)


def _outcome(summary: LevelSummary) -> str:
    """What came of a level: of a rate whether it is stable; a burst decides nothing."""
    if summary.decision == "void":
        return summary.decision
    if summary.growth is not None:
        return summary.growth.decision
    return summary.purpose if summary.burst is not None else summary.decision


def _padded(text: str, width: int) -> str:
    """To so many columns; Korean letters take two."""
    return text + " " * max(0, width - cell_len(text))
