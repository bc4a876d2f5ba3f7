"""Trace: requests of recorded lengths with made-up text; who comes when is ``arrivals.Replayed``."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from statistics import fmean
from typing import Annotated

import msgspec
from msgspec import Meta

from headcount.records import Conversation, Turn
from headcount.workload import Expected
from headcount.workload.bounds import MOST_OUTPUT_TOKENS, MOST_PROMPT_TOKENS, MOST_WAIT_S, TokenCost
from headcount.workload.rows import BLOCK_TOKENS, Rows, TraceRow, read_trace
from headcount.workload.spread import Spread, check, draw, mean
from headcount.workload.streams import number_of, random_stream, words_of
from headcount.workload.text import LANGUAGES, opening, write

__all__ = ["Trace"]

STRIDE = 7919
"""From one row of a person to the next: a prime, so that people of a closed loop do not walk in step."""


class Trace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """``kind = "trace"``: the k-th person that arrives asks what the k-th row of the trace asked, in one turn."""

    seed: int = 1
    """Filled from the scenario's own ``seed``."""
    persona: str = "trace"
    """The name under which the facts and the report keep these people apart from others."""
    file: str
    """Azure's LLM inference CSV, BurstGPT's CSV, Mooncake's JSON lines, or our own."""
    strict: bool = False
    """Whether a row that cannot be used is an error instead of left out and counted."""
    rows: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    """No more rows are read."""
    prompt_tokens_max: Annotated[int, Meta(ge=1, le=MOST_PROMPT_TOKENS)] = 1_000_000
    """Longer prompts are cut to this."""
    output_tokens_max: Annotated[int, Meta(ge=1, le=MOST_OUTPUT_TOKENS)] = 1_000_000
    """Longer answers are cut to this."""
    think_s: Spread = 0.0
    """Pause after every answer, where the trace is used for lengths alone by people of a closed loop."""
    language: str = "english"
    """Of the made-up text."""
    tokens_per_word: dict[str, TokenCost] = {}
    """What a word costs, by language; calibrated before measuring unless it is given here."""

    def __post_init__(self) -> None:
        check("think_s", self.think_s, 0, MOST_WAIT_S)
        if self.language not in LANGUAGES:
            raise ValueError(f"language {self.language!r} is not known; known: {', '.join(LANGUAGES)}")

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """Row ``person`` first, then further ones, from the front again at the end.

        Raises ``ScenarioError`` when the file cannot be read.
        """
        rows, words = self._data.good, words_of(stream)
        offset = number_of(self.seed, stream, self.persona, "openings")
        pauses = random_stream(self.seed, words, self.persona, person, "pauses")
        for number in itertools.count():
            row = rows[(person + number * STRIDE) % len(rows)]
            text, planned_tokens = self._text(row, number * 2**20 + person, offset, words)
            turn = Turn(
                text, min(row.output_tokens, self.output_tokens_max), draw(self.think_s, pauses), planned_tokens
            )
            yield Conversation(persona=self.persona, turns=(turn,), language=self.language)

    def instants_s(self) -> Iterator[float]:
        """When the rows were asked, from 0 on. Raises ``ScenarioError`` when the file cannot be read."""
        return (row.at_s for row in self._data.good)

    def expected(self) -> Expected:
        """The means over the trace. Raises ``ScenarioError`` when it cannot be read."""
        rows = self._data.good
        return Expected(
            turns=1.0,
            think_s=mean(self.think_s),
            prompt_tokens=fmean(min(row.prompt_tokens, self.prompt_tokens_max) for row in rows),
            output_tokens=fmean(min(row.output_tokens, self.output_tokens_max) for row in rows),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the file; empty when nothing was."""
        note = self._data.note(self.file)
        return (note,) if note else ()

    @functools.cached_property
    def _data(self) -> Rows[TraceRow]:
        return read_trace(self.file, strict=self.strict, limit=self.rows)

    def _text(self, row: TraceRow, number: int, offset: int, stream: str) -> tuple[str, int]:
        """Text of the row's length and what it should cost; rows that name the same blocks share their text."""
        spoken = LANGUAGES[self.language]
        per_word = self.tokens_per_word.get(self.language, spoken.tokens_per_word)
        words = max(1, round(min(row.prompt_tokens, self.prompt_tokens_max) / per_word))
        if not row.blocks:
            rng = random_stream(self.seed, stream, self.persona, number, "words")
            return write(spoken, words, rng, opening(spoken, number, offset)), round(words * per_word)
        block_words = round(BLOCK_TOKENS / per_word)
        text: list[str] = []
        for block in row.blocks:
            if len(text) >= words:
                break
            rng = random_stream(self.seed, stream, self.persona, "block", block)
            begin = opening(spoken, block, offset)
            text += write(spoken, block_words, rng, begin, ask=False).split()
        rng = random_stream(self.seed, stream, self.persona, number, "rest")
        return write(spoken, words, rng, " ".join(text)), round(words * per_word)
