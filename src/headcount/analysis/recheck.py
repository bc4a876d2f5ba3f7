"""Whether a server is still what it was: the few levels that tell, and what follows from them.

The old limit is held again, and a number of people well above it; waits are compared where the baseline has held the
same. Pure; knows nothing of servers and of how it is told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec

from headcount.analysis.compare import COMPARED, Comparison, compare
from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.errors import ScenarioError

__all__ = ["FailOn", "Recheck", "Result", "judge_recheck", "parse_fail_on", "recheck_levels", "recheck_time_s"]

ABOVE = 1.15
"""The level above the limit that must not hold: far enough for an unchanged server not to hold it by chance."""
LONGER = 2.0
"""One visit as long as two of those that confirmed the limit."""
WAITS = "e2e_p50_s"
"""What is compared: of pairs of simulated runs of an unchanged server, with the people's texts the same, its ratio was
0.96 to 1.01, of one slower by 10 % it was 1.08 to 1.12; the first token's p95 near the limit was 0.9 to 1.6."""


class FailOn(msgspec.Struct, frozen=True):
    """One condition under which CI shall fail."""

    text: str
    what: str
    """``limit``, or a figure of ``COMPARED``."""
    share: float
    """Met when the figure changed by more than this, in its direction; 0.05 is 5 %."""
    falls: bool
    """Whether it is about falling (``<-5%``) or rising (``>+5%``)."""


class Result(msgspec.Struct, frozen=True):
    """One question that was answered."""

    name: str
    sentence: str
    failed: bool


class Recheck(msgspec.Struct, frozen=True):
    """What came of it."""

    statement: str
    """Of the server now: ``unchanged``, ``worse`` or ``better``; ``cannot-tell`` when neither the limit nor the waits
    were decided, ``not-trusted`` when nothing could be believed."""
    limit: str
    """Of the old limit: ``confirmed``, ``refuted``, ``raised`` (far more people held too) or ``undecided``."""
    limit_users: int
    """The old limit."""
    waits_ratio: float | None
    """Median whole answers now over then, for as many people; None when nothing was common."""
    changes: tuple[str, ...]
    """What is known to be different: model, version, flags, driver …"""
    results: tuple[Result, ...]
    comparison: Comparison

    @property
    def exit_code(self) -> int:
        """0 unchanged, 1 worse or a condition met, 5 not decided or not to be trusted, 6 better."""
        if any(result.failed for result in self.results):
            return 1
        return {"better": 6, "not-trusted": 5, "cannot-tell": 5}.get(self.statement, 0)


_FAIL_ON = re.compile(r"^\s*(\w+?)\s*([<>])\s*([+-]?)\s*([0-9.]+)\s*%\s*$")


def parse_fail_on(text: str) -> FailOn:
    """``limit<-5%``, ``e2e_p50>+10%``.

    >>> parse_fail_on("limit<-5%").share
    0.05
    """
    found = _FAIL_ON.match(text)
    known = {"limit", *(measure.name for measure in COMPARED)}
    name = found[1] if found is not None else ""
    name = name if name in known else f"{name}_s"
    if found is None or name not in known or (found[2] == "<") != (found[3] == "-"):
        raise ScenarioError(
            f"--fail-on {text!r} is not understood",
            f"write limit<-5% or e2e_p50>+10%; figures: {', '.join(sorted(known))}",
        )
    if name == "limit" and found[2] == ">":
        raise ScenarioError(f"--fail-on {text!r}: a higher limit is no fault", "write limit<-5%")
    return FailOn(text.strip(), name, float(found[4]) / 100.0, found[2] == "<")


def recheck_levels(baseline: Verdict, fail_on: Sequence[FailOn] = ()) -> tuple[int, ...]:
    """Numbers of people to hold: the old limit, what a condition names below it, and one above where there was a limit.

    Raises ``ScenarioError`` for a baseline without a limit.
    """
    limit = baseline.limit_users
    if limit is None or not baseline.trusted:
        raise ScenarioError("the baseline has no limit that could be checked again", "take a run that found one")
    if limit == 0:
        return (1,)
    levels = {limit, *(_least(limit, one) for one in fail_on if one.what == "limit")}
    if not baseline.at_least:
        levels.add(_above(baseline, limit))
    return tuple(sorted(levels))


def recheck_time_s(baseline: Verdict) -> float:
    """How long one of them is held."""
    visits = [level.ended_at_s - level.began_at_s for level in baseline.levels if level.users == baseline.limit_users]
    return LONGER * max(visits, default=90.0)


def _least(limit: int, condition: FailOn) -> int:
    """The fewest people that must still be carried."""
    return max(1, math.ceil(limit * (1.0 - condition.share) - 1e-9))


def _above(baseline: Verdict, limit: int) -> int:
    interval = baseline.limit_interval_users
    beyond = math.floor(interval[1]) + 2 if interval is not None else 0
    return max(math.ceil(ABOVE * limit), limit + 1, beyond)


def judge_recheck(
    baseline: Verdict, now: Verdict, changes: Sequence[str] = (), fail_on: Sequence[FailOn] = ()
) -> Recheck:
    """What the levels held now say of the baseline."""
    limit_users = baseline.limit_users or 0
    comparison = compare(baseline.levels, now.levels)
    limit = _limit(baseline, now.levels)
    waits = next((ratio for ratio in comparison.overall if ratio.measure == WAITS), None)
    said = waits.statement if waits is not None else "cannot-tell"
    statement = "unchanged"
    if not any(level.decision != "void" for level in now.levels):
        statement = "not-trusted"
    elif limit == "refuted" or said == "worse":
        statement = "worse"
    elif limit == "raised" or said == "better":
        statement = "better"
    elif limit == "undecided" and said == "cannot-tell":
        statement = "cannot-tell"
    results = [_on_limit(limit, limit_users), _on_waits(said, waits.ratio if waits is not None else None)]
    if fail_on:
        # Conditions say what is a fault; the rest is told only.
        results = [msgspec.structs.replace(result, failed=False) for result in results]
        results += [_on_condition(one, limit_users, now.levels, comparison) for one in fail_on]
    return Recheck(
        statement,
        limit,
        limit_users,
        waits.ratio if waits is not None else None,
        tuple(changes),
        tuple(results),
        comparison,
    )


def _limit(baseline: Verdict, levels: Sequence[LevelSummary]) -> str:
    limit = baseline.limit_users or 0
    if limit == 0:
        return "raised" if _decision(levels, 1) == "holds" else "confirmed"
    at_limit = _decision(levels, limit)
    if at_limit == "fails":
        return "refuted"
    if not baseline.at_least and _decision(levels, _above(baseline, limit)) == "holds":
        return "raised"
    return "confirmed" if at_limit == "holds" else "undecided"


def _decision(levels: Sequence[LevelSummary], users: int) -> str:
    return next(
        (one.decision for one in reversed(levels) if one.users == users and one.decision != "void"), "undecided"
    )


def _on_limit(limit: str, users: int) -> Result:
    people = "1 person" if users == 1 else f"{users} people"
    sentences = {
        "confirmed": f"The old limit of {people} still holds.",
        "refuted": f"The old limit of {people} no longer holds.",
        "raised": f"Far more than the old limit of {people} hold now.",
        "undecided": f"Whether the old limit of {people} holds was not decided in the time.",
    }
    return Result("limit", sentences[limit], failed=limit == "refuted")


def _on_waits(said: str, ratio: float | None) -> Result:
    if ratio is None:
        return Result("waits", "Waits cannot be compared: no level was held in both runs.", failed=False)
    sentences = {
        "worse": f"Answers take {ratio:.2f} times as long: slower than it was.",
        "better": f"Answers take {ratio:.2f} times as long: faster than it was.",
        "no-difference": f"Answers take {ratio:.2f} times as long: no difference seen.",
        "cannot-tell": f"Answers take {ratio:.2f} times as long, which may be chance.",
    }
    return Result("waits", sentences[said], failed=said == "worse")


def _on_condition(
    condition: FailOn, limit_users: int, levels: Sequence[LevelSummary], comparison: Comparison
) -> Result:
    if condition.what == "limit":
        least = _least(limit_users, condition)
        decision = _decision(levels, least)
        return Result(condition.text, f"With {least} people the service level {_verb(decision)}.", decision == "fails")
    found = next((ratio for ratio in comparison.overall if ratio.measure == condition.what), None)
    if found is None:
        return Result(condition.text, f"{condition.what} cannot be compared.", failed=False)
    change = found.ratio - 1.0
    beyond = change < -condition.share if condition.falls else change > condition.share
    surely = found.statement in ("better", "worse")
    sentence = f"{condition.what} changed by {change:+.1%}{'' if surely else ', which may be chance'}."
    return Result(condition.text, sentence, failed=beyond and surely)


def _verb(decision: str) -> str:
    return {"holds": "holds", "fails": "fails"}.get(decision, "was not decided in the time")
