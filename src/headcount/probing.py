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
"""(requests at once, words of each prompt, tokens of each answer), the most telling ones first. Two tokens: it is the
prompt that matters."""
_NEEDED = 4
"""So many steps are taken however slow the server is: without them there is nothing to fit."""
_REPEATS, _LONG_REPEATS, _LONG_WORDS = 3, 2, 600
"""The first of each is dropped: it may find things cold. What is long takes its time and is not asked as often."""
_STEP_SHARE = 0.125
"""Of all the time, for one step: on a slow server prompts and answers are shorter."""
_FEWEST_TOKENS, _FEWEST_WORDS = 20, 60
_LONGEST_S = 40.0
_CONTEXT_PER_WORD = 4
"""Tokens that a word of an unknown vocabulary may cost."""


@dataclass(slots=True)
class Seen:
    """Everything the probe has seen."""

    prefills: list[PrefillSeen] = field(default_factory=list)
    decodes: list[DecodeSeen] = field(default_factory=list)
    cached_share: float = 1.0
    """TTFT of a repeated long prompt, as a share of the first time's; near 1 without a prefix cache."""
    slots: int | None = None
    """Requests that were answered at once when more were asked; None: all of them were."""
    adapter_fraction: float | None = None
    """How much longer the pause between tokens is with an adapter; None: there is none."""
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
    for number, (requests, words, tokens) in enumerate(_PLAN):
        room_words = context_tokens // _CONTEXT_PER_WORD - tokens
        fits = 2 * room_words >= words
        words, tokens = asker.affordable(requests, min(words, room_words), tokens)
        within = requests <= (slots or seen.slots or requests)
        if not fits or not within or (number >= _NEEDED and not asker.has_time(requests, words, tokens)):
            continue
        if tokens <= 2:
            told(f"prompts of {words} words alone")
            seen.prefills += await _prefills(asker, words, round_trip_s)
        else:
            told(f"{requests} at once, prompts of {words} words, answers of {tokens} tokens")
            seen.decodes += await _decodes(asker, requests, words, tokens, seen)
    told("a prompt twice")
    words, _ = asker.affordable(1, min(900, context_tokens // _CONTEXT_PER_WORD), 2)
    seen.cached_share = await _cached_share(asker, words)
    if adapter is not None:
        told(f"answers with {adapter}")
        seen.adapter_fraction = await _adapter_fraction(asker, adapter)
    seen.took_s = asker.elapsed_s
    return seen


class _Timed(Asker):
    """An asker who knows what the server takes, and stops in time."""

    def __init__(self, engine: Engine, longest_s: float) -> None:
        super().__init__(engine)
        self._longest_s = longest_s
        self._now = clock()
        self._began_s = self._now()
        self._word_s = self._token_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Since the first question."""
        return self._now() - self._began_s

    def affordable(self, requests: int, words: int, tokens: int) -> tuple[int, int]:
        """The words and tokens of a step, fewer where the server is too slow for them."""
        share = self._longest_s * _STEP_SHARE / max(1e-9, self._step_s(requests, words, tokens))
        if share >= 1.0:
            return words, tokens
        fewer_tokens = tokens if tokens <= 2 else max(_FEWEST_TOKENS, round(share * tokens))
        return min(words, max(_FEWEST_WORDS, round(share * words))), fewer_tokens

    def has_time(self, requests: int, words: int, tokens: int) -> bool:
        """Whether a step is over before the time is, as long as others took."""
        return self.elapsed_s + self._step_s(requests, words, tokens) < self._longest_s

    def _step_s(self, requests: int, words: int, tokens: int) -> float:
        once_s = requests * words * self._word_s + tokens * self._token_s * (1 + requests / 16)
        return _repeats(words) * once_s

    async def ask(self, text: str, tokens: int, adapter: str | None = None) -> tuple[float, Reply]:
        """Ask, and remember the pace of whoever was alone."""
        began_s, reply = await super().ask(text, tokens, adapter)
        if reply.chunk_at_s:
            if tokens <= 2:
                self._word_s = (reply.chunk_at_s[0] - began_s) / text.count(" ")
            elif len(reply.chunk_at_s) > 8 and not self._token_s:
                self._token_s = (reply.chunk_at_s[-1] - began_s) / len(reply.chunk_at_s)
        return began_s, reply


def _repeats(words: int) -> int:
    return _LONG_REPEATS if words >= _LONG_WORDS else _REPEATS


async def _prefills(asker: Asker, words: int, round_trip_s: float) -> list[PrefillSeen]:
    seen = []
    for repeat in range(_repeats(words)):
        began_s, reply = await asker.ask(asker.text(words), 2)
        if repeat and reply.error is None and reply.chunk_at_s and reply.prompt_tokens:
            computed = reply.prompt_tokens - (reply.cached_tokens or 0)
            seen.append(PrefillSeen(computed, reply.chunk_at_s[0] - began_s - round_trip_s))
    return seen


async def _decodes(asker: Asker, requests: int, words: int, tokens: int, known: Seen) -> list[DecodeSeen]:
    """Gaps between the last first token and the first finish alone: others hold foreign prefills."""
    seen = []
    for repeat in range(_repeats(words)):
        asked = await asyncio.gather(*(asker.ask(asker.text(words), tokens) for _ in range(requests)))
        replies = [reply for _, reply in asked if _is_streamed(reply)]
        if len(replies) < requests:
            continue
        from_s = max(reply.chunk_at_s[0] for reply in replies)
        to_s = min(reply.chunk_at_s[-1] for reply in replies)
        if from_s > to_s:  # somebody began only after somebody else had ended: there are fewer places
            known.slots = sum(reply.chunk_at_s[0] < to_s for reply in replies)
            return []
        if repeat and (found := _gap(replies, from_s, to_s)):
            seen.append(DecodeSeen(requests, *found))
    return seen


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


async def _cached_share(asker: Asker, words: int) -> float:
    text = asker.text(words)
    first_s, first = await asker.ask(text, 2)
    again_s, again = await asker.ask(text, 2)
    if not first.chunk_at_s or not again.chunk_at_s:
        return 1.0
    return (again.chunk_at_s[0] - again_s) / (first.chunk_at_s[0] - first_s)


async def _adapter_fraction(asker: Asker, adapter: str) -> float | None:
    """The pause between tokens with the adapter over that without; None when no answer came."""
    pauses_s: dict[str | None, list[float]] = {None: [], adapter: []}
    for repeat in range(_REPEATS):
        for name, found in pauses_s.items():
            _, reply = await asker.ask(asker.text(20), 48, name)
            if repeat and _is_streamed(reply) and len(reply.chunk_at_s) > 8:
                found.append((reply.chunk_at_s[-1] - reply.chunk_at_s[0]) / (len(reply.chunk_at_s) - 1))
    if not all(pauses_s.values()):
        return None
    return max(0.0, median(pauses_s[adapter]) / median(pauses_s[None]) - 1.0)
