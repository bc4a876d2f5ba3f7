"""The search of the open loop: growth that is told from chance, and the highest stable rate of servers with a known
one."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from headcount.analysis.conclusions import Growth, LevelSummary, Limits, Plan
from headcount.analysis.rates import growth_of, next_rate, searches_rates, stay_s
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.analysis.verdict import judge
from headcount.records import Level, Request, Sample
from tests.analysis.crowd import SLO, request
from tests.analysis.invented import summary

TURNS, THINK_S = 3, 4.0
LIMITS = Limits(max_users=2000, max_time_s=7200.0, level_time_s=180.0)


def visited(rate_per_s: float, slots: int, answer_s: float, time_s: float, seed: str) -> list[Request]:
    """Everything that was asked of a server with so many slots, into which conversations come like raindrops."""
    rng = random.Random(seed)
    free_at_s = [0.0] * slots
    coming: list[tuple[float, int, int]] = []
    at_s = 0.0
    for person in range(int(3 * rate_per_s * time_s) + 10):
        at_s += rng.expovariate(rate_per_s)
        coming.append((at_s, person, 1))
    heapq.heapify(coming)
    found = []
    while coming:
        at_s, person, turn = heapq.heappop(coming)
        if at_s >= time_s:
            break
        start_s = max(at_s, heapq.heappop(free_at_s))
        end_s = start_s + answer_s * rng.uniform(0.5, 1.5)
        heapq.heappush(free_at_s, end_s)
        think_s = THINK_S * rng.uniform(0.5, 1.5)
        if turn < TURNS:
            heapq.heappush(coming, (end_s + think_s, person, turn + 1))
        found.append(request(person, at_s, start_s + 0.1, end_s, turn=turn, think_s=think_s))
    return found


def held(plan: Plan, slots: int, answer_s: float, index: int, at_s: float, full_s: float, seed: int) -> LevelSummary:
    """One level of a search, looked at every four seconds."""
    assert plan.rate_per_s is not None
    requests = visited(plan.rate_per_s, slots, answer_s, plan.time_s, f"{seed} {index}")
    level = Level(
        index, plan.users, 0.0, purpose=plan.purpose, arrivals="open", rate_per_s=plan.rate_per_s,
        conversations_each=1, started_at_s=full_s,
    )  # fmt: skip
    seen_s = full_s
    while seen_s < plan.time_s:
        seen_s = min(seen_s + 4.0, plan.time_s)
        found = _seen(level, requests, seen_s)
        if found.growth is not None and found.growth.decision == "grows":
            break
    ended = msgspec.structs.replace(level, stopped_at_s=seen_s, drained_at_s=seen_s, ended="time")
    found = _seen(ended, requests, seen_s)
    return msgspec.structs.replace(found, began_at_s=at_s, ended_at_s=at_s + seen_s)


def _seen(level: Level, requests: Sequence[Request], until_s: float) -> LevelSummary:
    table = RequestTable(SLO)
    for one in sorted(requests, key=lambda one: one.ended_at_s):
        if one.ended_at_s <= until_s:
            table.add(one)
        elif level.stopped_at_s is not None and one.scheduled_at_s < until_s:
            table.add(msgspec.structs.replace(one, error="cut", ended_at_s=until_s, chunk_at_s=[], output_tokens=None))
    began = np.sort([one.scheduled_at_s for one in requests])
    ended = np.sort([one.ended_at_s for one in requests])
    samples = []
    for second in range(1, int(until_s) + 1):
        unanswered = float(np.searchsorted(began, second) - np.searchsorted(ended, second))
        samples.append(Sample(float(second), "client_in_flight_requests", unanswered, "process-0"))
        samples.append(Sample(float(second), "client_inside_users", unanswered + 1.0, "process-0"))
    return summarize(level, table, samples, SLO, ended_at_s=until_s)


def searched(slots: int, answer_s: float, seed: int, limits: Limits = LIMITS) -> list[LevelSummary]:
    """A whole search for a rate."""
    expected_s = TURNS * (answer_s + THINK_S)
    limits = msgspec.structs.replace(limits, start_rate_per_s=4.0 / expected_s)
    summaries: list[LevelSummary] = []
    while (plan := next_rate(summaries, limits, expected_s)) is not None:
        at_s = summaries[-1].ended_at_s if summaries else 0.0
        summaries.append(held(plan, slots, answer_s, len(summaries), at_s, expected_s, seed))
    return summaries


@pytest.mark.parametrize(("slots", "answer_s"), [(4, 1.0), (8, 2.0), (24, 3.0)])
def test_the_rate_that_is_found_is_near_the_true_one(slots: int, answer_s: float) -> None:
    """What the slots complete is the truth: in four of five searches the highest stable rate lies within 15 % of it,
    never above it by more, and the lowest growing one not below it by more."""
    true_per_s = slots / answer_s / TURNS
    near = 0
    for seed in range(5):
        verdict = judge(searched(slots, answer_s, seed), LIMITS, SLO)
        assert verdict.complete
        assert verdict.rate is not None
        found, grows = verdict.rate.rate_per_s, verdict.rate.grows_at_per_s
        assert found is not None
        assert grows is not None
        assert found <= 1.15 * true_per_s
        assert grows >= 0.85 * true_per_s
        assert verdict.rate.interval_per_s == (found, grows)
        near += found >= 0.85 * true_per_s
    assert near >= 4


def test_a_search_that_finds_no_end_says_at_least() -> None:
    """At the most people that may be inside the queue is still empty."""
    limits = msgspec.structs.replace(LIMITS, max_users=40)
    verdict = judge(searched(400, 1.0, 1, limits), limits, SLO)

    assert verdict.rate is not None
    assert verdict.at_least
    assert verdict.rate.interval_per_s is None
    assert verdict.sentence.startswith("At least")


def test_people_inside_are_told_with_the_rate() -> None:
    """As many as were there, and the recommendation keeps headroom below both."""
    verdict = judge(searched(8, 2.0, 3), LIMITS, SLO)

    assert verdict.rate is not None
    assert verdict.rate.rate_per_s is not None
    assert verdict.rate.inside_users is not None
    assert verdict.limit_users == round(verdict.rate.inside_users)
    assert verdict.rate.recommended_per_s is not None
    assert verdict.rate.recommended_per_s <= 0.75 * verdict.rate.rate_per_s + 1e-9
    assert verdict.recommended_users is not None
    assert verdict.recommended_users < verdict.limit_users


def invented(rate_per_s: float, decision: str, index: int = 0, misses: float = 0.0) -> LevelSummary:
    """A level that was stable, grew, or said nothing."""
    return summary(
        max(1, round(20 * rate_per_s)), misses, index=index, rate_per_s=rate_per_s, arrivals="open",
        growth=Growth(decision, 0.0, 0.5), inside_users_mean=20.0 * rate_per_s, requests_per_s=3.0 * rate_per_s,
    )  # fmt: skip


def test_waits_that_break_before_the_queue_grows_lower_what_is_recommended() -> None:
    """The rate stays the stable one; a caution says where the service level was kept."""
    levels = [invented(0.5, "stable"), invented(1.0, "stable", 1, misses=0.2), invented(1.05, "grows", 2, misses=0.9)]
    verdict = judge(levels, LIMITS, SLO)

    assert verdict.rate is not None
    assert (verdict.rate.rate_per_s, verdict.rate.promised_rate_per_s) == (1.0, 0.5)
    assert verdict.rate.recommended_per_s == 0.5
    assert "service-level-first" in {caution.code for caution in verdict.cautions}


def test_a_server_that_is_full_at_once_gets_no_answer() -> None:
    """Even the lowest rate was too much."""
    verdict = judge([invented(0.5, "grows")], LIMITS, SLO)

    assert not verdict.trusted
    assert verdict.sentence == "Even 0.5 new conversations a second are too many: the queue grows."


def test_rates_that_were_given_are_no_search() -> None:
    """They are judged as levels of their own."""
    fixed = msgspec.structs.replace(invented(0.5, "stable"), purpose="fixed")

    assert not searches_rates([fixed])
    assert searches_rates([invented(0.5, "stable")])


def test_how_long_people_stay_comes_from_the_lowest_rate() -> None:
    """By Little's law; nothing before enough was seen."""
    assert stay_s([]) is None
    assert stay_s([invented(1.0, "grows"), invented(0.25, "stable")]) == pytest.approx(20.0)


@pytest.mark.parametrize("seed", range(8))
def test_chance_is_not_growth(seed: int) -> None:
    """A server that is never full: the number unanswered swings, and no level of it is said to grow."""
    requests = visited(1.0, 400, 2.0, 180.0, f"calm {seed}")
    level = Level(0, 18, 0.0, arrivals="open", rate_per_s=1.0, conversations_each=1, started_at_s=18.0)
    for until_s in range(40, 181, 10):
        seen = _seen(level, requests, float(until_s))
        assert seen.growth is None or seen.growth.decision != "grows"


def test_too_little_says_nothing() -> None:
    """A handful of readings, or a window shorter than one stay."""
    level = Level(0, 18, 0.0, arrivals="open", rate_per_s=1.0, started_at_s=18.0, stopped_at_s=30.0)
    rows = RequestTable(SLO).rows()

    assert growth_of(level, rows, np.arange(5.0), 30.0) is None
    assert growth_of(level, rows, np.arange(50.0), 30.0) is None
