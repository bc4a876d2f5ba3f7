"""The people of a workload against a simulated server, with no clock at all: a level in a moment.

Takes the same conversations as a measured level and asks in the same closed loop; what a person gives up on is waited
for here. Knows nothing of service levels and of where the server's constants come from.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from headcount.records import Conversation, Turn
from headcount.simulator.job import Job
from headcount.simulator.server import Server
from headcount.simulator.words import MESSAGE_TOKENS, PROMPT_TOKENS, text_tokens
from headcount.workload import Expected, make_workload

__all__ = ["Asked", "Crowd", "Held", "hold"]

_CONVERSATIONS_KEPT = 64
"""Of each person; whoever holds more begins again with the first."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """One turn in tokens and seconds."""

    new_tokens: int
    """What its text adds to the prompt, the message's frame included."""
    limit_tokens: int
    written_tokens: int
    before_s: float
    """Stages between the person's readiness and the question."""
    pause_s: float
    """From the end of the answer to the person's readiness."""


@dataclass(slots=True)
class Asked:
    """One question on its way."""

    person: int
    scheduled_at_s: float
    job: Job
    pause_s: float
    streamed: bool


@dataclass(slots=True)
class Held:
    """A level that was held: what ended in its steady window, and what the server was like meanwhile."""

    asked: list[Asked]
    window_s: float
    running_mean: float
    waiting_mean: float
    kv_used_mean_fraction: float
    slots_full_fraction: float
    """The share of the window with a queue while every slot was taken."""
    memory_short_fraction: float
    """The share of it with a queue while slots were free."""
    preemptions: int
    context_mean_tokens: float
    computed_tokens_per_s: float
    """Prompt tokens that no cache spared."""
    pairs_per_s: float
    overflows: int = 0
    """Questions refused since they do not fit the context or the memory."""


class Crowd:
    """What each person of a workload asks, drawn once and asked again in every level, so that levels compare."""

    def __init__(
        self,
        table: Mapping[str, object],
        seed: int = 1,
        *,
        answer_share: Sequence[float] = (1.0,),
        template_tokens: int | None = None,
    ) -> None:
        self._workload = make_workload(table, seed)
        self._seed = seed
        self._answer_share = answer_share
        self._frame_tokens = PROMPT_TOKENS if template_tokens is None else max(0, template_tokens - MESSAGE_TOKENS)
        self._drawn: dict[int, list[tuple[Conversation, list[_Planned]]]] = {}
        self._sources: dict[int, Iterator[Conversation]] = {}

    def expected(self) -> Expected:
        """The means of what one person asks."""
        return self._workload.expected()

    def asks(self, person: int, context_tokens: int) -> Iterator[tuple[float, Asked]]:
        """(stages before it, question) of one person, endless; times are filled in later."""
        number = 0
        while True:
            conversation, turns = self._conversation(person, number % _CONVERSATIONS_KEPT)
            system_tokens = self._system_tokens(conversation)
            length = self._frame_tokens + system_tokens
            path: tuple[tuple[object, int], ...] = ()
            if system_tokens:
                path = (((conversation.adapter, conversation.system), length),)
            for turn, planned in enumerate(turns):
                length += planned.new_tokens
                if turn and length + planned.limit_tokens > context_tokens:
                    break
                path = (*path, ((person, number, turn), length))
                job = Job(
                    length,
                    planned.written_tokens,
                    limit_tokens=planned.limit_tokens,
                    adapter=conversation.adapter,
                    path=path,
                    answer_key=(person, number, turn, "answer"),
                )
                yield planned.before_s, Asked(person, 0.0, job, planned.pause_s, conversation.streamed)
                length += planned.written_tokens + MESSAGE_TOKENS
                path = (*path, ((person, number, turn, "answer"), length - MESSAGE_TOKENS))
            number += 1

    def _conversation(self, person: int, number: int) -> tuple[Conversation, list[_Planned]]:
        drawn = self._drawn.setdefault(person, [])
        if person not in self._sources:
            self._sources[person] = self._workload.conversations(person, "prediction")
        while len(drawn) <= number:
            conversation = next(self._sources[person])
            rng = random.Random(f"{self._seed} {person} {len(drawn)}")
            drawn.append((conversation, [self._planned(turn, rng) for turn in conversation.turns]))
        return drawn[number]

    def _planned(self, turn: Turn, rng: random.Random) -> _Planned:
        tokens = turn.planned_prompt_tokens
        written = max(1, round(turn.max_output_tokens * rng.choice(self._answer_share)))
        return _Planned(
            new_tokens=MESSAGE_TOKENS + (text_tokens(turn.text) if tokens is None else tokens),
            limit_tokens=turn.max_output_tokens,
            written_tokens=written,
            before_s=sum(stage.delay_s for stage in turn.stages if not stage.after),
            pause_s=turn.think_s
            + turn.reading_s_per_token * written
            + sum(stage.delay_s for stage in turn.stages if stage.after),
        )

    @staticmethod
    def _system_tokens(conversation: Conversation) -> int:
        if conversation.planned_system_tokens is not None:
            return conversation.planned_system_tokens + (MESSAGE_TOKENS if conversation.planned_system_tokens else 0)
        return MESSAGE_TOKENS + text_tokens(conversation.system) if conversation.system else 0


@dataclass(slots=True)
class _Watch:
    """Sums over time of what the server is like, from the beginning of the window on."""

    server: Server
    began_at_s: float | None = None
    last_at_s: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    preemptions_before: int = 0

    def begin(self, at_s: float) -> None:
        self.began_at_s = self.last_at_s = at_s
        self.preemptions_before = self.server.preemptions_total

    def pass_to(self, at_s: float) -> None:
        """The server was as it is now since the last call."""
        if self.began_at_s is None or at_s <= self.last_at_s:
            return
        server, length_s = self.server, at_s - self.last_at_s
        queued, full = bool(server.waiting), len(server.running) >= server.policy.slots
        seen = {
            "running": len(server.running),
            "waiting": len(server.waiting),
            "kv": server.kv_used_fraction,
            "slots": queued and full,
            "memory": queued and not full,
        }
        for name, value in seen.items():
            self.sums[name] = self.sums.get(name, 0.0) + length_s * value
        self.last_at_s = at_s


def hold(
    server: Server,
    crowd: Crowd,
    users: int,
    *,
    request_s: float = 0.0,
    tail_s: float = 0.0,
    spread_s: float = 0.0,
    answers: int = 300,
) -> Held:
    """Hold a level until it has been steady for ``answers`` answers, or three a person if that is more.

    The people start evenly over ``spread_s``; two answers a person are warm-up. ``request_s`` is what a request takes
    outside the server's steps, ``tail_s`` the time after its last token in which nobody goes on yet. A person whose
    question does not fit stops asking.
    """
    people = [crowd.asks(person, server.policy.context_tokens) for person in range(users)]
    due: list[tuple[float, int, Asked]] = []
    overflows = sequence = 0

    def ask(person: int, at_s: float) -> None:
        nonlocal sequence
        stages_s, asked = next(people[person])
        asked.scheduled_at_s = at_s + stages_s
        sequence += 1
        heappush(due, (asked.scheduled_at_s + request_s, sequence, asked))

    for person in range(users):
        ask(person, spread_s * person / users)
    warm, enough = 2 * users, max(answers, 3 * users)
    watch, ended = _Watch(server), 0
    inside: list[Asked] = []
    while len(inside) < enough:
        ask_at_s = due[0][0] if due else inf
        event_at_s = server.next_event_at()
        if event_at_s is None and not due:
            break
        if event_at_s is not None and event_at_s <= ask_at_s:
            watch.pass_to(event_at_s)
            for at_s, kind, job in server.advance(event_at_s):
                if kind != "finished":
                    continue
                asked: Asked = job.tag  # type: ignore[assignment]
                ended += 1
                if ended == warm:
                    watch.begin(at_s)
                elif ended > warm:
                    inside.append(asked)
                ask(asked.person, at_s + tail_s + asked.pause_s)
            continue
        at_s, _, asked = heappop(due)
        watch.pass_to(at_s)
        asked.job.tag = asked
        if server.submit(at_s, asked.job):
            overflows += 1
    return _held(inside, watch, overflows)


def _held(inside: list[Asked], watch: _Watch, overflows: int) -> Held:
    began_at_s = watch.began_at_s or 0.0
    window_s = max(1e-9, watch.last_at_s - began_at_s)
    mean = {name: total / window_s for name, total in watch.sums.items()}
    tokens = sum(asked.job.output_tokens for asked in inside) or 1
    contexts = sum(
        asked.job.output_tokens * (asked.job.prompt_tokens + asked.job.output_tokens / 2) for asked in inside
    )
    computed = pairs = 0.0
    for asked in inside:
        chunk = asked.job.prompt_tokens - asked.job.cached_tokens
        computed += chunk
        pairs += chunk * (asked.job.cached_tokens + chunk / 2)
    return Held(
        asked=inside,
        window_s=window_s,
        running_mean=mean.get("running", 0.0),
        waiting_mean=mean.get("waiting", 0.0),
        kv_used_mean_fraction=mean.get("kv", 0.0),
        slots_full_fraction=mean.get("slots", 0.0),
        memory_short_fraction=mean.get("memory", 0.0),
        preemptions=watch.server.preemptions_total - watch.preemptions_before,
        context_mean_tokens=contexts / tokens,
        computed_tokens_per_s=computed / window_s,
        pairs_per_s=pairs / window_s,
        overflows=overflows,
    )
