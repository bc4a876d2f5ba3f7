"""What a stored run tells of a server's constants: stretches in which nobody's prompt is computed, and prompts that
nobody else's disturbs. Pure; knows nothing of fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import log
from statistics import median
from typing import NamedTuple, TypeVar

from headcount.records import Request
from headcount.simulator.fitting import DecodeSeen, PrefillSeen

__all__ = ["observations"]

S = TypeVar("S")

_FEWEST_GAPS = 8
_FEWEST_SEEN = 2
"""Of one kind, for its median to count."""
_MOST_KINDS = 60
_BUCKET = 0.35
"""Contexts and prompts whose logarithms differ by less are of one kind."""


class _Event(NamedTuple):
    at_s: float
    kind: str
    request: Request


class _Underway:
    """Who waits for a first token and who is being written to, event by event."""

    def __init__(self) -> None:
        self.waiting = 0
        self._writing: dict[int, Request] = {}

    @property
    def writing(self) -> list[Request]:
        return list(self._writing.values())

    def take(self, event: _Event) -> None:
        if event.kind == "sent":
            self.waiting += 1
        elif event.kind == "first":
            self.waiting -= 1
            self._writing[id(event.request)] = event.request
        elif event.kind == "last":
            self._writing.pop(id(event.request), None)
        else:
            self.waiting -= 1


def observations(levels: Iterable[Sequence[Request]]) -> tuple[list[PrefillSeen], list[DecodeSeen]]:
    """Medians by kind: as many sequences at once, about as much context. Requests of one level are those that may have
    run at the same time."""
    prefills: dict[tuple[int, int, int], list[PrefillSeen]] = defaultdict(list)
    decodes: dict[tuple[int, int, int], list[DecodeSeen]] = defaultdict(list)
    for requests in levels:
        for prefill in _prefills(requests):
            lengths = _bucket(prefill.prompt_tokens), _bucket(prefill.cached_tokens)
            prefills[prefill.beside, *lengths].append(prefill)
        for decode in _decodes(requests):
            decodes[decode.sequences, _bucket(decode.context_tokens), 0].append(decode)
    of_prompts = [
        PrefillSeen(
            round(median(one.prompt_tokens for one in seen)),
            median(one.ttft_s for one in seen),
            beside,
            median(one.beside_context_tokens for one in seen),
            round(median(one.cached_tokens for one in seen)),
        )
        for (beside, *_), seen in _frequent(prefills)
    ]
    of_gaps = [
        DecodeSeen(sequences, median(one.context_tokens for one in seen), median(one.gap_s for one in seen))
        for (sequences, *_), seen in _frequent(decodes)
    ]
    return of_prompts, of_gaps


def _bucket(tokens: float) -> int:
    return int(log(max(1.0, tokens)) / _BUCKET)


def _frequent(kinds: dict[tuple[int, int, int], list[S]]) -> list[tuple[tuple[int, int, int], list[S]]]:
    """The kinds seen most often, in order."""
    often = [(kind, seen) for kind, seen in kinds.items() if len(seen) >= _FEWEST_SEEN]
    often.sort(key=lambda pair: -len(pair[1]))
    return sorted(often[:_MOST_KINDS], key=lambda pair: pair[0])


def _prefills(requests: Sequence[Request]) -> list[PrefillSeen]:
    """Prompts in whose time nobody else waited for a first token, began or ended."""
    seen = []
    events = _events(requests)
    at_s = [event.at_s for event in events]
    underway = _Underway()
    for index, event in enumerate(events):
        underway.take(event)
        if event.kind == "sent":
            first_s = event.request.chunk_at_s[0] if event.request.chunk_at_s else None
            computed = _computed_tokens(event.request)
            if first_s is None or not computed or event.request.error is not None:
                continue
            if underway.waiting == 1 and bisect_left(at_s, first_s) == index + 1:
                contexts = [_context(other, event.at_s) for other in underway.writing]
                mean = sum(contexts) / len(contexts) if contexts else 0.0
                cached = event.request.cached_tokens or 0
                seen.append(PrefillSeen(computed, first_s - event.at_s, len(contexts), mean, cached))
    return seen


def _decodes(requests: Sequence[Request]) -> list[DecodeSeen]:
    """Stretches between two events in which some wrote and nobody waited."""
    seen = []
    underway, began_s = _Underway(), 0.0
    for event in _events(requests):
        writing = underway.writing
        if writing and not underway.waiting and (found := _stretch(writing, began_s, event.at_s)) is not None:
            seen.append(found)
        began_s = event.at_s
        underway.take(event)
    return seen


def _events(requests: Sequence[Request]) -> list[_Event]:
    """When each request was sent, wrote its first and its last token; ``gone`` for one that wrote nothing."""
    events = []
    for request in requests:
        sent_s = request.sent_at_s if request.sent_at_s is not None else request.scheduled_at_s
        events.append(_Event(sent_s, "sent", request))
        if request.chunk_at_s:
            events.append(_Event(request.chunk_at_s[0], "first", request))
            events.append(_Event(max(request.chunk_at_s[-1], request.chunk_at_s[0]), "last", request))
        else:
            events.append(_Event(max(request.ended_at_s, sent_s), "gone", request))
    order = {"sent": 0, "first": 1, "last": 2, "gone": 2}
    return sorted(events, key=lambda event: (event.at_s, order[event.kind]))


def _stretch(writing: list[Request], from_s: float, to_s: float) -> DecodeSeen | None:
    gaps, contexts = [], []
    for request in writing:
        low, high = bisect_left(request.chunk_at_s, from_s), bisect_right(request.chunk_at_s, to_s)
        if high - low >= _FEWEST_GAPS and not request.coalesced and request.output_tokens:
            span_s = request.chunk_at_s[high - 1] - request.chunk_at_s[low]
            gaps.append(span_s / (high - low - 1) / _tokens_a_chunk(request))
            contexts.append(_context(request, (from_s + to_s) / 2))
    if len(gaps) < len(writing) or not gaps or min(gaps) <= 0.0:
        return None
    return DecodeSeen(len(writing), sum(contexts) / len(contexts), median(gaps))


def _context(request: Request, at_s: float) -> float:
    """Tokens of the sequence at that time."""
    written = bisect_right(request.chunk_at_s, at_s) * _tokens_a_chunk(request)
    return (request.prompt_tokens or 0) + written


def _tokens_a_chunk(request: Request) -> float:
    if request.error is not None or (request.output_tokens or 0) < 2 or len(request.chunk_at_s) < 2:
        return 1.0
    return ((request.output_tokens or 0) - 1) / (len(request.chunk_at_s) - 1)


def _computed_tokens(request: Request) -> int | None:
    """Prompt tokens that no cache spared; None where that is not known."""
    if request.prompt_tokens is None:
        return None
    if request.cached_tokens is not None:
        return max(1, request.prompt_tokens - request.cached_tokens)
    return request.prompt_tokens if request.turn == 1 else None
