"""Chat: people who ask, read and ask again. All ready personas are this class with other figures.

Knows nothing of the server: lengths are wishes in tokens, turned into words by ``tokens_per_word``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

from headcount.records import Conversation, Stage, Turn
from headcount.workload import Expected
from headcount.workload.bounds import (
    MOST_OUTPUT_TOKENS,
    MOST_PROMPT_TOKENS,
    MOST_TURNS,
    MOST_USERS,
    MOST_WAIT_S,
    RatePerS,
    TokenCost,
    Weight,
)
from headcount.workload.deal import Deal
from headcount.workload.spread import Spread, check, draw, draw_count, mean, mean_count, quantile
from headcount.workload.streams import number_of, random_stream, words_of
from headcount.workload.table import nearest
from headcount.workload.text import LANGUAGES, Language, opening, write

__all__ = ["Chat", "StageOptions"]

WITHIN: dict[str, tuple[float, float]] = {
    "turns": (1, MOST_TURNS),
    "prompt_tokens": (1, MOST_PROMPT_TOKENS),
    "first_prompt_tokens": (1, MOST_PROMPT_TOKENS),
    "output_tokens": (1, MOST_OUTPUT_TOKENS),
    "think_s": (0, MOST_WAIT_S),
    "cancel_after_s": (0, MOST_WAIT_S),
}
"""Between which every draw of an option must lie."""
USUALLY = 0.99
"""The share of conversations that the bound on turns times tokens is about."""


class StageOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of ``[[workload.stages]]``: a step outside the model, timed and reported apart."""

    name: str
    delay_s: Spread = 0.0
    """How long it takes; not used where there is a ``url``."""
    url: str = ""
    """A real HTTP GET instead of a delay."""
    after: bool = False
    """After the answer instead of before the question is sent."""

    def __post_init__(self) -> None:
        check("delay_s", self.delay_s, 0, MOST_WAIT_S)
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url {self.url!r} is no address; write http://host/path")


class Chat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """``[workload]`` with ``kind = "chat"``: conversations of a few turns with a pause after every answer."""

    seed: int = 1
    """Filled from the scenario's own ``seed``."""
    persona: str = "chat"
    """The name under which the facts and the report keep these people apart from others."""
    turns: Spread = (2.0, 4.0)
    """Turns of a conversation."""
    prompt_tokens: Spread = (30.0, 250.0)
    """What the text of one turn should cost in the server's tokens, history and template apart."""
    first_prompt_tokens: Spread | None = None
    """The same for the first turn alone, where it differs: a pasted document, for instance."""
    output_tokens: Spread = 500.0
    """The most tokens asked for in each answer."""
    think_s: Spread = (0.3, 1.0)
    """Pause after every answer, the last of a conversation included."""
    reading_tokens_per_s: RatePerS | None = None
    """How fast answers are read before the pause begins; people read about 5 tokens a second. None: not waited for."""
    typing_tokens_per_s: RatePerS | None = None
    """How fast the next turn is typed after the pause. None: at once."""
    cancel_after_s: Spread | None = None
    """When the person gives up on an unfinished answer: the next key comes. None: never."""
    stages: tuple[StageOptions, ...] = ()
    """Steps outside the model in every turn, in this order."""
    languages: str | dict[str, Weight] = "english"
    """``english``, ``korean``, or the weight of each; every person speaks one."""
    system: str = ""
    """A system prompt that all these people share."""
    system_tokens: Annotated[int, Meta(ge=0, le=MOST_PROMPT_TOKENS)] = 0
    """Instead of ``system``: a made-up system prompt of this length, shared by all these people."""
    tokens_per_word: dict[str, TokenCost] = {}
    """What a word costs, by language; calibrated before measuring unless it is given here."""
    ask_long: bool = True
    """Whether each turn asks for a long answer, so that answers do not end early by accident."""

    def __post_init__(self) -> None:
        for name, (least, most) in WITHIN.items():
            if getattr(self, name) is not None:
                check(name, getattr(self, name), least, most)
        together = quantile(self.turns, USUALLY) * quantile(self.prompt_tokens, USUALLY)
        if together > MOST_PROMPT_TOKENS:
            raise ValueError(
                f"turns times prompt_tokens can reach {together:g} tokens in one conversation, which is above "
                f"{MOST_PROMPT_TOKENS:g}; lower one of them"
            )
        for language in (*self._language_weights(), *(key.partition("@")[0] for key in self.tokens_per_word)):
            if language not in LANGUAGES:
                raise ValueError(f"language {language!r} is not known; {nearest(language, list(LANGUAGES))}")
        if not any(self._language_weights().values()):
            raise ValueError("no language has a weight above 0; give at least one of them a weight")
        if self.system and self.system_tokens:
            raise ValueError("system and system_tokens are both given; keep one of them")

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """The endless conversations of one person; each depends on its own names alone, never on those before."""
        language, _ = self._languages.of(person)
        offset = number_of(self.seed, stream, self.persona, "openings")
        number = 0
        while True:
            names = (self.seed, words_of(stream), self.persona, person, number)
            begin = opening(LANGUAGES[language], number * MOST_USERS + person, offset)
            yield self._conversation(names, language, begin)
            number += 1

    def expected(self) -> Expected:
        """The means of what is asked, by the distributions."""
        turns, prompt_tokens = mean_count(self.turns), mean_count(self.prompt_tokens)
        if self.first_prompt_tokens is not None:
            prompt_tokens += (mean_count(self.first_prompt_tokens) - prompt_tokens) / turns
        output_tokens = mean_count(self.output_tokens)
        reading_s = output_tokens / self.reading_tokens_per_s if self.reading_tokens_per_s else 0.0
        typing_s = prompt_tokens / self.typing_tokens_per_s if self.typing_tokens_per_s else 0.0
        return Expected(
            turns=turns,
            think_s=mean(self.think_s) + reading_s + typing_s,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            stage_s=sum(mean(stage.delay_s) for stage in self.stages if not stage.url),
        )

    def _conversation(self, names: tuple[str | int, ...], language: str, begin: str) -> Conversation:
        """One conversation. Lengths, pauses and words have a random stream each, so that none moves the others."""
        lengths, pauses, words, delays = (random_stream(*names, of) for of in ("lengths", "pauses", "words", "delays"))
        spoken, per_word = LANGUAGES[language], self._tokens_per_word(language)
        prompt_tokens = [
            draw_count(
                self.first_prompt_tokens if turn == 0 and self.first_prompt_tokens else self.prompt_tokens, lengths
            )
            for turn in range(draw_count(self.turns, lengths))
        ]
        output_tokens = [draw_count(self.output_tokens, lengths) for _ in prompt_tokens]
        turns = []
        for turn, tokens in enumerate(prompt_tokens):
            wanted_words = max(1, round(tokens / per_word))
            # what is typed after the last turn is the next conversation's first: about as long as this one's
            typed_tokens = prompt_tokens[(turn + 1) % len(prompt_tokens)]
            turns.append(
                Turn(
                    text=write(spoken, wanted_words, words, begin if turn == 0 else "", self.ask_long),
                    max_output_tokens=output_tokens[turn],
                    think_s=self._pause_s(typed_tokens, pauses),
                    planned_prompt_tokens=round(wanted_words * per_word),
                    reading_s_per_token=1 / self.reading_tokens_per_s if self.reading_tokens_per_s else 0.0,
                    cancel_after_s=None if self.cancel_after_s is None else draw(self.cancel_after_s, pauses),
                    stages=tuple(
                        Stage(stage.name, draw(stage.delay_s, delays), stage.url, stage.after) for stage in self.stages
                    ),
                )
            )
        return Conversation(
            persona=self.persona,
            turns=tuple(turns),
            system=self._system(language),
            planned_system_tokens=self.system_tokens if not self.system else None,
            language=language,
        )

    def _pause_s(self, typed_tokens: int, pauses: Random) -> float:
        typing_s = typed_tokens / self.typing_tokens_per_s if self.typing_tokens_per_s else 0.0
        return draw(self.think_s, pauses) + typing_s

    def _tokens_per_word(self, language: str) -> float:
        return self.tokens_per_word.get(language, LANGUAGES[language].tokens_per_word)

    def _language_weights(self) -> Mapping[str, float]:
        return {self.languages: 1.0} if isinstance(self.languages, str) else self.languages

    @functools.cached_property
    def _languages(self) -> Deal:
        return Deal(self._language_weights(), self.seed, f"{self.persona} languages")

    def _system(self, language: str) -> str:
        """The shared system prompt: the same text for everybody of this persona, language and seed."""
        return self._systems[language] if self.system_tokens else self.system

    @functools.cached_property
    def _systems(self) -> dict[str, str]:
        return {name: self._made_up_system(name, spoken) for name, spoken in LANGUAGES.items()}

    def _made_up_system(self, name: str, spoken: Language) -> str:
        rng = random_stream(self.seed, self.persona, "system", name)
        words = max(1, round(self.system_tokens / self._tokens_per_word(name)))
        return write(spoken, words, rng, opening(spoken, rng.getrandbits(40), 0), ask=False)
