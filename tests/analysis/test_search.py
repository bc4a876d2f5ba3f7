"""The search on invented summaries: what it asks next, and when it stops."""

from __future__ import annotations

import itertools

import pytest

from headcount.analysis.conclusions import Caution, LevelSummary, Limits, Plan
from headcount.analysis.search import estimate_s, next_level, spent_s, standings
from headcount.analysis.verdict import judge
from tests.analysis.crowd import SLO, Slots, searched
from tests.analysis.invented import answering, followed, summary

FATAL = Caution("client-lag", "late", "use another machine", fatal=True)


@pytest.mark.parametrize("limit", [1.4, 2.5, 7.5, 20.5, 38.5, 150.5, 900.5])
@pytest.mark.parametrize("slope", [12.0, 25.0, 80.0])
def test_the_search_ends_near_the_limit(limit: float, slope: float) -> None:
    """Within 5 % or one person where misses rise as steeply as usual, 8 % where they rise slowly; three holds,
    never two in a row."""
    limits = Limits()
    summaries, plans = followed(answering(limit, slope), limits)
    verdict = judge(summaries, limits, SLO)
    visits = [plan.users for plan in plans]
    steps = [b for a, b in itertools.pairwise(visits) if a == b == verdict.limit_users]

    assert verdict.limit_users is not None
    assert abs(verdict.limit_users - int(limit)) <= max(1.0, (0.08 if slope < 20.0 else 0.05) * limit)
    assert verdict.confirmations >= 3
    assert verdict.complete
    assert len(plans) <= 40
    assert not steps or verdict.limit_users == 1


def test_it_doubles_or_more_until_something_breaks() -> None:
    """Many more after one person, four times as many while waits are far below their bound, then twice."""
    _, plans = followed(answering(70.5), Limits())
    bracket = [plan.users for plan in plans if plan.purpose == "bracket"]

    assert bracket == [1, 16, 64, 128]


def test_a_start_above_the_limit_goes_down() -> None:
    """To a level that holds; then the search goes on between."""
    _, plans = followed(answering(5.5), Limits(start_users=64))

    assert [plan.users for plan in plans[:3]] == [64, 16, 4]


def test_not_even_one_person() -> None:
    """Zero is an answer."""
    limits = Limits(start_users=4)
    summaries, _ = followed(lambda plan, index: summary(plan.users, 0.6, index=index), limits)
    verdict = judge(summaries, limits, SLO)

    assert verdict.limit_users == 0
    assert verdict.trusted
    assert verdict.complete
    assert verdict.recommended_users == 0


def test_the_top_of_the_range_is_at_least() -> None:
    """Never a number beyond what was measured; the top is confirmed like any limit."""
    limits = Limits(max_users=96)
    summaries, plans = followed(answering(500.0), limits)
    verdict = judge(summaries, limits, SLO)

    assert max(plan.users for plan in plans) == 96
    assert verdict.limit_users == 96
    assert verdict.at_least
    assert verdict.limit_interval_users is None
    assert verdict.confirmations >= 3


def test_a_void_level_is_tried_once_more_then_the_search_stays_below() -> None:
    """A client too slow for 64 people finds what it can below."""

    def answer(plan: Plan, index: int) -> LevelSummary:
        cautions = (FATAL,) if plan.users >= 60 else ()
        return summary(plan.users, 0.001, index=index, purpose=plan.purpose, value=0.2, cautions=cautions)

    limits = Limits()
    summaries, plans = followed(answer, limits)
    verdict = judge(summaries, limits, SLO)

    assert [plan.users for plan in plans].count(64) == 2
    assert verdict.limit_users is not None
    assert 16 <= verdict.limit_users < 64
    assert verdict.trusted


def test_nothing_but_void_levels_end_untrusted() -> None:
    """No answer is better than a wrong one."""
    limits = Limits(start_users=2)
    summaries, _ = followed(lambda plan, index: summary(plan.users, 0.0, index=index, cautions=(FATAL,)), limits)
    verdict = judge(summaries, limits, SLO)

    assert not verdict.trusted
    assert verdict.limit_users is None
    assert verdict.limit_interval_users is None
    assert verdict.complete


def test_a_level_in_which_nobody_finished_is_held_longer_or_left() -> None:
    """Twelve seconds say nothing where an answer takes twenty."""

    def silent(plan: Plan, index: int) -> LevelSummary:
        return summary(plan.users, 0.0, index=index, n=1, n_requests=0, clauses=(), turn_cycle_s=None)

    _, plans = followed(silent, Limits(max_time_s=400.0), most=4)

    assert [plan.time_s for plan in plans[:3]] == [12.0, 24.0, 48.0]


def test_fixed_levels_are_held_once_each_in_their_order() -> None:
    """And a void one a second time."""
    limits = Limits(levels=(20, 50, 100))

    def answer(plan: Plan, index: int) -> LevelSummary:
        return summary(plan.users, 0.0, index=index, cautions=(FATAL,) if index == 1 else ())

    summaries, plans = followed(answer, limits)

    assert [plan.users for plan in plans] == [20, 50, 50, 100]
    assert {plan.purpose for plan in plans} == {"fixed"}
    assert judge(summaries, limits, SLO).limit_users == 100


def test_time_is_kept() -> None:
    """No level begins that the time left cannot hold; what is known is told, as unfinished business."""
    limits = Limits(max_time_s=100.0)
    summaries, _ = followed(answering(38.5), limits)
    verdict = judge(summaries, limits, SLO)

    assert spent_s(summaries) <= 130.0
    (unconfirmed,) = [caution for caution in verdict.cautions if caution.code == "not-confirmed"]
    assert unconfirmed.remedy == "give it more time (--max-time)"
    (unconfirmed,) = [one for one in judge(summaries, Limits(), SLO).cautions if one.code == "not-confirmed"]
    assert unconfirmed.remedy == "give each level more time (--level-time)"


def test_a_pass_above_a_failure_does_not_count() -> None:
    """The limit has no failing level below it."""
    summaries = [
        summary(users, share, index=index)
        for index, (users, share) in enumerate([(16, 0.0), (24, 0.2), (30, 0.0), (48, 0.9), (30, 0.0)])
    ]
    verdict = judge(summaries, Limits(), SLO)

    assert verdict.limit_users == 16
    assert verdict.fails_at_users == 24
    assert "pass-above-failure" in [caution.code for caution in verdict.cautions]


def test_one_visit_that_fails_badly_is_enough() -> None:
    """Two lucky visits are no verdict."""
    visits = [summary(30, 0.01), summary(30, 0.01), summary(30, 0.4)]

    assert standings(visits)[30].over
    assert standings(visits[:2])[30].held == 2
    assert not standings(visits[:2])[30].over


def test_the_estimate_is_made_before_anything_is_known() -> None:
    """Within the time allowed; fixed levels take their time."""

    class Expected:
        think_s = 4.0

    assert 60.0 < estimate_s(Limits(), Expected()) < 3600.0
    assert estimate_s(Limits(max_time_s=90.0), Expected()) == 90.0
    assert estimate_s(Limits(levels=(1, 2), level_time_s=60.0)) == 120.0


def test_the_search_is_the_same_for_a_stored_run() -> None:
    """Whatever was measured so far decides alone what comes next."""
    limits = Limits()
    summaries, plans = followed(answering(20.5), limits)

    for n in range(len(summaries)):
        assert next_level(summaries[:n], limits) == plans[n]


@pytest.mark.parametrize("seed", range(4))
def test_a_whole_search_over_people_who_queue(seed: int) -> None:
    """Eight slots: 27 people hold in the long run (1.9 % miss), 28 do not (5.2 %). Within one person, or 5 %."""
    limits = Limits(max_time_s=900.0)
    summaries = searched(Slots(), limits, seed)
    verdict = judge(summaries, limits, SLO)

    assert verdict.limit_users is not None
    assert verdict.limit_interval_users is not None
    assert abs(verdict.limit_users - 27) <= 2
    assert verdict.limit_interval_users[0] <= 28 <= verdict.limit_interval_users[1] + 1
    assert not any(caution.fatal for caution in verdict.cautions)
