"""How many people, with what confidence, what gives out first: all summaries in, one ``Verdict`` out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import msgspec

from headcount.analysis.accounts import in_accounts
from headcount.analysis.after_search import BURST, SOAK, burst_sentence, without_checks
from headcount.analysis.cause import find_cause, held_back
from headcount.analysis.comfort import felt, streaming_advice
from headcount.analysis.conclusions import Caution, LevelSummary, Limits, Verdict
from headcount.analysis.formula import estimate_sentence, first_estimate
from headcount.analysis.limit import LimitFit, believable, fit_limit, saw_a_cycle
from headcount.analysis.machine_cautions import metrics_not_visible
from headcount.analysis.rate_verdict import judge_rates
from headcount.analysis.rates import searches_rates
from headcount.analysis.search import Standing, next_level, spent_s, standings
from headcount.analysis.soak import soak_changes, soak_sentence, soak_steps, soaked_users
from headcount.records import EngineFacts
from headcount.slo import Clause, Comfort
from headcount.stats.knee import measured_knee
from headcount.stats.proportion import smallest_telling_n

__all__ = ["judge"]

COMFORT = Comfort()
LEAST_LEFT_S = 30.0
"""With less time than this left a search is out of time: no level near the limit fits in."""
LIKELY = 0.5
"""Belief with which a level that was not confirmed is taken for within the limit."""

FALLEN, CLEARLY = 0.15, 3.0
"""Throughput that fell by more than this share, and by more than so many standard errors, fell."""


def judge(
    summaries: Sequence[LevelSummary],
    limits: Limits,
    slo: tuple[Clause, ...],
    *,
    headroom: float = 0.25,
    comfort: Comfort = COMFORT,
    engine: EngineFacts | None = None,
    active_share: float | None = None,
) -> Verdict:
    """Judge a search, or fixed levels, finished or not, with the checks that followed it.

    ``headroom`` is the share of the people at the limit to stay below it; ``engine`` says which of
    its settings the advice can name; ``active_share`` is that of registered accounts in use in the busy hour.
    """
    levels = felt([s for s in summaries if s.purpose != BURST], comfort)
    if searches_rates(levels):
        return in_accounts(judge_rates(levels, limits, headroom=headroom, engine=engine), active_share)
    searched = without_checks(levels)
    trusted_levels = believable(levels)
    complete = next_level(searched, limits) is None and bool(searched)
    fit = fit_limit(levels)
    limit, confirmations = _limit(levels, fit, 1 if limits.levels else limits.confirmations)
    over = [s.users for s in standings(levels).values() if s.over]
    fails_at = min((users for users in over if limit is None or users > limit), default=None)
    interval = fit.interval_users() if fit is not None and limit is not None else None
    if interval is not None and limit is not None:
        interval = (min(interval[0], float(limit)), max(interval[1], float(limit)))
    interval = _widened(interval, limit, engine)
    at_least = limit is not None and limit > 0 and fails_at is None
    soaks = [s for s in levels if s.purpose == SOAK]
    recommended = soaked_users(soaks, _recommended(limit, interval, headroom))
    cause = held_back(soak_steps(soaks)) or find_cause(searched, limit, engine)
    trusted = bool(trusted_levels) and limit is not None
    estimate = first_estimate(trusted_levels)
    verdict = Verdict(
        limit_users=limit,
        at_least=at_least,
        limit_interval_users=None if at_least else interval,
        recommended_users=recommended,
        fails_at_users=fails_at,
        confirmations=confirmations,
        cause=cause.name,
        cause_sentence=cause.sentence,
        advice=(*cause.advice, *streaming_advice(trusted_levels, comfort)),
        cautions=(*_cautions(summaries, complete, confirmations, limits, limit), *metrics_not_visible(engine)),
        trusted=trusted,
        complete=complete,
        sentence=_sentence(limit, at_least, interval, recommended, trusted, confirmations),
        first_estimate_users=estimate,
        estimate_sentence=estimate_sentence(estimate, limit, trusted_levels, cause.name),
        knee_users=_knee(trusted_levels),
        levels=levels,
    )
    return in_accounts(_with_checks(verdict, summaries, soaks, limits), active_share)


def _with_checks(
    verdict: Verdict, summaries: Sequence[LevelSummary], soaks: Sequence[LevelSummary], limits: Limits
) -> Verdict:
    """And what was held once the search had its answer."""
    recommended, steps = verdict.recommended_users, soak_steps(soaks)
    burst = next((s.burst for s in reversed(summaries) if s.purpose == BURST and s.burst is not None), None)
    return msgspec.structs.replace(
        verdict,
        burst=burst,
        burst_sentence=burst_sentence(burst, summaries, recommended, limits) if verdict.complete else "",
        soak=steps,
        soak_sentence=soak_sentence(steps, soaks, recommended),
        soak_changes=soak_changes(steps),
    )


def _widened(
    interval: tuple[float, float] | None, limit: int | None, engine: EngineFacts | None
) -> tuple[float, float] | None:
    """Of a simulated server the constants are known so well only; it tells by what factors its limit is uncertain."""
    factors = engine.details.get("limit_factor") if engine is not None and engine.engine == "simulated" else None
    if not factors or limit is None:
        return interval
    low, high = interval or (float(limit), float(limit))
    return low * factors[0], high * factors[1]


def _limit(levels: Sequence[LevelSummary], fit: LimitFit | None, confirmations: int) -> tuple[int | None, int]:
    """The largest level that held in every repeat, with nothing over the limit below it, and how often it held.

    While no level held as often as asked for: the largest that held at all, first of those that are within the limit
    in all likelihood; when none has held yet, the largest that likely is.
    """
    known = standings(levels)
    over = min((s.users for s in known.values() if s.over), default=math.inf)
    under = [s for s in known.values() if s.users < over]
    confirmed = [s for s in under if s.held >= confirmations and s.acceptable]
    likely = [s for s in under if fit is not None and fit.at_least(s.users) >= LIKELY]
    good = [s for s in under if s.doubt <= 1.0 - LIKELY and s.visits[-1].n_requests > 0]
    held = [s for s in under if s.held and s.acceptable]
    for choice in (confirmed, [s for s in likely if s.held], held, likely, good):
        if choice:
            best = max(choice, key=lambda s: s.users)
            return best.users, best.held
    return (0, 0) if 1 in known and known[1].over else (None, 0)


def _knee(levels: Sequence[LevelSummary]) -> float | None:
    """Past which throughput gained less than 5 % for more than 20 % more latency; explains, decides nothing."""
    measured = [s for s in levels if s.requests_per_s and s.e2e_s.p50 and saw_a_cycle(s)]
    points = []
    for users in sorted({s.users for s in measured}):
        visits = [s for s in measured if s.users == users]
        points.append((float(users), fmean(s.requests_per_s or 0.0 for s in visits), _wait_s(visits)))
    return measured_knee(points)


def _wait_s(visits: Sequence[LevelSummary]) -> float:
    return fmean(s.e2e_s.p50 or 0.0 for s in visits)


def _recommended(limit: int | None, interval: tuple[float, float] | None, headroom: float) -> int | None:
    """(1 - headroom) of the people at the lower end of the interval; never fewer than one where one is served.

    Counted in people: a server is fully busy long before its service level breaks, so the same share of its
    throughput would be kept with a fraction of them (see docs/decisions/0011).
    """
    if not limit:
        return limit
    low = min(float(limit), interval[0]) if interval is not None else float(limit)
    return max(1, math.floor((1.0 - headroom) * low + 1e-9))


def _cautions(
    levels: Sequence[LevelSummary], complete: bool, confirmations: int, limits: Limits, limit: int | None
) -> tuple[Caution, ...]:
    """Those of the levels, and what the whole search left open."""
    found = [caution for level in levels for caution in level.cautions]
    if limit and not limits.levels and confirmations < limits.confirmations:
        found.append(
            Caution(
                "not-confirmed",
                f"{limit} people held {confirmations} time{'s' if confirmations != 1 else ''}, "
                f"not the {limits.confirmations} times asked for",
                _more_time(levels, limits),
            )
        )
    found += _surprises(levels, limit)
    if not complete:
        found.append(Caution("not-finished", "the search was not finished", "continue it with --resume"))
    return tuple(found)


def _more_time(levels: Sequence[LevelSummary], limits: Limits) -> str:
    """Which time ran out: that of the search, or that of levels which stayed undecided before it did."""
    if spent_s(levels) + min(limits.level_time_s, LEAST_LEFT_S) >= limits.max_time_s:
        return "give it more time (--max-time)"
    return "give each level more time (--level-time)"


def _surprises(levels: Sequence[LevelSummary], limit: int | None) -> list[Caution]:
    """What a server whose waits simply rise with its people would not show."""
    known = standings(levels)
    found = []
    over = min((s.users for s in known.values() if s.over), default=None)
    above = [s.users for s in known.values() if over is not None and s.users > over and s.held and not s.over]
    if above:
        found.append(
            Caution(
                "pass-above-failure",
                f"{max(above)} people held though {over} did not: the limit stays below the lower one",
                "repeat it: a server near its limit swings, or something else used it meanwhile",
            )
        )
    fallen = _fallen(known, limit)
    if fallen is not None:
        (users, rate), (best, best_rate) = fallen
        found.append(
            Caution(
                "throughput-falls",
                f"{rate:.2g} answers a second at {users} people, {best_rate:.2g} at {best}: "
                "past its limit the server gets slower, not just busier",
                "refuse or queue people before the server (a limit on requests) instead of letting all in",
            )
        )
    return found


def _fallen(known: dict[int, Standing], limit: int | None) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """The fewest people beyond the limit that clearly got fewer answers a second than some number below them, and that
    number, each with its rate; None when there is none.

    Only what was held for a turn cycle and enough answers counts: a rate of a few answers is no rate.
    """
    rates: dict[int, tuple[float, float]] = {}
    for users, standing in known.items():
        visits = [v for v in standing.visits if saw_a_cycle(v) and v.n_requests >= smallest_telling_n(0.05)]
        if visits:
            n = sum(v.n_requests for v in visits)
            rates[users] = sum((v.requests_per_s or 0.0) * v.n_requests for v in visits) / n, 1.0 / n
    for users, (rate, variance) in rates.items():
        below = {u: known_rate for u, known_rate in rates.items() if u < users}
        beyond = users > limit if limit is not None else known[users].over
        if not below or not beyond or rate <= 0.0:
            continue
        best = max(below, key=lambda u: below[u])
        clear = max(-math.log(1.0 - FALLEN), CLEARLY * math.sqrt(variance + below[best][1]))
        if math.log(below[best][0] / rate) > clear:
            return (users, rate), (best, below[best][0])
    return None


def _sentence(
    limit: int | None,
    at_least: bool,
    interval: tuple[float, float] | None,
    recommended: int | None,
    trusted: bool,
    held: int,
) -> str:
    if not trusted or limit is None:
        return "No level could be trusted, so there is no answer."
    if limit == 0:
        return "Not even one person is served well."
    people = "1 person" if limit == 1 else f"{limit} people"
    if not held:
        return f"Probably {people} can use this server at once, but no level was held long enough to be sure."
    if at_least:
        return f"At least {people} can use this server at once; more were not tried."
    between = ""
    if interval is not None and interval[0] != interval[1]:
        between = f" (95 % interval {interval[0]:.0f} to {interval[1]:.0f})"
    return f"{people} can use this server at once{between}; plan for {recommended}."
