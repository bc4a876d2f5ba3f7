"""A few lines of closed loop: people who queue for the slots of a server. Enough to have levels with a known truth."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary, Limits, Plan
from headcount.analysis.search import next_level
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.records import Level, Request, Sample
from headcount.slo import Clause, parse_slo

SLO = parse_slo(("ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s"))
THINK_S = 4.0
ANSWER_S = 2.0
TOKENS = 41


class Slots:
    """A server that serves so many people at once; the others wait in the order in which they came."""

    def __init__(self, slots: int = 8, answer_s: float = ANSWER_S, slower_per_s: float = 0.0) -> None:
        self.slots = slots
        self.answer_s = answer_s
        self.slower_per_s = slower_per_s
        """Relative growth of answer times a second: a server that drifts."""

    def requests(self, users: int, began_at_s: float, spread_s: float, rng: random.Random) -> Iterator[Request]:
        """Requests of people who start over ``spread_s``, in the order in which they are made; endless."""
        free_at_s = [began_at_s] * self.slots
        coming = [(began_at_s + spread_s * person / users, person, 1) for person in range(users)]
        heapq.heapify(coming)
        while True:
            at_s, person, turn = heapq.heappop(coming)
            start_s = max(at_s, heapq.heappop(free_at_s))
            length_s = self.answer_s * rng.uniform(0.5, 1.5) * (1.0 + self.slower_per_s * (at_s - began_at_s))
            think_s = THINK_S * rng.uniform(0.5, 1.5)
            heapq.heappush(free_at_s, start_s + length_s)
            heapq.heappush(coming, (start_s + length_s + think_s, person, turn + 1))
            yield request(person, at_s, start_s + 0.1, start_s + length_s, turn=turn, think_s=think_s)


def request(person: int, at_s: float, first_s: float, last_s: float, **more: object) -> Request:
    """A good streamed answer of ``TOKENS`` tokens."""
    values: dict[str, object] = {
        "level": 0,
        "person": person,
        "conversation": 0,
        "turn": 1,
        "scheduled_at_s": at_s,
        "sent_at_s": at_s,
        "ended_at_s": last_s,
        "chunk_at_s": [first_s, last_s],
        "prompt_tokens": 100,
        "output_tokens": TOKENS,
        "token_source": "server",
        "think_s": 0.0,
    }
    return Request(**{**values, **more})  # type: ignore[arg-type]


def until(requests: Iterator[Request], stop_s: float) -> list[Request]:
    """What a level's table holds when it was stopped then, in order of ends: those still in flight are cut."""
    found = []
    for made in requests:
        if made.scheduled_at_s >= stop_s:
            break
        if made.ended_at_s > stop_s:
            seen = [at_s for at_s in made.chunk_at_s if at_s <= stop_s]
            made = msgspec.structs.replace(made, error="cut", ended_at_s=stop_s, chunk_at_s=seen, output_tokens=None)
        found.append(made)
    return sorted(found, key=lambda made: made.ended_at_s)


def held(
    server: Slots,
    plan: Plan,
    index: int = 0,
    began_at_s: float = 0.0,
    seed: int = 1,
    slo: tuple[Clause, ...] = SLO,
    samples: Sequence[Sample] = (),
) -> LevelSummary:
    """One level, looked at every two seconds, ended by its decision or its time."""
    spread_s = server.answer_s + THINK_S
    level = Level(index, plan.users, began_at_s, purpose=plan.purpose, started_at_s=began_at_s + spread_s)
    stop_s = began_at_s + 2.0 * spread_s
    while stop_s < began_at_s + plan.time_s:
        stop_s = min(stop_s + 2.0, began_at_s + plan.time_s)
        if summary(server, level, stop_s, seed, slo, samples).decision in ("holds", "fails"):
            break
    ended = msgspec.structs.replace(level, stopped_at_s=stop_s, drained_at_s=stop_s)
    return summary(server, ended, stop_s, seed, slo, samples)


def summary(
    server: Slots, level: Level, stop_s: float, seed: int, slo: tuple[Clause, ...], samples: Sequence[Sample] = ()
) -> LevelSummary:
    """A level as it stands at one instant; while it runs, those in flight are not known yet."""
    table = RequestTable(slo)
    spread_s = (level.started_at_s or level.began_at_s) - level.began_at_s
    rng = random.Random(f"{seed} {level.index}")
    for made in until(server.requests(level.users, level.began_at_s, spread_s, rng), stop_s):
        if level.stopped_at_s is not None or made.error != "cut":
            table.add(made)
    return summarize(level, table, samples, slo, ended_at_s=stop_s)


def searched(server: Slots, limits: Limits, seed: int = 1) -> list[LevelSummary]:
    """A whole search."""
    summaries: list[LevelSummary] = []
    at_s = 0.0
    while (plan := next_level(summaries, limits)) is not None:
        summaries.append(held(server, plan, len(summaries), at_s, seed))
        at_s = summaries[-1].ended_at_s
    return summaries
