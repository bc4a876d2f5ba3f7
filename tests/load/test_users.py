"""Who comes when: the closed loop, finite tests, synchronised people and the open loop, on the virtual clock."""

from __future__ import annotations

import itertools
from collections import Counter
from statistics import fmean, pvariance
from typing import Any

import pytest

from headcount.records import Level, Prompt, Reply, Request
from headcount.virtual import clock
from headcount.workload import make_workload
from headcount.workload.arrivals import Open, Replayed, Synchronised
from tests.load.scripted import Said, Scripted, good, hold, turn


def test_starts_are_spread() -> None:
    """The first questions lie evenly over the level's spread; a burst has none."""
    spread = hold(Scripted(), Said(turn()), level={"spread_s": 2.0}, for_s=3)
    burst = hold(Scripted(), Said(turn()), for_s=3)

    assert sorted(r.scheduled_at_s for r in spread if not r.conversation) == [1.0, 1.5, 2.0, 2.5]
    assert {r.scheduled_at_s for r in burst if not r.conversation} == {1.0}


def test_people_come_in_the_middle_of_a_conversation() -> None:
    """With spread starts, first conversations end after any of their turns, all later ones in full: histories do not
    grow in step. Those who start together, or hold so many conversations, hold whole ones."""

    def turns(**level: Any) -> Counter[tuple[int, int]]:
        requests = hold(Scripted(), Said(*[turn()] * 4), level={"users": 400} | level, for_s=30)
        last = {(r.person, r.conversation): r.turn for r in requests}
        return Counter((number, at) for (_, number), at in last.items() if number < 2)

    spread = turns(spread_s=1.0)
    assert [spread[0, at] for at in (1, 2, 3, 4)] == pytest.approx([100] * 4, abs=30)
    assert spread[1, 4] == 400
    assert turns() == turns(conversations_each=2, spread_s=1.0) == {(0, 4): 400, (1, 4): 400}


@pytest.mark.parametrize("for_s", [0.0, 0.3, 1.0, 1.4999, 1.5, 7.77, 20.0])
def test_every_request_has_exactly_one_end(for_s: float) -> None:
    """Whenever a level is stopped: what was asked was recorded once, and nothing runs on (A58)."""
    engine = Scripted()

    requests = hold(engine, Said(turn(), turn()), level={"users": 50, "spread_s": 2.0}, for_s=for_s)

    assert len(requests) == len(engine.asked)
    assert len({(r.person, r.conversation, r.turn) for r in requests}) == len(requests)
    assert engine.in_flight == 0
    for request in requests:
        assert (request.error is None) == (request.ended_at_s - request.scheduled_at_s >= 0.999)
        assert request.error in (None, "cut")


def test_people_wait_for_their_answer() -> None:
    """Nobody asks a second question while the first is unanswered: no more in flight than people."""
    engine = Scripted()

    hold(engine, Said(turn(think_s=0.0)), level={"users": 7}, for_s=10)

    assert engine.in_flight_peak == 7


def test_a_finite_test_ends_by_itself() -> None:
    """Each person holds so many conversations and leaves."""
    requests = hold(Scripted(), Said(turn(), turn()), level={"conversations_each": 3}, for_s=None)

    assert Counter(r.person for r in requests) == dict.fromkeys(range(4), 6)
    assert {r.error for r in requests} == {None}


def test_a_share_without_people_is_over_at_once() -> None:
    """One person, two processes: the one without anybody does not keep the other waiting."""
    requests = hold(Scripted(), Said(turn()), level={"users": 1, "conversations_each": 1}, processes=(0, 1), for_s=None)

    assert len(requests) == 1


@pytest.mark.parametrize("level", [{}, {"rate_per_s": 5.0}], ids=["closed", "open"])
def test_two_processes_do_what_one_does(level: dict[str, Any]) -> None:
    """The same seed gives the same questions at the same instants, however the people are shared out."""

    def said(processes: tuple[int, ...]) -> tuple[list[str], list[str]]:
        engine = Scripted()
        workload = make_workload({"kind": "short"}, 7)
        requests = hold(engine, workload, level=level | {"spread_s": 1.0}, processes=processes)  # type: ignore[arg-type]
        return sorted(repr(prompt) for _, prompt in engine.asked), sorted(repr(request) for request in requests)

    assert said((0,)) == said((0, 1)) == said((0, 1, 2))


def test_synchronised_people_wait_for_their_window() -> None:
    """Those who press enter together do so within the first seconds of each period; the others as they like."""
    plan = Synchronised(share=0.5, every_s=30.0, window_s=2.0)
    requests = hold(Scripted(), Said(turn(think_s=3.0)), level={"users": 40}, for_s=300, arrivals=plan, seed=3)

    late = {r.person for r in requests if (r.scheduled_at_s - 1.0) % 30.0 > 2.0}
    assert len(late) == 20
    pressed = [r.scheduled_at_s for r in requests if r.person not in late]
    assert Counter(int((at_s - 1.0) // 30.0) for at_s in pressed) == dict.fromkeys(range(10), 20)


def test_arrivals_are_poisson() -> None:
    """Conversations come at the rate that was asked; gaps have the mean and the spread of an exponential."""
    requests = hold(Scripted(), Said(turn(), turn()), level={"rate_per_s": 10.0}, for_s=400)

    starts = sorted(r.scheduled_at_s for r in requests if r.turn == 1)
    gaps_s = [b - a for a, b in itertools.pairwise(starts)]
    assert len(starts) == pytest.approx(4000, rel=0.05)
    assert fmean(gaps_s) == pytest.approx(0.1, rel=0.05)
    assert pvariance(gaps_s) == pytest.approx(0.01, rel=0.15)
    assert sorted(r.person for r in requests if r.turn == 1) == list(range(len(starts)))


def test_arrivals_do_not_wait_for_the_server() -> None:
    """In the open loop new people come while nobody is answered."""

    def never(prompt: Prompt, reply: Reply) -> float:
        good(prompt, reply)
        return 1e6

    engine = Scripted(never)
    requests = hold(engine, Said(turn()), level={"rate_per_s": 5.0}, for_s=100, arrivals=Open(gap_cv=0.0))

    assert engine.in_flight_peak == len(requests) in (499, 500)  # the last one comes with the end
    assert {r.error for r in requests} == {"cut"}


def test_latency_counts_from_the_planned_time() -> None:
    """A client that was held up for a second sends late, and says since when the person waited (A59)."""

    class Stalled(Scripted):
        async def send(self, prompt: Prompt, reply: Reply) -> None:
            if len(self.asked) == 50:  # our own loop is busy: the clock goes on, nothing else does
                clock().__self__._jumping.now_s += 1.0  # type: ignore[attr-defined]
            await super().send(prompt, reply)

    plan = Open(gap_cv=0.0)
    requests = hold(Stalled(), Said(turn()), level={"rate_per_s": 10.0}, for_s=20, arrivals=plan)

    due = [r.scheduled_at_s for r in sorted(requests, key=lambda r: r.person)]
    assert due == pytest.approx([1.0 + (k + 1) / 10 for k in range(len(due))])
    late_s = [(r.sent_at_s or 0.0) - r.scheduled_at_s for r in requests]
    assert max(late_s) == pytest.approx(1.0)
    assert sum(delay_s > 0.001 for delay_s in late_s) == pytest.approx(10, abs=1)


def test_a_trace_comes_as_it_came(tmp_path: Any) -> None:
    """Recorded arrivals at twice their speed, one conversation each; the level is over when the last has left."""
    file = tmp_path / "trace.jsonl"
    row = '{{"timestamp": {}, "input_length": 12, "output_length": 4}}'
    rows = [row.format(at_ms) for at_ms in (0, 1000, 1500, 4000)]
    file.write_text("\n".join(rows))
    workload = make_workload({"kind": "trace", "file": str(file)}, 1)

    requests = hold(Scripted(), workload, for_s=None, arrivals=Replayed(speed=2.0))  # type: ignore[arg-type]

    assert [r.scheduled_at_s for r in requests] == pytest.approx([1.0, 1.5, 1.75, 3.0])
    assert [r.person for r in requests] == [0, 1, 2, 3]


def test_a_level_repeated_says_new_words() -> None:
    """The stream of random words is named by the level, so that no cache knows them from the last time."""

    def texts(index: int) -> set[str]:
        engine = Scripted()
        workload = make_workload({"kind": "short"}, 7)
        hold(engine, workload, level={"index": index}, for_s=10)  # type: ignore[arg-type]
        return {prompt.messages[0]["content"] for _, prompt in engine.asked}

    assert not texts(0) & texts(1)
    assert texts(0) == texts(0)


def test_levels_and_requests_tell_their_places() -> None:
    """Every fact carries its level's index."""
    requests: list[Request] = hold(Scripted(), Said(turn()), level={"index": 5}, for_s=3)

    assert {r.level for r in requests} == {Level(5, 1, 0.0).index}
