"""What one minute of a workload would send, worked out without sending anything."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import msgspec

from headcount.records import Conversation, Turn
from headcount.workload import Workload
from headcount.workload.history import text_tokens

__all__ = ["Preview", "preview"]

SAMPLES = 3


class Preview(msgspec.Struct, frozen=True):
    """One minute of ``users`` people at an assumed speed of the server."""

    users: int
    """People of the closed loop; of the open one, those who arrive."""
    arriving: bool
    """Whether people arrive, hold one conversation and leave."""
    span_s: float
    requests: int
    personas: dict[str, int]
    """People by persona; so are the next three."""
    models: dict[str, int]
    """Empty name: the engine's own model."""
    adapters: dict[str, int]
    """Empty name: no adapter."""
    styles: dict[str, int]
    """``streamed`` and ``whole``."""
    languages: dict[str, int]
    prompt_tokens: tuple[int, ...]
    """What each request sends, history and system prompt included, rising."""
    output_tokens: tuple[int, ...]
    """The most each request asks for, rising."""
    samples: tuple[Conversation, ...]
    """The first conversation of a few people, of different personas first."""

    @property
    def prompt_tokens_per_s(self) -> float:
        """Prompt tokens asked of the server, were nothing cached."""
        return sum(self.prompt_tokens) / self.span_s

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens asked of the server."""
        return sum(self.output_tokens) / self.span_s


def preview(
    workload: Workload,
    users: int,
    *,
    span_s: float = 60.0,
    ttft_s: float = 0.5,
    user_tokens_per_s: float = 20.0,
    stream: str = "level 0",
    arriving: bool = False,
) -> Preview:
    """What ``users`` people of the closed loop would send, were every answer to begin after ``ttft_s`` and be written
    at ``user_tokens_per_s``; of people who are ``arriving`` in that time, all of their one conversation. The words
    are those that the first level sends."""
    firsts: list[Conversation] = []
    sent: list[tuple[int, int]] = []
    for person in range(users):
        talks = workload.conversations(person, stream)
        first = next(talks)
        firsts.append(first)
        if arriving:
            sent += [(prompt, output) for _, prompt, output in _instants(iter([first]), ttft_s, user_tokens_per_s)]
            continue
        began_s = span_s * person / users
        talking = _instants(itertools.chain([first], talks), ttft_s, user_tokens_per_s)
        # everybody is in the middle of something: the minute begins at a different point of each person's talks
        sent += _between(talking, began_s, began_s + span_s)
    return Preview(
        users=users,
        arriving=arriving,
        span_s=span_s,
        requests=len(sent),
        personas=_counted(first.persona for first in firsts),
        models=_counted(first.model or "" for first in firsts),
        adapters=_counted(first.adapter or "" for first in firsts),
        styles=_counted("streamed" if first.streamed else "whole" for first in firsts),
        languages=_counted(first.language for first in firsts),
        prompt_tokens=tuple(sorted(prompt for prompt, _ in sent)),
        output_tokens=tuple(sorted(output for _, output in sent)),
        samples=_samples(firsts),
    )


def _instants(
    talks: Iterator[Conversation], ttft_s: float, user_tokens_per_s: float
) -> Iterator[tuple[float, int, int]]:
    """(when, prompt tokens with history, output tokens) of one person's turns."""
    at_s = 0.0
    for talk in talks:
        history_tokens = text_tokens(Turn(talk.system, 1, 0.0, talk.planned_system_tokens)) if talk.system else 0
        for turn in talk.turns:
            at_s += sum(stage.delay_s for stage in turn.stages if not stage.after)
            history_tokens += text_tokens(turn)
            yield at_s, history_tokens, turn.max_output_tokens
            answer_s = ttft_s + turn.max_output_tokens / user_tokens_per_s
            waited_s = answer_s if turn.cancel_after_s is None else min(answer_s, turn.cancel_after_s)
            at_s += waited_s + turn.think_s + turn.max_output_tokens * turn.reading_s_per_token
            at_s += sum(stage.delay_s for stage in turn.stages if stage.after)
            history_tokens += turn.max_output_tokens


def _between(instants: Iterator[tuple[float, int, int]], from_s: float, to_s: float) -> list[tuple[int, int]]:
    """(prompt tokens, output tokens) of the turns from one instant on until another."""
    later = itertools.dropwhile(lambda one: one[0] < from_s, instants)
    return [(prompt, output) for _, prompt, output in itertools.takewhile(lambda one: one[0] < to_s, later)]


def _counted(names: Iterator[str]) -> dict[str, int]:
    """How often each name stands, the most frequent first."""
    return dict(Counter(names).most_common())


def _samples(firsts: list[Conversation]) -> tuple[Conversation, ...]:
    different = list({talk.persona: talk for talk in reversed(firsts)}.values())[::-1]
    others = [talk for talk in firsts if not any(talk is one for one in different)]
    return tuple((different + others)[:SAMPLES])
