"""People and traces against one server, with no clock at all: from event to event. The pure core's own driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from math import inf

from headcount.simulator.job import Job
from headcount.simulator.server import Server

__all__ = ["Person", "drive", "replay"]

Person = Iterator[tuple[float, Job]]
"""What one person asks: (pause after the previous answer in seconds, job), lazily, endless or not."""


def drive(server: Server, people: Iterable[Person], until_s: float = inf) -> list[Job]:
    """Everybody asks, waits for the answer, pauses, asks again; ended jobs in order of their ends.

    The first pause counts from 0. Refused jobs are among the ended ones. Stops before the first event after
    ``until_s``, or when nobody has anything left to ask.
    """
    ended: list[Job] = []
    due: list[tuple[float, int, Job]] = []
    crowd = list(people)
    for number, person in enumerate(crowd):
        _ask(due, 0.0, number, person)
    while True:
        ask_at_s = due[0][0] if due else inf
        event_at_s = server.next_event_at()
        if event_at_s is not None and event_at_s <= ask_at_s:
            if event_at_s > until_s:
                return ended
            for at_s, kind, job in server.advance(event_at_s):
                if kind == "finished":
                    ended.append(job)
                    number = job.tag  # type: ignore[assignment]
                    _ask(due, at_s, number, crowd[number])
        elif ask_at_s <= until_s and due:
            at_s, number, job = heappop(due)
            if server.submit(at_s, job):
                ended.append(job)
                _ask(due, at_s, number, crowd[number])
        else:
            return ended


def replay(server: Server, arrivals: Iterable[tuple[float, Job]]) -> list[Job]:
    """Submit each job at its time, whatever the server does; ended jobs in order of their ends."""
    return drive(server, (iter(((at_s, job),)) for at_s, job in arrivals))


def _ask(due: list[tuple[float, int, Job]], at_s: float, number: int, person: Person) -> None:
    asked = next(person, None)
    if asked is not None:
        pause_s, job = asked
        job.tag = number
        heappush(due, (at_s + pause_s, number, job))
