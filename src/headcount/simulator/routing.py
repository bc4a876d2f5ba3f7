"""Servers alike behind a router, driven as if they were one. Knows nothing of who asks and why.

``least-loaded``: each request goes to the replica with the fewest requests inside, in turn among equals.
``sticky``: a session stays with the replica it was first sent to, the one with the fewest sessions then; only there
its history is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf

from headcount.simulator.job import Event, Job, Refusal
from headcount.simulator.server import Server

__all__ = ["ROUTINGS", "Replicas"]

ROUTINGS = ("least-loaded", "sticky")


class Replicas:
    """``submit``, ``next_event_at`` and ``advance`` are those of one ``Server``; calls come in order of time."""

    def __init__(self, servers: Sequence[Server], routing: str) -> None:
        if routing not in ROUTINGS:
            raise ValueError(f"routing {routing!r} is not known; known: {', '.join(ROUTINGS)}")
        self.servers = list(servers)
        self.failed: set[int] = set()
        self._sticky = routing == "sticky"
        self._due_at_s = [inf] * len(self.servers)
        self._turn = 0
        self._home: dict[Hashable, int] = {}
        self._sessions = [0] * len(self.servers)

    def submit(self, now_s: float, job: Job, session: Hashable) -> Refusal | None:
        """Send ``job`` to the replica that the routing chooses; None, or why it was refused there."""
        number = self.replica_for(session)
        server = self.servers[number]
        refused = server.submit(now_s, job)
        self._due_at_s[number] = _due_at_s(server)
        return refused

    def replica_for(self, session: Hashable) -> int:
        """Where a request of that session goes now."""
        if not self._sticky:
            return self._least([len(server.running) + len(server.waiting) for server in self.servers])
        home = self._home.get(session)
        if home is None or home in self.failed:
            home = self._home[session] = self._least(self._sessions)
            self._sessions[home] += 1
        return home

    def next_event_at(self) -> float | None:
        """When something happens next at any replica; None: never."""
        at_s = min(self._due_at_s)
        return at_s if at_s < inf else None

    def advance(self, to_s: float) -> list[Event]:
        """What happened up to ``to_s`` since the last call, replica by replica."""
        events: list[Event] = []
        for number, due_at_s in enumerate(self._due_at_s):
            if due_at_s <= to_s:
                server = self.servers[number]
                events += server.advance(to_s)
                self._due_at_s[number] = _due_at_s(server)
        return events

    def fail(self, number: int) -> list[Job]:
        """The replica is gone from now on; the jobs that were inside, of which nothing more will be heard."""
        self.failed.add(number)
        self._due_at_s[number] = inf
        server = self.servers[number]
        return [*server.running, *server.waiting]

    def _least(self, loads: Sequence[int]) -> int:
        """The replica still there with the least load; equals take turns."""
        count = len(loads)
        self._turn += 1
        order = (number % count for number in range(self._turn, self._turn + count))
        return min((number for number in order if number not in self.failed), key=loads.__getitem__)


def _due_at_s(server: Server) -> float:
    at_s = server.next_event_at()
    return inf if at_s is None else at_s
