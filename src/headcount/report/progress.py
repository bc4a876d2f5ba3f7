"""What is happening, while it happens: one live line on a terminal, plain lines elsewhere. All of it on stderr.

Given plain values by the session; reads no clock of its own, so that a simulated run is drawn by its own time.
"""

from __future__ import annotations

import math
import sys

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headcount.report.format import clean, duration, number, seconds, tokens_per_s
from headcount.report.words import people, words

__all__ = ["Moment", "Progress"]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A level as it stands now."""

    at_s: float
    users: int
    purpose: str = "measure"
    in_flight: int = 0
    n_requests: int = 0
    """Ended in this level so far."""
    n_errors: int = 0
    ttft_p95_s: float | None = None
    output_tokens_per_s: float | None = None
    left_s: float | None = None
    """The most the whole run may still take."""


class Progress:
    """Draws moments. On a terminal a live line at most every ``every_s`` (0.25) seconds of the run's time, elsewhere
    a plain line at most every ``every_s`` (15); ``math.inf`` leaves the beginnings and ends of levels only."""

    def __init__(self, console: Console | None = None, *, every_s: float | None = None, language: str = "en") -> None:
        self._console = console or Console(file=sys.stderr, highlight=False)
        self._live_terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        self._every_s = every_s if every_s is not None else (0.25 if self._live_terminal else 15.0)
        self._words = words(language)
        self._live: Live | None = None
        self._drawn_at_s = -math.inf

    def say(self, text: str) -> None:
        """A line that stays: the plan, what was found, a caution as it comes up."""
        self._console.print(Text(clean(text, 1000)), soft_wrap=True)

    def level_begins(self, moment: Moment) -> None:
        """A level begins: the live line starts, or one plain line is written."""
        self._drawn_at_s = moment.at_s
        if not self._live_terminal:
            self._console.print(self._begin(moment), soft_wrap=True)
        elif self._live is None:
            # No refreshing thread, and our stdout stays untouched: data goes there.
            self._live = Live(
                self._now(moment),
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)

    def update(self, moment: Moment) -> None:
        """The level goes on; drawn only when it is time to."""
        if moment.at_s - self._drawn_at_s < self._every_s:
            return
        self._drawn_at_s = moment.at_s
        if self._live is not None:
            self._live.update(self._now(moment), refresh=True)
        elif not self._live_terminal:
            self._console.print(self._now(moment), soft_wrap=True)

    def level_ends(self, moment: Moment, decision: str, reason: str = "") -> None:
        """A level has ended: one line that stays."""
        self.close()
        _ = self._words
        style = {"holds": "green", "fails": "red", "undecided": "yellow"}.get(decision, "dim")
        line = Text(f"{people(moment.users, _):>12}  ").append(f"{_(decision):<9}", style)
        line.append(f"  {self._figures(moment)}").append(f"  {clean(reason)}" if reason else "")
        self._console.print(line, soft_wrap=True)

    def close(self) -> None:
        """Take the live line away; needed before anything else writes to the terminal. May be called twice."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _begin(self, moment: Moment) -> Text:
        _ = self._words
        left = _("at most {time} left").format(time=duration(moment.left_s)) if moment.left_s is not None else ""
        return Text("  ".join(filter(None, [f"{people(moment.users, _):>12}", _(moment.purpose), left])), "dim")

    def _now(self, moment: Moment) -> Text:
        _ = self._words
        text = Text(f"{people(moment.users, _):>12}", "bold").append(f"  {_(moment.purpose):<9}", "dim")
        text.append("  " + self._figures(moment), "")
        if moment.left_s is not None:
            text.append("  " + _("at most {time} left").format(time=duration(moment.left_s)), "dim")
        return text

    def _figures(self, moment: Moment) -> str:
        _ = self._words
        figures = [
            _("{n} in flight").format(n=moment.in_flight),
            _("{n} answers").format(n=number(moment.n_requests, 9)),
            _("TTFT p95 {time}").format(time=seconds(moment.ttft_p95_s)),
            _("{n} tokens/s").format(n=tokens_per_s(moment.output_tokens_per_s)),
        ]
        if moment.n_errors:
            figures.append(_("{n} errors").format(n=moment.n_errors))
        return "  ".join(figures)
