"""A server asked in ways that tell its constants apart: one request at a time, then small bursts. Client only.

What comes out goes into ``simulator.fitting``. Knows engines and clocks, no people and no levels.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from statistics import median

from headcount.engine import Engine
from headcount.records import Prompt, Reply
from headcount.simulator.fitting import DecodeSeen, PrefillSeen
from headcount.virtual import clock

__all__ = ["Seen", "probe"]

_PROMPT_WORDS = (30, 250, 900, 1800)
_BURSTS = ((1, 20, 80), (2, 20, 80), (4, 20, 80), (8, 20, 80), (16, 20, 80), (4, 900, 96), (8, 900, 128))
"""(requests at once, words of each prompt, tokens of each answer)."""
_REPEATS = 3
"""The first of each is dropped: it may find things cold."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything the probe has seen."""

    prefills: list[PrefillSeen]
    decodes: list[DecodeSeen]
    cached_share: float
    """TTFT of a repeated long prompt, as a share of the first time's; near 1 without a prefix cache."""


class _Asker:
    """Sends prompts of which no beginning is ever the same."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._asked = 0

    def text(self, words: int) -> str:
        """Unlike any before it, from the first word on."""
        self._asked += 1
        return " ".join([f"q{self._asked}", *("stone" for _ in range(words))])

    async def ask(self, text: str, tokens: int) -> tuple[float, Reply]:
        """When it was sent, and the answer."""
        began_s, reply = clock()(), Reply()
        await self.engine.send(Prompt(({"role": "user", "content": text},), tokens), reply)
        return began_s, reply


async def probe(engine: Engine, context_tokens: int, slots: int | None, round_trip_s: float = 0.0) -> Seen:
    """Ask, for a minute or two. Prompts that might not fit into ``context_tokens`` and bursts beyond ``slots`` are
    left out."""
    asker = _Asker(engine)
    prefills = []
    for words in _PROMPT_WORDS:
        if 4 * words <= context_tokens:
            prefills += await _prefills(asker, words, round_trip_s)
    decodes = []
    for requests, words, tokens in _BURSTS:
        if (slots is None or requests <= slots) and 4 * (words + tokens) <= context_tokens:
            decodes += await _decodes(asker, requests, words, tokens)
    return Seen(prefills, decodes, await _cached_share(asker, min(900, context_tokens // 4)))


async def _prefills(asker: _Asker, words: int, round_trip_s: float) -> list[PrefillSeen]:
    seen = []
    for repeat in range(_REPEATS):
        began_s, reply = await asker.ask(asker.text(words), 2)
        if repeat and reply.error is None and reply.chunk_at_s and reply.prompt_tokens:
            computed = reply.prompt_tokens - (reply.cached_tokens or 0)
            seen.append(PrefillSeen(computed, reply.chunk_at_s[0] - began_s - round_trip_s))
    return seen


async def _decodes(asker: _Asker, requests: int, words: int, tokens: int) -> list[DecodeSeen]:
    """Gaps between the last first token and the first finish alone: others hold foreign prefills."""
    seen = []
    for repeat in range(_REPEATS):
        asked = await asyncio.gather(*(asker.ask(asker.text(words), tokens) for _ in range(requests)))
        replies = [reply for _, reply in asked if reply.error is None and len(reply.chunk_at_s) > 1]
        if not repeat or len(replies) < requests:
            continue
        from_s = max(reply.chunk_at_s[0] for reply in replies)
        to_s = min(reply.chunk_at_s[-1] for reply in replies)
        gaps, contexts = [], []
        for reply in replies:
            inside = [at_s for at_s in reply.chunk_at_s if from_s <= at_s <= to_s]
            if len(inside) >= 8 and reply.output_tokens:
                tokens_an_event = reply.output_tokens / len(reply.chunk_at_s)
                gaps.append((inside[-1] - inside[0]) / (len(inside) - 1) / tokens_an_event)
                before = sum(at_s < from_s for at_s in reply.chunk_at_s)
                contexts.append((reply.prompt_tokens or 0) + (before + len(inside) / 2) * tokens_an_event)
        if gaps:
            seen.append(DecodeSeen(requests, sum(contexts) / len(contexts), median(gaps)))
    return seen


async def _cached_share(asker: _Asker, words: int) -> float:
    text = asker.text(words)
    first_s, first = await asker.ask(text, 2)
    again_s, again = await asker.ask(text, 2)
    if not first.chunk_at_s or not again.chunk_at_s:
        return 1.0
    return (again.chunk_at_s[0] - again_s) / (first.chunk_at_s[0] - first_s)
