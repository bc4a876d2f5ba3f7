"""The checks of one level: each fires on its evidence, and none on a healthy level."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
import pytest

from headcount.analysis.conclusions import Caution, LevelSummary, Plan
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.records import Level, Request, Sample
from tests.analysis.crowd import SLO, Slots, held, request

USERS, CYCLE_S, STOP_S = 10, 2.0, 41.0


def turns(**changes: object) -> list[Request]:
    """Ten people who take two seconds for a turn, the same for all of them."""
    made = []
    for turn in range(20):
        for person in range(USERS):
            at_s = CYCLE_S * turn + person / 5
            made.append(request(person, at_s, at_s + 0.3, at_s + CYCLE_S, turn=turn % 4 + 1, **changes))
    return made


def summary(requests: Iterable[Request], samples: Iterable[Sample] = (), **level: object) -> LevelSummary:
    """The level they make."""
    table = RequestTable(SLO)
    for each in sorted(requests, key=lambda r: r.ended_at_s):
        table.add(each)
    held_level = Level(3, USERS, 0.0, started_at_s=2.0, stopped_at_s=STOP_S, drained_at_s=STOP_S)
    return summarize(msgspec.structs.replace(held_level, **level), table, tuple(samples), SLO)


def every_second(name: str, value: float, of: str = "") -> list[Sample]:
    """One reading a second, all alike."""
    return [Sample(float(second), name, value, of) for second in range(int(STOP_S))]


def found(of: LevelSummary) -> dict[str, Caution]:
    """Its cautions by their codes."""
    return {caution.code: caution for caution in of.cautions}


def test_a_healthy_level_draws_none() -> None:
    """Nor one with quiet samples."""
    assert summary(turns()).cautions == ()
    assert summary(turns(), every_second("client_loop_lag_s", 0.004)).cautions == ()


@pytest.mark.parametrize("users", [1, 4, 12, 24])
def test_no_fatal_caution_over_people_who_queue(users: int) -> None:
    """Whatever the number of people and the luck: 12 short levels each."""
    plans = [Plan(users, "bracket", 40.0)] * 12
    fatal = [c.code for seed, plan in enumerate(plans) for c in held(Slots(), plan, seed=seed).cautions if c.fatal]

    assert fatal == []


@pytest.mark.parametrize(
    ("code", "samples"),
    [
        ("client-lag", every_second("client_loop_lag_s", 0.5)),
        ("client-cpu", every_second("client_cpu_fraction", 0.97, "process-1")),
    ],
)
def test_a_busy_client_voids_its_level(code: str, samples: list[Sample]) -> None:
    """Its waits are not the server's."""
    level = summary(turns(), samples)

    assert found(level)[code].fatal
    assert level.decision == "void"


def test_requests_that_leave_late_void_their_level() -> None:
    """By their own instants, whatever the loop says; the load wanted was not reached either."""
    late = [msgspec.structs.replace(r, sent_at_s=r.scheduled_at_s + 0.25) for r in turns()]

    assert found(summary(late)).keys() == {"send-delay", "in-flight-not-reached"}


def test_requests_that_never_left_are_our_own_fault() -> None:
    """No descriptors, no ports."""
    failed = [
        msgspec.structs.replace(r, error="client", error_text="too many open files", chunk_at_s=[])
        for r in turns()[::7]
    ]
    level = summary(turns() + failed)

    assert found(level)["client-errors"].fatal
    assert "too many open files" in found(level)["client-errors"].sentence


def test_a_level_that_lost_part_of_its_load_is_void() -> None:
    """Whatever its answers say."""
    level = summary(turns(), ended="error")

    assert found(level)["load-lost"].fatal
    assert level.decision == "void"


def test_stages_belong_to_the_turn() -> None:
    """People who wait for a retrieval are not missing."""
    turns_with_stages = [
        msgspec.structs.replace(r, think_s=(r.think_s or 0.0) / 2, stage_s={"retrieval": (r.think_s or 0.0) / 2})
        for r in turns()
    ]

    assert summary(turns_with_stages).cautions == ()


def test_littles_law_must_give_the_people() -> None:
    """Half of them never came."""
    level = summary(r for r in turns() if r.person < USERS / 2)

    assert found(level)["load-not-as-said"].fatal
    assert "5 people were active, not the 10" in found(level)["load-not-as-said"].sentence
    assert "load-not-as-said" not in found(summary(turns(), conversations_each=3))


def test_answers_that_arrive_at_once_are_buffered() -> None:
    """The first token comes with the last one."""
    at_once = [msgspec.structs.replace(r, chunk_at_s=[r.ended_at_s - 0.001, r.ended_at_s]) for r in turns()]

    assert found(summary(at_once))["buffered-stream"].fatal


def test_a_clause_without_data_decides_nothing() -> None:
    """Whole answers have no time to the first token."""
    level = summary(msgspec.structs.replace(r, streamed=False, chunk_at_s=[]) for r in turns())

    assert found(level)["clause-without-data"].fatal
    assert level.decision == "void"


def test_few_answers_are_told() -> None:
    """Once the level is over; not while it runs."""
    few = [r for r in turns() if r.scheduled_at_s < 8.0]
    running = summary(few, stopped_at_s=None)

    assert "too-few-requests" in found(summary(few, stopped_at_s=8.0))
    assert "too-few-requests" not in found(running)


def test_waits_that_rise_under_an_unchanged_load_drift() -> None:
    """From 0.3 to 1.5 s."""
    rising = [
        msgspec.structs.replace(r, chunk_at_s=[r.scheduled_at_s + 0.3 + 0.03 * r.scheduled_at_s, r.ended_at_s])
        for r in turns()
    ]
    level = summary(rising)

    assert "ttft rose by" in found(level)["drift"].sentence
    assert not found(level)["drift"].fatal


def test_a_server_that_stays_busy_is_told() -> None:
    """Its queue was not empty, and never became so."""
    samples = every_second("server_waiting_requests", 3.0)

    assert "not-drained" in found(summary(turns(), samples, drained_at_s=None))
    assert "not-drained" not in found(summary(turns(), samples))


def test_short_answers_and_estimated_tokens_are_told() -> None:
    """Capacity holds for the lengths that came."""
    short = found(summary(turns(max_output_tokens=128)))

    assert "41 tokens" in short["short-answers"].sentence
    assert "tokens-estimated" in found(summary(turns(token_source="client")))


def test_cautions_name_their_level_and_fatal_ones_come_first() -> None:
    """For reports."""
    level = summary(turns(max_output_tokens=128), every_second("client_loop_lag_s", 0.5))

    assert [caution.fatal for caution in level.cautions] == [True, False]
    assert {caution.level for caution in level.cautions} == {3}


@pytest.mark.parametrize(
    ("ttft_s", "prompts", "cliff"),
    [
        ((0.1, 0.1, 0.1, 1.5), (100, 400, 700, 1000), 4),  # the cache holds three turns
        ((0.1, 0.45, 0.8, 1.1), (100, 400, 700, 1000), None),  # all is read anew: the wait grows with the prompt
        ((2.0, 2.1, 2.2, 2.1), (100, 400, 700, 1000), None),  # a queue, for all turns alike
        ((0.01, 0.05, 0.05, 0.05), (100, 100, 100, 100), None),  # nobody feels it
    ],
)
def test_a_cliff_at_a_turn_is_told(ttft_s: tuple[float, ...], prompts: tuple[int, ...], cliff: int | None) -> None:
    """Where the first token suddenly takes far longer than the longer prompt explains."""
    made = []
    for at, person in itertools.product(range(20), range(10)):
        turn, at_s = at % 4, 2.0 * at + person / 5
        made.append(request(person, at_s, at_s + ttft_s[turn], at_s + 3.0, turn=turn + 1, prompt_tokens=prompts[turn]))
    told = [caution for caution in summary(made).cautions if caution.code == "cliff-at-turn"]

    assert len(told) == (cliff is not None)
    assert all(f"from turn {cliff} " in caution.sentence and not caution.fatal for caution in told)
