"""A server asked in ways that tell its constants apart: one request at a time, then small bursts. Client only.

What comes out goes into ``simulator.fitting``. Knows engines and clocks, no people and no levels.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from headcount.engine import Engine
from headcount.records import Prompt, Reply
from headcount.simulator.fitting import DecodeSeen, PrefillSeen
from headcount.virtual import clock

__all__ = ["Asker", "Seen", "probe"]

_PLAN = (
    *((1, 30, 2), (1, 20, 80), (1, 250, 2), (4, 20, 80), (1, 900, 2), (4, 600, 64), (16, 20, 80), (1, 1800, 2)),
    *((2, 20, 80), (8, 20, 80), (8, 900, 128), (32, 20, 80)),
)
"""(requests at once, words of each prompt, tokens of each answer), the most telling ones first."""
_NEEDED = 4
"""So many steps are taken however slow the server is: without them there is nothing to fit."""
_PASSES = 7
"""The plan is gone through so often, as far as there is time. The first pass finds things cold, and counts only for
steps that no later one reached."""
_STEP_SHARE = 0.045
"""Of all the time, for one step of one pass: on a slow server prompts and answers are shorter."""
_FEWEST_TOKENS, _FEWEST_WORDS = 20, 60
_LONGEST_S = 40.0
_PROMPT_ONLY = 2
"""Tokens of an answer that does not matter."""
_ADAPTER_REPEATS, _CACHE_REPEATS = 4, 3
_CONTEXT_PER_WORD = 4
"""Tokens that a word of an unknown vocabulary may cost."""


@dataclass(slots=True)
class Seen:
    """Everything the probe has seen."""

    prefills: list[PrefillSeen] = field(default_factory=list)
    decodes: list[DecodeSeen] = field(default_factory=list)
    cached_share: float = 1.0
    """TTFT of a repeated long prompt as a share of the first time's, both without what the shortest prompt takes;
    near 1 without a prefix cache."""
    slots: int | None = None
    """Requests that were answered at once when more were asked; None: all of them were."""
    adapter_fraction: float | None = None
    """How much longer the pause between tokens is with an adapter; None: there is none."""
    tail_s: float = 0.0
    """From the last token to the end of the answer: usage, the end of the stream."""
    took_s: float = 0.0


class Asker:
    """Sends prompts of which no beginning is ever the same."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._asked = 0

    def text(self, words: int) -> str:
        """Unlike any before it, from the first word on, and asking for a long answer."""
        self._asked += 1
        told = " ".join([f"q{self._asked}", *("stone" for _ in range(words))])
        return f"{told} Tell a very long story about it."

    async def ask(self, text: str, tokens: int, adapter: str | None = None) -> tuple[float, Reply]:
        """When it was sent, and the answer."""
        began_s, reply = clock()(), Reply()
        await self.engine.send(Prompt(({"role": "user", "content": text},), tokens, adapter=adapter), reply)
        return began_s, reply


async def probe(
    engine: Engine,
    context_tokens: int,
    slots: int | None,
    round_trip_s: float = 0.0,
    *,
    adapter: str | None = None,
    longest_s: float = _LONGEST_S,
    told: Callable[[str], None] = lambda _: None,
) -> Seen:
    """Ask until everything was seen that fits into ``longest_s``, the most telling things first. Prompts that might not
    fit into ``context_tokens`` and bursts beyond ``slots`` are left out. ``told`` hears what is asked next."""
    asker, seen = _Timed(engine, longest_s), Seen()
    steps = [_Step(*planned) for planned in _PLAN]
    for number in range(_PASSES):
        for place, step in enumerate(steps):
            step = steps[place] = asker.affordable(step, context_tokens) if not number else step
            within = step.requests <= (slots or seen.slots or step.requests)
            needed = not number and place < _NEEDED
            if step.words and within and (needed or asker.has_time(step)):
                if not number:
                    told(str(step))
                await _take(asker, step, cold=not number, round_trip_s=round_trip_s, known=seen)
    seen.prefills = [one for step in steps for one in step.prefills()]
    seen.decodes = [one for step in steps for one in step.decodes()]
    told("a prompt twice")
    longest = max(step.words for step in steps if step.tokens <= _PROMPT_ONLY)
    seen.cached_share = await _cached_share(asker, longest, min((one.ttft_s for one in seen.prefills), default=0.0))
    if adapter is not None:
        told(f"answers with {adapter}")
        seen.adapter_fraction = await _adapter_fraction(asker, adapter)
    seen.tail_s = median(asker.tails_s) if asker.tails_s else 0.0
    seen.took_s = asker.elapsed_s
    return seen


@dataclass(slots=True)
class _Step:
    """Something that is asked in every pass, and what was seen."""

    requests: int
    words: int
    """Of each prompt; 0: it does not fit into the context."""
    tokens: int
    cold: list[PrefillSeen | DecodeSeen] = field(default_factory=list)
    warm: list[PrefillSeen | DecodeSeen] = field(default_factory=list)

    def __str__(self) -> str:
        if self.tokens <= _PROMPT_ONLY:
            return f"prompts of {self.words} words alone"
        return f"{self.requests} at once, prompts of {self.words} words, answers of {self.tokens} tokens"

    def prefills(self) -> list[PrefillSeen]:
        """The median of those that count; none for a burst."""
        seen = [one for one in self.warm or self.cold if isinstance(one, PrefillSeen)]
        if not seen:
            return []
        return [PrefillSeen(round(median(one.prompt_tokens for one in seen)), median(one.ttft_s for one in seen))]

    def decodes(self) -> list[DecodeSeen]:
        """The median of those that count; none for a prompt alone."""
        seen = [one for one in self.warm or self.cold if isinstance(one, DecodeSeen)]
        if not seen:
            return []
        contexts, gaps = median(one.context_tokens for one in seen), median(one.gap_s for one in seen)
        return [DecodeSeen(self.requests, contexts, gaps)]


async def _take(asker: _Timed, step: _Step, *, cold: bool, round_trip_s: float, known: Seen) -> None:
    """One step of one pass."""
    kept: list[PrefillSeen | DecodeSeen] = step.cold if cold else step.warm
    if step.tokens <= _PROMPT_ONLY:
        kept += await _prefill(asker, step.words, round_trip_s)
    else:
        kept += await _decode(asker, step, known)


class _Timed(Asker):
    """An asker who knows what the server takes, and stops in time."""

    def __init__(self, engine: Engine, longest_s: float) -> None:
        super().__init__(engine)
        self._longest_s = longest_s
        self._now = clock()
        self._began_s = self._now()
        self._word_s = self._token_s = 0.0
        self.tails_s: list[float] = []
        """Of every answer, from its last token to its end."""

    @property
    def elapsed_s(self) -> float:
        """Since the first question."""
        return self._now() - self._began_s

    def affordable(self, step: _Step, context_tokens: int) -> _Step:
        """The step with fewer words and tokens where the server is too slow for them, or its context too short; with
        none where too little would be left."""
        words = min(step.words, context_tokens // _CONTEXT_PER_WORD - step.tokens)
        if 2 * words < step.words:
            return _Step(step.requests, 0, step.tokens)
        share = self._longest_s * _STEP_SHARE / max(1e-9, self._step_s(step.requests, words, step.tokens))
        if share >= 1.0:
            return _Step(step.requests, words, step.tokens)
        fewer = step.tokens if step.tokens <= _PROMPT_ONLY else max(_FEWEST_TOKENS, round(share * step.tokens))
        return _Step(step.requests, min(words, max(_FEWEST_WORDS, round(share * words))), fewer)

    def has_time(self, step: _Step) -> bool:
        """Whether a step is over before the time is, as long as others took."""
        return self.elapsed_s + self._step_s(step.requests, step.words, step.tokens) < self._longest_s

    def _step_s(self, requests: int, words: int, tokens: int) -> float:
        return requests * words * self._word_s + tokens * self._token_s * (1 + requests / 16)

    async def ask(self, text: str, tokens: int, adapter: str | None = None) -> tuple[float, Reply]:
        """Ask, and remember the pace of whoever was alone."""
        began_s, reply = await super().ask(text, tokens, adapter)
        if reply.chunk_at_s:
            if reply.ended_at_s is not None:
                self.tails_s.append(max(0.0, reply.ended_at_s - reply.chunk_at_s[-1]))
            if tokens <= _PROMPT_ONLY:
                self._word_s = (reply.chunk_at_s[0] - began_s) / text.count(" ")
            elif len(reply.chunk_at_s) > 8 and not self._token_s:
                self._token_s = (reply.chunk_at_s[-1] - began_s) / len(reply.chunk_at_s)
        return began_s, reply


async def _prefill(asker: Asker, words: int, round_trip_s: float) -> list[PrefillSeen]:
    began_s, reply = await asker.ask(asker.text(words), _PROMPT_ONLY)
    if reply.error is not None or not reply.chunk_at_s or not reply.prompt_tokens:
        return []
    computed = reply.prompt_tokens - (reply.cached_tokens or 0)
    return [PrefillSeen(computed, reply.chunk_at_s[0] - began_s - round_trip_s)]


async def _decode(asker: Asker, step: _Step, known: Seen) -> list[DecodeSeen]:
    """Gaps between the last first token and the first finish alone: others hold foreign prefills."""
    texts = [asker.text(step.words) for _ in range(step.requests)]
    asked = await asyncio.gather(*(asker.ask(text, step.tokens) for text in texts))
    replies = [reply for _, reply in asked if _is_streamed(reply)]
    if len(replies) < step.requests:
        return []
    from_s = max(reply.chunk_at_s[0] for reply in replies)
    to_s = min(reply.chunk_at_s[-1] for reply in replies)
    if from_s > to_s:  # somebody began only after somebody else had ended: there are fewer places
        known.slots = sum(reply.chunk_at_s[0] < to_s for reply in replies)
        return []
    found = _gap(replies, from_s, to_s)
    return [DecodeSeen(step.requests, *found)] if found else []


def _is_streamed(reply: Reply) -> bool:
    """Whether its tokens came one by one."""
    return reply.error is None and len(reply.chunk_at_s) > 1 and reply.chunk_at_s[0] < reply.chunk_at_s[-1]


def _gap(replies: list[Reply], from_s: float, to_s: float) -> tuple[float, float] | None:
    """Mean context and the pause between tokens while all of them were written; None when that was too short."""
    gaps, contexts = [], []
    for reply in replies:
        inside = [at_s for at_s in reply.chunk_at_s if from_s <= at_s <= to_s]
        if len(inside) >= 8:
            events = len(reply.chunk_at_s)
            tokens_an_event = ((reply.output_tokens or events) - 1) / (events - 1)
            gaps.append((inside[-1] - inside[0]) / (len(inside) - 1) / tokens_an_event)
            before = sum(at_s < from_s for at_s in reply.chunk_at_s)
            contexts.append((reply.prompt_tokens or 0) + (before + len(inside) / 2) * tokens_an_event)
    return (sum(contexts) / len(contexts), median(gaps)) if gaps else None


async def _cached_share(asker: Asker, words: int, shortest_s: float) -> float:
    """The middle one of a few, without what the shortest prompt takes as well."""
    shares = []
    for _ in range(_CACHE_REPEATS):
        text = asker.text(words)
        first_s, first = await asker.ask(text, _PROMPT_ONLY)
        again_s, again = await asker.ask(text, _PROMPT_ONLY)
        if first.chunk_at_s and again.chunk_at_s:
            first_ttft_s = first.chunk_at_s[0] - first_s
            floor_s = min(shortest_s, 0.8 * first_ttft_s)
            shares.append(max(0.0, again.chunk_at_s[0] - again_s - floor_s) / (first_ttft_s - floor_s))
    return median(shares) if shares else 1.0


async def _adapter_fraction(asker: Asker, adapter: str) -> float | None:
    """The pause between tokens with the adapter over that without; None when no answer came."""
    pauses_s: dict[str | None, list[float]] = {None: [], adapter: []}
    for repeat in range(_ADAPTER_REPEATS):
        for name, found in pauses_s.items():
            _, reply = await asker.ask(asker.text(20), 48, name)
            if repeat and _is_streamed(reply) and len(reply.chunk_at_s) > 8:
                found.append((reply.chunk_at_s[-1] - reply.chunk_at_s[0]) / (len(reply.chunk_at_s) - 1))
    if not all(pauses_s.values()):
        return None
    return max(0.0, median(pauses_s[adapter]) / median(pauses_s[None]) - 1.0)
