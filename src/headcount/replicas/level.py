"""People against a pool of simulated replicas, with no clock at all: one level of it, and the minute after a failure.

Many people are a few hundred drawn ones, each standing for several with histories of their own. Knows nothing of how
many replicas are needed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from headcount.errors import ScenarioError
from headcount.prediction.crowd import Asked, Crowd, Held
from headcount.prediction.figures import Figures, figures_of
from headcount.prediction.served import Served
from headcount.simulator.job import Job
from headcount.simulator.routing import Replicas
from headcount.simulator.server import Server
from headcount.slo import Clause

__all__ = ["ReplicaPool", "minute_after_failure", "steady"]

_DRAWN = 256
"""People whose words are drawn; more people ask the same at other times."""
_LEAST_ANSWERS = 2000
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class ReplicaPool:
    """What is simulated: ``replicas`` of ``served`` behind a router."""

    served: Served
    crowd: Crowd
    slo: tuple[Clause, ...]
    replicas: int
    routing: str
    spares: int = 0
    """Replicas beyond those the people need."""
    stands_for: int = 1
    """How many replicas each one stands for. A history is known to one replica of the whole, so that chance brings
    its next question back to it that much less often."""
    seed: int = 1


def steady(pool: ReplicaPool, users: int) -> Figures:
    """What ``users`` people feel once the level is steady."""
    asking = _Asking(pool, users)
    asking.until(lambda: asking.ended >= users)
    asking.begin()
    asking.until(lambda: len(asking.answered) >= max(_LEAST_ANSWERS, users // 2))
    return asking.figures()


def minute_after_failure(pool: ReplicaPool, users: int) -> Figures:
    """What everybody feels who asks, or was being answered, in the minute after one replica of the pool is gone."""
    asking = _Asking(pool, users)
    asking.until(lambda: asking.ended >= users)
    asking.begin()
    asking.fail()
    end_s = asking.now_s + _MINUTE_S
    asking.until(lambda: asking.now_s >= end_s)
    return asking.figures()


@dataclass(slots=True)
class _Question:
    """What one of the people has asked."""

    person: int
    asked: Asked


class _Asking:
    """A level under way."""

    def __init__(self, pool: ReplicaPool, users: int) -> None:
        self.pool = pool
        self.users = users
        served = pool.served
        servers = [Server(served.cost, served.policy) for _ in range(pool.replicas + pool.spares)]
        self.replicas = Replicas(servers, pool.routing)
        self.now_s = 0.0
        self.ended = 0
        self.answered: list[Asked] = []
        self._overflows = 0
        self._began_at_s = 0.0
        self._rng = random.Random(f"{pool.seed} {users}")
        self._due: list[tuple[float, int, _Question]] = []
        self._asks: list[Iterator[tuple[float, Asked]]] = []
        self._number = 0
        expected = pool.crowd.expected()
        alone_s = served.cost.step_s(1, 1, adapted=False)
        cycle_s = expected.think_s + expected.stage_s + 2.0 * expected.output_tokens * alone_s
        for person in range(users):
            asks = pool.crowd.asks(person % _DRAWN, served.policy.context_tokens)
            for _ in range(self._rng.randrange(max(1, round(expected.turns)))):
                next(asks)  # people are in the middle of their conversations
            self._asks.append(asks)
            self._ask(person, cycle_s * self._rng.random())

    def until(self, enough: Callable[[], bool]) -> None:
        """Let time pass."""
        replicas, due = self.replicas, self._due
        while not enough():
            ask_at_s = due[0][0] if due else inf
            event_at_s = replicas.next_event_at()
            if event_at_s is None and not due:
                return
            if event_at_s is None or event_at_s > ask_at_s:
                self._submit()
                continue
            self.now_s = event_at_s
            for at_s, kind, job in replicas.advance(event_at_s):
                if kind == "finished":
                    question: _Question = job.tag  # type: ignore[assignment]
                    self.ended += 1
                    self.answered.append(question.asked)
                    self._ask(question.person, at_s + question.asked.pause_s)

    def begin(self) -> None:
        """What is answered from now on counts."""
        self.answered.clear()
        self._overflows, self._began_at_s = 0, self.now_s

    def fail(self) -> None:
        """One replica is gone: whoever waited for it asks again at once."""
        whole = self.pool.stands_for == 1
        for lost in self.replicas.fail(0) if whole else self._some():
            question: _Question = lost.tag  # type: ignore[assignment]
            question.asked.job = _anew(lost)
            self._put_in_line(self.now_s, question)

    def _some(self) -> list[Job]:
        """Of what is inside as much as one replica of the whole has; it is taken out."""
        servers = self.replicas.servers
        inside = [(server, job) for server in servers for job in (*server.running, *server.waiting)]
        taken = self._rng.sample(inside, len(inside) // (len(servers) * self.pool.stands_for))
        for server, job in taken:
            server.cancel(self.now_s, job)
        return [job for _, job in taken]

    def figures(self) -> Figures:
        """A replica's share of it, judged as a measured level."""
        pool, answered = self.pool, self.answered
        window_s = max(1e-9, self.now_s - self._began_at_s)
        jobs = [asked.job for asked in answered]
        count = len(self.replicas.servers)
        running_s = sum((job.ended_at_s or 0.0) - (job.started_at_s or 0.0) for job in jobs)
        waiting_s = sum((job.started_at_s or 0.0) - job.submitted_at_s for job in jobs)
        tokens = sum(job.output_tokens for job in jobs) or 1
        held = Held(
            asked=answered,
            window_s=window_s,
            running_mean=running_s / window_s / count,
            waiting_mean=waiting_s / window_s / count,
            kv_used_mean_fraction=0.0,
            slots_full_fraction=0.0,
            memory_short_fraction=0.0,
            preemptions=0,
            context_mean_tokens=sum(job.output_tokens * job.prompt_tokens for job in jobs) / tokens,
            computed_tokens_per_s=0.0,
            pairs_per_s=0.0,
            overflows=self._overflows,
        )
        return figures_of(held, self.replicas.servers[-1], self.users, pool.slo, pool.served.request_s)

    def _ask(self, person: int, at_s: float) -> None:
        pause_s, asked = next(self._asks[person])
        asked.scheduled_at_s = at_s + pause_s
        asked.job.tag = question = _Question(person, asked)
        self._make_private(person, asked.job)
        self._put_in_line(asked.scheduled_at_s + self.pool.served.request_s, question)

    def _put_in_line(self, at_s: float, question: _Question) -> None:
        self._number += 1
        heappush(self._due, (at_s, self._number, question))

    def _make_private(self, person: int, job: Job) -> None:
        """Histories belong to one of those a drawn person stands for, and are known to one replica of the whole."""
        place = self._rng.randrange(self.pool.stands_for) if self.pool.routing == "least-loaded" else 0
        own = (person // _DRAWN, place)
        drawn = person % _DRAWN
        job.path = tuple(
            ((own, key), end) if isinstance(key, tuple) and key[0] == drawn else (key, end) for key, end in job.path
        )
        job.answer_key = (own, job.answer_key)

    def _submit(self) -> None:
        at_s, _, question = heappop(self._due)
        asked = question.asked
        self.now_s = max(self.now_s, at_s)
        refused = self.replicas.submit(at_s, asked.job, question.person)
        if refused == "context_overflow":
            asks = f"a question of {asked.job.prompt_tokens} tokens and an answer of up to {asked.job.limit_tokens}"
            room = self.pool.served.policy.context_tokens
            raise ScenarioError(
                f"{asks} do not fit into a context of {room} tokens",
                "a longer --context, or people who ask shorter questions with --workload",
            )
        if refused:
            self._overflows += 1
            self._ask(question.person, at_s + asked.pause_s)


def _anew(lost: Job) -> Job:
    """The same question, of which nothing is computed yet."""
    return Job(
        lost.prompt_tokens,
        lost.output_tokens,
        limit_tokens=lost.limit_tokens,
        adapter=lost.adapter,
        path=lost.path,
        answer_key=lost.answer_key,
        tag=lost.tag,
    )
