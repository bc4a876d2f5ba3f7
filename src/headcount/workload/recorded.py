"""Recorded: what real people said, from a file, answered anew by the server that is measured."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from statistics import fmean
from typing import Annotated

import msgspec
from msgspec import Meta

from headcount.records import Conversation, Turn
from headcount.workload import Expected
from headcount.workload.bounds import MOST_OUTPUT_TOKENS, MOST_TURNS, MOST_WAIT_S
from headcount.workload.rows import Rows, Spoken, read_conversations
from headcount.workload.spread import Spread, check, draw, draw_count, mean, mean_count
from headcount.workload.streams import number_of, random_stream, words_of
from headcount.workload.text import LANGUAGES, language_of, opening

__all__ = ["Recorded"]

GOLDEN = 0.6180339887498949
"""Multiples of it, wrapped into 0..1, are as far from each other as can be, however many there are."""

CHARS_PER_TOKEN = {"english": 4.0, "korean": 1.7}


class Recorded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """``kind = "data"``: conversations from a file; what was answered there only tells how long answers are."""

    seed: int = 1
    """Filled from the scenario's own ``seed``."""
    persona: str = "data"
    """The name under which the facts and the report keep these people apart from others."""
    file: str
    """JSON lines or a JSON list (``messages``, ``conversations``, ``prompt``), else one prompt a line."""
    strict: bool = False
    """Whether a row that cannot be used is an error instead of left out and counted."""
    rows: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    """No more rows are read."""
    turns_max: Annotated[int, Meta(ge=1, le=MOST_TURNS)] = 20
    """Longer conversations end here."""
    output_tokens: Spread | None = None
    """The most tokens asked for in each answer; None: about as many as the recorded answer had, else 500."""
    output_tokens_max: Annotated[int, Meta(ge=1, le=MOST_OUTPUT_TOKENS)] = 2000
    """Never more than this, however long the recorded answer was."""
    think_s: Spread = (2.0, 10.0)
    """Pause after every answer."""
    fresh: bool = True
    """Whether a made-up first sentence makes each conversation unique: data said again would find itself in the
    server's prefix cache."""

    def __post_init__(self) -> None:
        check("think_s", self.think_s, 0, MOST_WAIT_S)
        if self.output_tokens is not None:
            check("output_tokens", self.output_tokens, 1, MOST_OUTPUT_TOKENS)

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """The recorded conversations in their order, from a place of this person's own on, again from the front at
        the end. Raises ``ScenarioError`` when the file cannot be read."""
        spoken, words = self._data.good, words_of(stream)
        start = int((random_stream(self.seed, words, "start").random() + person * GOLDEN) % 1.0 * len(spoken))
        offset = number_of(self.seed, stream, self.persona, "openings")
        number = 0
        while True:
            said = spoken[(start + number) % len(spoken)]
            language = language_of(said.turns[0][0])
            begin = opening(LANGUAGES[language], number * 2**20 + person, offset) if self.fresh else ""
            yield self._conversation(said, language, begin, (self.seed, words, self.persona, person, number))
            number += 1

    def expected(self) -> Expected:
        """The means over the file. Raises ``ScenarioError`` when it cannot be read."""
        talks = [said.turns[: self.turns_max] for said in self._data.good]
        turns = [turn for talk in talks for turn in talk]
        return Expected(
            turns=fmean(map(len, talks)),
            think_s=mean(self.think_s),
            prompt_tokens=fmean(len(text) / CHARS_PER_TOKEN[language_of(text)] for text, _ in turns),
            output_tokens=fmean(self._answer_tokens(text, chars) for text, chars in turns)
            if self.output_tokens is None
            else mean_count(self.output_tokens),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the file; empty when nothing was."""
        note = self._data.note(self.file)
        return (note,) if note else ()

    @functools.cached_property
    def _data(self) -> Rows[Spoken]:
        return read_conversations(self.file, strict=self.strict, limit=self.rows)

    def _conversation(self, said: Spoken, language: str, begin: str, names: tuple[str | int, ...]) -> Conversation:
        lengths, pauses = random_stream(*names, "lengths"), random_stream(*names, "pauses")
        turns = tuple(
            Turn(
                text=f"{begin} {text}" if begin and number == 0 else text,
                max_output_tokens=self._answer_tokens(text, chars)
                if self.output_tokens is None
                else draw_count(self.output_tokens, lengths),
                think_s=draw(self.think_s, pauses),
            )
            for number, (text, chars) in enumerate(said.turns[: self.turns_max])
        )
        return Conversation(persona=self.persona, turns=turns, system=said.system, language=language)

    def _answer_tokens(self, text: str, chars: int | None) -> int:
        """About what the recorded answer cost; 500 where there was none."""
        if not chars:
            return min(self.output_tokens_max, 500)
        return max(1, min(self.output_tokens_max, round(chars / CHARS_PER_TOKEN[language_of(text)])))
