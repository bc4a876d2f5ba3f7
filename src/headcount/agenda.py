"""What a session holds next, and when its people come: a search and its checks, rates of an open loop, or a trace.

Everything follows from the levels held so far; reads no clock, sends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from headcount.analysis.after_search import BURST, SOAK, next_check, without_checks
from headcount.analysis.conclusions import LevelSummary, Limits, Plan
from headcount.analysis.rates import next_rate, stay_s
from headcount.analysis.search import next_level, spent_s
from headcount.records import Level
from headcount.workload import Expected
from headcount.workload.arrivals import ArrivalPlan, Closed, Finite, Open, Replayed, Synchronised

__all__ = ["Agenda"]

GUESSED_TOKENS_PER_S = 50.0
"""How fast one person's answer is written, before any was measured: the starts of the first level are spread by it."""
FIRST_INSIDE = 4.0
"""People inside on the first level of a search for a rate."""


class Agenda:
    """One session's; ``recommends`` gives the number of people that the levels of a search recommend."""

    def __init__(
        self,
        arrivals: ArrivalPlan,
        limits: Limits,
        expected: Expected,
        recommends: Callable[[Sequence[LevelSummary]], int | None],
    ) -> None:
        self._arrivals = arrivals
        self._limits = limits
        self._expected = expected
        self._recommends = recommends

    def next_plan(self, summaries: Sequence[LevelSummary]) -> Plan | None:
        """The next level; of an open loop, the people who are expected to be inside at once."""
        if isinstance(self._arrivals, Open | Replayed):
            return self._next_rate(summaries) if self._searches_rates else self._next_given(summaries)
        searched = without_checks(summaries)
        plan = next_level(searched, self._limits)
        return plan or next_check(summaries, self._recommends(searched), self._limits)

    def enough(self, plan: Plan, summary: LevelSummary, in_flight: int) -> bool:
        """Whether a level may end before its time; with so many requests unanswered right now."""
        if self._searches_rates:
            grows = summary.growth is not None and summary.growth.decision == "grows"
            return grows or in_flight >= self._limits.max_users
        if plan.purpose == BURST:
            return summary.burst is not None and summary.burst.recovered_after_s is not None
        return plan.purpose not in ("fixed", SOAK) and summary.decision in ("holds", "fails")

    def level(self, plan: Plan, summaries: Sequence[LevelSummary], index: int, began_at_s: float) -> Level:
        """The level of a plan, as if it began then."""
        arrivals, position = self._arrivals, len(summaries)
        together = plan.purpose == BURST or not isinstance(arrivals, Closed | Synchronised)
        return Level(
            index=index,
            users=plan.users,
            began_at_s=began_at_s,
            purpose=plan.purpose,
            arrivals=str(arrivals.__struct_config__.tag),
            rate_per_s=plan.rate_per_s,
            spread_s=0.0 if together else self.turn_cycle_s(plan.users, summaries),
            conversations_each=_conversations_each(arrivals, position),
        )

    def filled_after_s(self, level: Level, summaries: Sequence[LevelSummary]) -> float:
        """How long after its beginning a level has all its people: the last has started, or, in the open loop, as many
        leave as come."""
        if self._searches_rates:
            return stay_s(summaries) or self._expected_stay_s(())
        return level.spread_s * (level.users - 1) / level.users

    def turn_cycle_s(self, users: int, summaries: Sequence[LevelSummary]) -> float:
        """One mean turn with its pause: as on the level nearest in size, guessed while none is known."""
        known = {s.users: s.turn_cycle_s for s in summaries if s.turn_cycle_s is not None}
        if known:
            return known[min(known, key=lambda others: abs(others - users))]
        return self._expected.output_tokens / GUESSED_TOKENS_PER_S + self._expected.think_s + self._expected.stage_s

    @property
    def _searches_rates(self) -> bool:
        """Whether people arrive at a rate that nobody gave."""
        return isinstance(self._arrivals, Open) and not self._arrivals.rates_per_s

    def _expected_stay_s(self, summaries: Sequence[LevelSummary]) -> float:
        """How long one person stays."""
        return self._expected.turns * self.turn_cycle_s(0, summaries)

    def _next_rate(self, summaries: Sequence[LevelSummary]) -> Plan | None:
        """The next rate of a search, which begins with two people inside."""
        first_stay_s = self._expected_stay_s(())
        limits = msgspec.structs.replace(self._limits, start_rate_per_s=FIRST_INSIDE / first_stay_s)
        return next_rate(summaries, limits, first_stay_s)

    def _next_given(self, summaries: Sequence[LevelSummary]) -> Plan | None:
        """The next of the given rates; a trace has a pace of its own and is held once."""
        rates_per_s = self._arrivals.rates_per_s if isinstance(self._arrivals, Open) else (None,)
        position = len(summaries)
        left_s = self._limits.max_time_s - spent_s(summaries)
        if position >= len(rates_per_s) or left_s <= 0:
            return None
        rate_per_s = rates_per_s[position]
        users = math.ceil((rate_per_s or 1.0) * self._expected_stay_s(summaries))
        return Plan(users, "fixed", min(self._limits.level_time_s, left_s), rate_per_s)


def _conversations_each(arrivals: ArrivalPlan, position: int) -> int | None:
    """After how many conversations each person of the level in this position leaves; None when nobody does."""
    if isinstance(arrivals, Finite):
        return arrivals.conversations_at(position)
    return 1 if isinstance(arrivals, Open | Replayed) else None
