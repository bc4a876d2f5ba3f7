"""How good is the answer? Hundreds of searches on simulated servers whose true limit is known.

    python benchmarks/study_limit.py [--servers 80] [--seeds 4] [--jobs 2] [--only kind] [--time-share 1] [--rivals]

``--time-share 10`` gives every search ten times its minutes: as long as it wants.

The servers are a small event simulation of their own (slots, one prefill lane, a shared decode step, a prefix cache
that forgets), so that the method is not judged by the simulator it also serves. The truth is each server held for
60,000 requests at each number of people around its limit; it never uses the method.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import random
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from headcount.analysis.conclusions import LevelSummary, Limits, Plan
from headcount.analysis.search import estimate_s, next_level
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.analysis.verdict import judge
from headcount.records import Level, Request
from headcount.slo import Clause, parse_slo

KINDS = ("slots", "prefill", "decode", "kv-cliff")
TRUTH_FILE = Path(__file__).with_name("study_truth.json")
TRUTH_REQUESTS = 60_000


class Server(msgspec.Struct, frozen=True):
    """A server and its people; times in seconds, lengths in tokens."""

    kind: str
    number: int
    slots: int
    prefill_tokens_per_s: float
    step_s: float
    step_each_s: float
    """A decode step takes step_s + step_each_s x running sequences."""
    cache_tokens: float
    think_s: float
    prompt_tokens: float
    output_tokens: float

    @property
    def answer_s(self) -> float:
        """How long an answer takes without anybody else."""
        prefill_s = 0.02 + self.prompt_tokens / self.prefill_tokens_per_s
        return prefill_s + self.output_tokens * (self.step_s + self.step_each_s)

    @property
    def slo(self) -> tuple[Clause, ...]:
        return parse_slo(("ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s"))


def make_server(kind: str, number: int) -> Server:
    """A random server of a kind."""
    rng = random.Random(f"{kind} {number}")
    think_s = rng.choice([0.0, 1.0, 4.0, 8.0])
    prompt, output, step = rng.uniform(100, 600), rng.uniform(30, 120), rng.uniform(0.008, 0.02)
    slots, prefill_rate, each_s, cache = 512, 25000.0, 0.0002, 1e9
    if kind == "slots":
        slots = rng.randint(2, 24)
    elif kind == "prefill":
        prefill_rate = rng.uniform(600, 6000)
    elif kind == "decode":
        each_s = rng.uniform(0.0008, 0.01)
    else:
        prompt = rng.uniform(300, 1500)
        cache = prompt * 4 * rng.uniform(8, 60)
        prefill_rate = rng.uniform(8000, 16000)
    return Server(kind, number, slots, prefill_rate, step, each_s, cache, think_s, prompt, output)


class Crowd:
    """People at a server, in a closed loop. ``until`` yields requests in the order of their ends."""

    def __init__(self, server: Server, users: int, began_at_s: float, spread_s: float, rng: random.Random) -> None:
        self.server, self.rng = server, rng
        self.running: dict[int, tuple[float, float, int, float]] = {}
        self.waiting: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self._turn = dict.fromkeys(range(users), 0)
        # Everybody joins somewhere in a conversation, so that not all histories grow and end together.
        self._last_turn = {person: rng.randint(1, rng.randint(2, 4)) for person in range(users)}
        self._history = dict.fromkeys(range(users), 0.0)
        self._cache: OrderedDict[int, float] = OrderedDict()
        self._cached_tokens = 0.0
        self._arrivals = [(began_at_s + spread_s * person / users, person) for person in range(users)]
        heapq.heapify(self._arrivals)
        self._prefills: list[tuple[float, int]] = []
        self._prefill_free_at_s = 0.0
        self._decoding: list[tuple[float, int, float]] = []
        self._tokens_each, self._at_s = 0.0, began_at_s

    def until(self, end_s: float) -> Iterator[Request]:
        """Simulate on to ``end_s``."""
        while True:
            arrival = self._arrivals[0][0] if self._arrivals else math.inf
            prefilled = self._prefills[0][0] if self._prefills else math.inf
            step = self.server.step_s + self.server.step_each_s * len(self._decoding)
            finish = self._at_s + (self._decoding[0][0] - self._tokens_each) * step if self._decoding else math.inf
            now = min(arrival, prefilled, finish)
            if now > end_s:
                self._tokens_each += max(0.0, end_s - self._at_s) / step
                self._at_s = max(self._at_s, end_s)
                return
            self._tokens_each += max(0.0, now - self._at_s) / step
            self._at_s = now
            if now == finish:
                yield self._finish(now)
            elif now == prefilled:
                _, person = heapq.heappop(self._prefills)
                scheduled, _, turn, tokens = self.running[person]
                self.running[person] = (scheduled, now, turn, tokens)
                heapq.heappush(self._decoding, (self._tokens_each + tokens - 1, person, now))
            else:
                _, person = heapq.heappop(self._arrivals)
                self._turn[person] += 1
                if self._turn[person] > self._last_turn[person]:
                    self._turn[person], self._last_turn[person] = 1, self.rng.randint(2, 4)
                    self._history[person] = 0.0
                    self._forget(person)
                self.waiting[person] = (now, self._turn[person])
                self._admit(now)

    def in_flight(self, at_s: float) -> Iterator[Request]:
        """What is cut when the level ends now."""
        for person, (scheduled, turn) in self.waiting.items():
            yield _request(person, turn, scheduled, None, at_s, 0.0, 0.0, "cut")
        for person, (scheduled, first, turn, tokens) in self.running.items():
            yield _request(person, turn, scheduled, first if first <= at_s else None, at_s, tokens, 0.0, "cut")

    def _admit(self, now: float) -> None:
        while self.waiting and len(self.running) < self.server.slots:
            person, (scheduled, turn) = self.waiting.popitem(last=False)
            new = self.server.prompt_tokens * self.rng.uniform(0.5, 1.5)
            work = new if person in self._cache else new + self._history[person]
            tokens = max(2.0, self.server.output_tokens * self.rng.uniform(0.4, 1.6))
            self._prefill_free_at_s = max(now, self._prefill_free_at_s) + 0.02 + work / self.server.prefill_tokens_per_s
            heapq.heappush(self._prefills, (self._prefill_free_at_s, person))
            self.running[person] = (scheduled, math.inf, turn, tokens)
            self._history[person] += new + tokens

    def _finish(self, now: float) -> Request:
        _, person, _ = heapq.heappop(self._decoding)
        scheduled, first, turn, tokens = self.running.pop(person)
        self._remember(person)
        think_s = self.server.think_s * self.rng.uniform(0.5, 1.5)
        heapq.heappush(self._arrivals, (now + think_s, person))
        self._admit(now)
        return _request(person, turn, scheduled, first, now, tokens, think_s, None)

    def _remember(self, person: int) -> None:
        self._forget(person)
        self._cache[person] = self._history[person]
        self._cached_tokens += self._history[person]
        while self._cached_tokens > self.server.cache_tokens:
            self._cached_tokens -= self._cache.popitem(last=False)[1]

    def _forget(self, person: int) -> None:
        self._cached_tokens -= self._cache.pop(person, 0.0)


def _request(
    person: int,
    turn: int,
    scheduled: float,
    first: float | None,
    ended: float,
    tokens: float,
    think: float,
    error: str | None,
) -> Request:
    chunks = [] if first is None else [first] if error else [first, ended]
    return Request(
        level=0,
        person=person,
        conversation=0,
        turn=turn,
        scheduled_at_s=scheduled,
        sent_at_s=scheduled,
        ended_at_s=ended,
        chunk_at_s=chunks,
        output_tokens=None if error else round(tokens),
        think_s=think,
        error=error,
    )


# --- the truth --------------------------------------------------------------------------------


def miss_share(server: Server, users: int, requests: int = TRUTH_REQUESTS) -> float:
    """The largest miss share of any clause over a very long time."""
    crowd = Crowd(server, users, 0.0, 10.0, random.Random(f"truth {users}"))
    slow = starved = n = 0
    for request in itertools.islice(crowd.until(math.inf), requests):
        n += 1
        if n < requests * 0.05:
            continue
        first, last = request.chunk_at_s
        slow += first - request.scheduled_at_s > 2.0
        starved += (last - first) / max(1, (request.output_tokens or 2) - 1) > 0.1
    return max(slow, starved) / (n * 0.95)


class Truth(msgspec.Struct, frozen=True):
    limit: int
    """The largest number of people at which at most 5 % miss."""
    rate_per_s: float
    """Answers a second there."""


def true_limit(server: Server) -> Truth:
    """By ever longer runs, the last ones of ``TRUTH_REQUESTS``."""
    low, high = 0, 1
    while miss_share(server, high, 8000) <= 0.05 and high < 1024:
        low, high = high, 2 * high
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if miss_share(server, middle, 10000) <= 0.05 else (low, middle)
    users = max(1, low)
    while users > 0 and miss_share(server, users) > 0.05:
        users -= 1
    while miss_share(server, users + 1) <= 0.05:
        users += 1
    crowd = Crowd(server, max(1, users), 0.0, 10.0, random.Random("rate"))
    *_, last = itertools.islice(crowd.until(math.inf), 10000)
    return Truth(users, round(10000 / last.ended_at_s, 2))


def truths(jobs: int, kinds: list[str], each: int) -> dict[tuple[str, int], Truth]:
    """The first so many servers of each kind that answer 2 to 16 requests a second at their limit of 3 to 200 people.

    Worked out once and kept beside this file.
    """
    stored = json.loads(TRUTH_FILE.read_text()) if TRUTH_FILE.exists() else {}
    chosen: dict[tuple[str, int], Truth] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for kind in kinds:
            number = found = 0
            while found < each:
                batch = [n for n in range(number, number + jobs) if f"{kind} {n}" not in stored]
                for n, truth in zip(batch, pool.map(true_limit, [make_server(kind, n) for n in batch]), strict=True):
                    stored[f"{kind} {n}"] = [truth.limit, truth.rate_per_s]
                for n in range(number, number + jobs):
                    truth = Truth(*stored[f"{kind} {n}"])
                    if 3 <= truth.limit <= 200 and 2.0 <= truth.rate_per_s <= 16.0 and found < each:
                        chosen[kind, n] = truth
                        found += 1
                number += jobs
                TRUTH_FILE.write_text(json.dumps(stored, sort_keys=True, separators=(",", ":")) + "\n")
    return chosen


# --- our search -------------------------------------------------------------------------------


def hold(
    server: Server, plan: Plan, index: int, began_at_s: float, spread_s: float, rng: random.Random
) -> LevelSummary:
    """One level as the session holds it: looks about once a second, ended by its decision or its time."""
    table, slo = RequestTable(server.slo), server.slo
    level = Level(index, plan.users, began_at_s, purpose=plan.purpose, started_at_s=began_at_s + spread_s)
    crowd = Crowd(server, plan.users, began_at_s, spread_s, rng)
    at_s, end_s, look_s = began_at_s, began_at_s + plan.time_s, max(1.0, spread_s / 4)
    while True:
        at_s = min(at_s + look_s, end_s)
        for request in crowd.until(at_s):
            table.add(request)
        if at_s < began_at_s + 1.5 * spread_s and at_s < end_s:
            continue
        summary = summarize(level, table, (), slo, ended_at_s=at_s)
        if summary.decision in ("holds", "fails") or at_s >= end_s:
            break
    for request in crowd.in_flight(at_s):
        table.add(request)
    return summarize(msgspec.structs.replace(level, stopped_at_s=at_s), table, (), slo)


def search(server: Server, limits: Limits, seed: int) -> list[LevelSummary]:
    """A whole search, as the session makes it."""
    rng = random.Random(f"search {seed}")
    summaries: list[LevelSummary] = []
    while (plan := next_level(summaries, limits)) is not None:
        at_s = summaries[-1].ended_at_s if summaries else 0.0
        nearest = min(summaries, key=lambda s: abs(s.users - plan.users), default=None)
        answer_s = nearest.e2e_s.p50 if nearest is not None and nearest.e2e_s.p50 is not None else 0.0
        summaries.append(hold(server, plan, len(summaries), at_s, answer_s + server.think_s, rng))
    return summaries


class Result(msgspec.Struct, frozen=True):
    server: Server
    seed: int
    truth: Truth
    limit: int | None
    interval: tuple[float, float] | None
    spent_s: float
    levels: int
    fatal: int
    confirmed: bool
    estimate_s: float
    """What was said before the start."""
    wall_s: float


def budget_s(server: Server, truth: Truth) -> float:
    """6 minutes at 10 answers a second, 8 at 2 to 3; half of that without think time."""
    full = 360.0 if truth.rate_per_s >= 7.0 else 480.0
    return full if server.think_s > 0.0 else full / 2.0


def one(job: tuple[Server, int, Truth, float]) -> Result:
    server, seed, truth, share = job
    began = time.perf_counter()
    limits = Limits(max_time_s=budget_s(server, truth) * share)
    summaries = search(server, limits, seed)
    verdict = judge(summaries, limits, server.slo)
    return Result(
        server, seed, truth, verdict.limit_users, verdict.limit_interval_users,
        sum(s.ended_at_s - s.began_at_s for s in summaries), len(summaries),
        sum(c.fatal for s in summaries for c in s.cautions), verdict.confirmations >= 3,
        estimate_s(limits, server, server.slo, server.answer_s), time.perf_counter() - began,
    )  # fmt: skip


# --- searches in the style of others ----------------------------------------------------------


def one_level(server: Server, users: int, requests: int, rng: random.Random) -> tuple[float, float, float]:
    """Everybody starts at once; after so many answers: p95 of TTFT, share that met everything, seconds."""
    first_s, met, last_s = [], 0, 0.0
    for request in itertools.islice(Crowd(server, users, 0.0, 0.0, rng).until(math.inf), requests):
        first, last = request.chunk_at_s
        wait_s, each_s = first - request.scheduled_at_s, (last - first) / max(1, (request.output_tokens or 2) - 1)
        first_s.append(max(wait_s, 20.0 * each_s))  # 0.1 s a token is as bad as 2 s to the first
        met += wait_s <= 2.0 and each_s <= 0.1
        last_s = request.ended_at_s
    return sorted(first_s)[int(0.95 * len(first_s))], met / len(first_s), last_s


def bisected(server: Server, rng: random.Random, passes: Callable[[float, float], bool]) -> tuple[int, float]:
    """Doubling, then bisection, 100 answers a level, one look each."""
    spent_s, low, high = 0.0, 0, 1

    def good(users: int) -> bool:
        nonlocal spent_s
        p95_s, met, took_s = one_level(server, users, 100, rng)
        spent_s += took_s
        return passes(p95_s, met)

    while high <= 1024 and good(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return low, spent_s


def swept(server: Server, rng: random.Random, level_s: float) -> tuple[int, float]:
    """1, 2, 4 … people for so long each, the last that passes."""
    limit, users, spent_s = 0, 1, 0.0
    while True:
        waits = [r for r in Crowd(server, users, 0.0, 10.0, rng).until(level_s) if r.ended_at_s > 0.1 * level_s]
        spent_s += level_s
        bad = sum(_misses(r) for r in waits)
        if bad > 0.05 * len(waits) or users > 1024:
            return limit, spent_s
        limit, users = users, 2 * users


def _misses(request: Request) -> bool:
    first, last = request.chunk_at_s
    return first - request.scheduled_at_s > 2.0 or (last - first) / max(1, (request.output_tokens or 2) - 1) > 0.1


def rivals(job: tuple[Server, int, Truth, float]) -> dict[str, tuple[int, float]]:
    server, seed, _, _ = job
    rng = random.Random(f"rival {seed}")
    return {
        "doubling + bisection, 100 answers a level": bisected(server, rng, lambda p95_s, met: p95_s <= 2.0),
        "the same, 90 % attainment": bisected(server, rng, lambda p95_s, met: met >= 0.9),
        "fixed grid 1, 2, 4 … of 1 minute": swept(server, rng, 60.0),
        "fixed sweep 1, 2, 4 … of 10 minutes": swept(server, rng, 600.0),
    }


def report_rivals(jobs: list[tuple[Server, int, Truth, float]], pool: ProcessPoolExecutor) -> None:
    found = list(pool.map(rivals, jobs))
    for name in found[0]:
        off = [abs(f[name][0] / job[2].limit - 1.0) for f, job in zip(found, jobs, strict=True)]
        near = [
            abs(f[name][0] - job[2].limit) <= max(1.0, 0.05 * job[2].limit) for f, job in zip(found, jobs, strict=True)
        ]
        spent = statistics.median(f[name][1] for f in found)
        figures = (
            f"close {sum(near) / len(near):.1%}  off by {statistics.median(off):.1%}  time {spent:.0f} s (medians)"
        )
        print(f"{name:45} n {len(jobs):4}  {figures}")


def close(result: Result) -> bool:
    """Within 5 % or one person."""
    return result.limit is not None and abs(result.limit - result.truth.limit) <= max(1.0, 0.05 * result.truth.limit)


def covers(result: Result) -> bool:
    interval = result.interval
    return interval is not None and interval[0] <= result.truth.limit <= interval[1]


def report(name: str, results: list[Result]) -> None:
    if not results:
        return
    n = len(results)
    error = [(r.limit or 0) / r.truth.limit - 1.0 for r in results]
    widths = [(r.interval[1] - r.interval[0]) / r.truth.limit for r in results if r.interval]
    spent = [r.spent_s for r in results]
    figures = {
        "covered": f"{sum(map(covers, results)) / n:.1%}",
        "close": f"{sum(map(close, results)) / n:.1%}",
        "bias": f"{statistics.fmean(error):+.1%}",
        "width": f"{statistics.fmean(widths) if widths else 0.0:.1%}",
        "time": f"{statistics.median(spent):.0f} s (max {max(spent):.0f})",
        "levels": f"{statistics.fmean(r.levels for r in results):.1f}",
        "estimated": f"{sum(abs(r.estimate_s / r.spent_s - 1.0) <= 0.3 for r in results) / n:.1%}",
        "confirmed": f"{sum(r.confirmed for r in results) / n:.1%}",
        "fatal": f"{sum(r.fatal > 0 for r in results) / n:.1%}",
        "wall": f"{statistics.fmean(r.wall_s for r in results):.2f} s",
    }
    print(f"{name:10} n {n:4}", *(f"{key} {value}" for key, value in figures.items()), sep="  ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--time-share", type=float, default=1.0)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    kinds = [k for k in KINDS if k.startswith(options.only)]
    truth = truths(options.jobs, kinds, options.servers // len(kinds))
    jobs = [(make_server(*key), seed, truth[key], options.time_share) for key in truth for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, jobs, chunksize=2))
        if options.rivals:
            report_rivals(jobs, pool)
    if options.verbose:
        for r in results:
            print(
                f"{r.server.kind:9} {r.server.number:2} think {r.server.think_s:g} seed {r.seed} "
                f"rate {r.truth.rate_per_s:4.1f} "
                f"truth {r.truth.limit:4} limit {r.limit} {r.interval} {r.spent_s:5.0f} s levels {r.levels} "
                f"{'' if covers(r) else 'MISSED'} {'' if close(r) else 'FAR'} {'' if r.confirmed else 'unconfirmed'}"
            )
    for kind in kinds:
        report(kind, [r for r in results if r.server.kind == kind])
    fast = [r for r in results if r.truth.rate_per_s >= 7.0]
    slow = [r for r in results if r.truth.rate_per_s < 7.0]
    report("fast", [r for r in fast if r.server.think_s > 0])
    report("slow", [r for r in slow if r.server.think_s > 0])
    report("fast, busy", [r for r in fast if r.server.think_s == 0])
    report("slow, busy", [r for r in slow if r.server.think_s == 0])
    report("all", results)
    # the search was improved on the first ten servers of each kind
    tenth = {kind: sorted({number for of, number in truth if of == kind})[:10] for kind in kinds}
    report("unseen", [r for r in results if r.server.number not in tenth[r.server.kind]])


if __name__ == "__main__":
    main()
