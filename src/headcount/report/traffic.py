"""What single requests show: groups by persona, model, adapter and style, turns, stages, and the timeline of one level.

Reads the stored requests once, as a stream. Knows nothing of HTML.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import numpy as np

from headcount.metrics import e2e_s, tpot_s, ttft_s
from headcount.records import Request
from headcount.stats.quantile import Values, quantile

__all__ = ["Bar", "Group", "StageTimes", "Traffic", "TurnTimes", "read_traffic"]

_MOST_PEOPLE = 40
_MOST_GROUPS = 50
_TIMELINE_S = 60.0


class Group(msgspec.Struct, frozen=True):
    """All requests of one persona with one model, adapter and style."""

    persona: str
    model: str
    adapter: str
    streamed: bool
    people: int
    """How many different people; whoever comes back at another level is the same person."""
    n: int
    n_errors: int
    """Cut ones are neither errors nor successes."""
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    e2e_p50_s: float | None
    e2e_p95_s: float | None
    user_tokens_per_s: float | None
    """Median of 1 / TPOT."""
    prompt_tokens_mean: float | None
    """Of good requests, history included, as are the next ones."""
    output_tokens_mean: float | None
    asked_tokens_mean: float | None
    """The most that was asked for."""


class TurnTimes(msgspec.Struct, frozen=True):
    """All requests that were the same turn of their conversation."""

    turn: int
    n: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    prompt_tokens_mean: float | None
    cached_fraction: float | None
    """Of prompt tokens, those that the server told it had cached; None where it does not tell."""


class StageTimes(msgspec.Struct, frozen=True):
    """One step outside the model."""

    name: str
    n: int
    p50_s: float | None
    p95_s: float | None
    max_s: float | None


class Bar(msgspec.Struct, frozen=True):
    """One request of the timeline."""

    person: int
    scheduled_at_s: float
    queued_until_s: float | None
    """Where the server told how long it queued."""
    first_output_at_s: float | None
    ended_at_s: float
    error: str | None


class Traffic(msgspec.Struct, frozen=True):
    """The groups of the whole run, and the bars of one level."""

    n_requests: int
    groups: tuple[Group, ...]
    """The largest first."""
    turns: tuple[TurnTimes, ...]
    stages: tuple[StageTimes, ...]
    bars: tuple[Bar, ...]
    began_at_s: float
    ended_at_s: float
    """Of the stretch of time the bars show."""


class _Mean:
    """Of values that are seen once."""

    def __init__(self) -> None:
        self.n = 0
        self.total = 0

    def add(self, value: int | None) -> None:
        if value is not None:
            self.n += 1
            self.total += value

    @property
    def value(self) -> float | None:
        return self.total / self.n if self.n else None


class _Tally:
    """A group: 12 bytes a request, since a run may hold very many."""

    def __init__(self) -> None:
        self.n = 0
        self.n_errors = 0
        self.people: set[int] = set()
        self.ttft_s = array("f")
        self.e2e_s = array("f")
        self.tpot_s = array("f")
        self.prompt_tokens = _Mean()
        self.output_tokens = _Mean()
        self.asked_tokens = _Mean()

    def add(self, request: Request) -> None:
        self.n += 1
        self.people.add(request.person)
        if request.error is not None:
            self.n_errors += request.error != "cut"
            return
        for values, value in (
            (self.ttft_s, ttft_s(request)),
            (self.e2e_s, e2e_s(request)),
            (self.tpot_s, tpot_s(request)),
        ):
            if value is not None:
                values.append(value)
        self.prompt_tokens.add(request.prompt_tokens)
        self.output_tokens.add(request.output_tokens)
        self.asked_tokens.add(request.max_output_tokens)

    def group(self, persona: str, model: str, adapter: str, streamed: bool) -> Group:
        ttft, e2e, tpot = (np.array(values) for values in (self.ttft_s, self.e2e_s, self.tpot_s))
        tpot_p50_s = quantile(tpot, 0.5)
        return Group(
            persona=persona,
            model=model,
            adapter=adapter,
            streamed=streamed,
            people=len(self.people),
            n=self.n,
            n_errors=self.n_errors,
            ttft_p50_s=quantile(ttft, 0.5),
            ttft_p95_s=quantile(ttft, 0.95),
            e2e_p50_s=quantile(e2e, 0.5),
            e2e_p95_s=quantile(e2e, 0.95),
            user_tokens_per_s=1.0 / tpot_p50_s if tpot_p50_s else None,
            prompt_tokens_mean=self.prompt_tokens.value,
            output_tokens_mean=self.output_tokens.value,
            asked_tokens_mean=self.asked_tokens.value,
        )


class _TurnTally:
    """All requests that were the same turn."""

    def __init__(self) -> None:
        self.n = 0
        self.ttft_s = array("f")
        self.prompt_tokens = _Mean()
        self.cached_tokens = _Mean()

    def add(self, request: Request) -> None:
        self.n += 1
        if request.error is not None:
            return
        if (waited_s := ttft_s(request)) is not None:
            self.ttft_s.append(waited_s)
        self.prompt_tokens.add(request.prompt_tokens)
        self.cached_tokens.add(request.cached_tokens)

    def turn(self, number: int) -> TurnTimes:
        ttft, prompt, cached = np.array(self.ttft_s), self.prompt_tokens, self.cached_tokens
        return TurnTimes(
            turn=number,
            n=self.n,
            ttft_p50_s=quantile(ttft, 0.5),
            ttft_p95_s=quantile(ttft, 0.95),
            prompt_tokens_mean=prompt.value,
            cached_fraction=cached.total / prompt.total if cached.n and prompt.total else None,
        )


def read_traffic(requests: Iterable[Request], level: int | None, around_at_s: float) -> Traffic:
    """Go through all requests once. ``level`` is the one whose timeline is shown, a minute from ``around_at_s`` on,
    of its first people; None shows none."""
    tallies: dict[tuple[str, str, str, bool], _Tally] = defaultdict(_Tally)
    turns: dict[int, _TurnTally] = defaultdict(_TurnTally)
    stages: dict[str, array[float]] = defaultdict(lambda: array("d"))
    until_at_s = around_at_s + _TIMELINE_S
    bars = []
    n = 0
    for request in requests:
        n += 1
        tallies[request.persona, request.model or "", request.adapter or "", request.streamed].add(request)
        turns[request.turn].add(request)
        for name, took_s in (request.stage_s or {}).items():
            stages[name].append(took_s)
        overlaps = request.ended_at_s > around_at_s and request.scheduled_at_s < until_at_s
        if request.level == level and overlaps and request.person <= _MOST_PEOPLE:
            bars.append(_bar(request))
    groups = [tally.group(*key) for key, tally in tallies.items()]
    groups.sort(key=lambda group: (-group.n, group.persona, group.model, group.adapter, group.streamed))
    ended_at_s = min(until_at_s, max((bar.ended_at_s for bar in bars), default=until_at_s))
    return Traffic(
        n,
        tuple(groups[:_MOST_GROUPS]),
        tuple(tally.turn(number) for number, tally in sorted(turns.items())[:_MOST_GROUPS]),
        tuple(_stage(name, np.array(values)) for name, values in sorted(stages.items())[:_MOST_GROUPS]),
        tuple(bars),
        around_at_s,
        ended_at_s,
    )


def _stage(name: str, took_s: Values) -> StageTimes:
    return StageTimes(name, len(took_s), quantile(took_s, 0.5), quantile(took_s, 0.95), quantile(took_s, 1.0))


def _bar(request: Request) -> Bar:
    queue_s = (request.server or {}).get("queue_s")
    sent_at_s = request.sent_at_s if request.sent_at_s is not None else request.scheduled_at_s
    return Bar(
        person=request.person,
        scheduled_at_s=request.scheduled_at_s,
        queued_until_s=sent_at_s + queue_s if queue_s is not None else None,
        first_output_at_s=request.chunk_at_s[0] if request.chunk_at_s else None,
        ended_at_s=request.ended_at_s,
        error=request.error,
    )
