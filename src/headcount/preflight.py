"""Before anything is measured: reach the server, learn what it is and how it wants to be asked.

Gives everything the session and the load processes need. Knows nothing of levels and people.
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from headcount.engine import Engine, engine_class
from headcount.engine.detect import detect
from headcount.errors import ScenarioError
from headcount.http import Client, Target
from headcount.records import EngineFacts, Prompt, Reply
from headcount.scenario import EngineOptions
from headcount.virtual import clock
from headcount.workload import Workload, make_workload, settle
from headcount.workload.calibration import PROBE, CalibrationText, TokenCost, calibration_texts, token_cost
from headcount.workload.tokenizer import token_counter

__all__ = ["PROBE_TOKENS", "Ready", "Settled", "probe", "reach", "settle_workload", "target_of"]

PROBE_TEXT = "Tell me in a few sentences what the sea looks like on a windy day."
PROBE_TOKENS = 16
FIRST_TEXTS, FIRST_WORDS = 3, 40
"""Of each language and model, for a first guess of what a word costs."""
MOST_TEXTS, TEXTS_AT_ONCE = 24, 8
SURE_FRACTION = 0.015
"""No more texts are sent once the standard error is below this: one text's cost varies by about 5 % of the mean."""
CALIBRATION_AT_ONCE = 4
PATIENCE_S, REMIND_S = 1.0, 10.0
"""When somebody who waits is told so, and how often again."""
ADAPTER_PEOPLE = 64
"""So many people are asked which adapter they will use."""


_Count = Callable[[Sequence[tuple[str | None, str]]], Awaitable[list[int | None]]]
"""From (model, text) to what each text costs alone as a prompt; None where nobody told."""


class Ready(msgspec.Struct, frozen=True):
    """A server that has answered a real request."""

    engine: Engine
    """Open in this process; for facts, gauges and single requests."""
    facts: EngineFacts
    target: Target | None
    """How to reach it from a load process; None without a network."""
    notes: tuple[str, ...]
    token_s: float | None = None
    """How long a token takes, of an answer to one person alone; None where that was not seen."""


def target_of(options: EngineOptions, api_key: str | None) -> Target | None:
    """How to reach the server of a scenario; None for an engine without an address."""
    if not options.url:
        return None
    return Target(
        url=options.url,
        headers=options.headers,
        api_key=api_key,
        ca_file=options.ca_file,
        insecure=options.insecure,
        connect_timeout_s=options.connect_timeout_s,
        first_token_timeout_s=options.first_token_timeout_s,
        idle_timeout_s=options.idle_timeout_s,
        total_timeout_s=options.total_timeout_s,
    )


async def reach(
    options: EngineOptions,
    api_key: str | None,
    *,
    adapter: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Ready:
    """Find out which engine answers, ask for its facts, and have it answer one small request.

    ``tell`` hears when that takes longer than a moment. Raises ``ServerError`` when it cannot be used,
    ``ScenarioError`` when no address is given and one is needed by the engine named.
    """
    target = target_of(options, api_key)
    if target is None and options.kind == "auto":
        raise ScenarioError("engine.url is missing", "give the server's address, e.g. http://127.0.0.1:8000")
    client = Client(target) if target is not None else None
    waiting = asyncio.ensure_future(_tell_while_waiting(options.url, tell)) if target and tell else None
    try:
        engine = await _engine(options, client)
        facts = await engine.facts()
        notes = await engine.prepare(facts, probe(facts, adapter))
    except BaseException:
        if client is not None:
            await client.close()
        raise
    finally:
        if waiting is not None:
            waiting.cancel()
    return Ready(engine, facts, target, notes, getattr(engine, "token_s", None))


async def _tell_while_waiting(url: str, tell: Callable[[str], None]) -> None:
    """Say what is waited for after a second, and again every ten."""
    began_at_s = clock()()
    await asyncio.sleep(PATIENCE_S)
    while True:
        tell(f"waiting for {url} to answer ({clock()() - began_at_s:.0f} s)")
        await asyncio.sleep(REMIND_S)


async def _engine(options: EngineOptions, client: Client | None) -> Engine:
    """The engine named, or the one that the server turns out to be."""
    kind = options.kind
    if kind == "auto" and client is not None:
        kind = await detect(client)
    learned: dict[str, Any] = {}
    try:
        engine: Engine = engine_class(kind)(client, options.model, learned, **options.options)
    except TypeError as error:
        raise ScenarioError(f"engine.options: {error}", f"they are the fields of engine {kind!r}") from error
    return engine


def probe(facts: EngineFacts, adapter: str | None = None) -> Prompt:
    """The one small question asked before measuring."""
    return Prompt(
        messages=({"role": "user", "content": PROBE_TEXT},),
        max_output_tokens=PROBE_TOKENS,
        model=facts.model,
        adapter=adapter,
    )


# --- what a word costs -----------------------------------------------------------------------


class Settled(msgspec.Struct, frozen=True):
    """A workload with what only the server can tell."""

    table: dict[str, object]
    """``[workload]`` with the server's adapters, and what a word costs in its tokens."""
    notes: tuple[str, ...]
    """For ``run.json``."""
    template_tokens: int | None
    """What the server's chat template adds to a conversation of one message; None when it tells no counts."""


async def settle_workload(
    ready: Ready, table: dict[str, object], seed: int, tokenizer_file: str | None = None
) -> Settled:
    """Ask the server what the workload depends on; what words cost is counted by a tokenizer's file where one is given.

    A table that says what words cost, as that of a continued run does, is believed.
    Raises ``ScenarioError`` for an adapter that the server does not have, and for a file that is no tokenizer.
    """
    table = settle(table, ready.facts.adapters)
    notes = _check_adapters(ready.facts, make_workload(table, seed))
    (probe_tokens,) = await _prompt_tokens(ready, [(None, PROBE)])
    template_tokens = None if probe_tokens is None else max(0, probe_tokens - 1)
    if "tokens_per_word" not in table:
        by = "the server counts" if tokenizer_file is None else "its tokenizer's file counts"
        count: _Count = functools.partial(_prompt_tokens, ready)
        if tokenizer_file is not None:
            count, probe_tokens = _by_file(tokenizer_file), 1
        costs = {}
        if probe_tokens is not None:
            costs = await _token_costs(count, probe_tokens, table, seed, ready.facts.context_tokens)
        table = settle(table, tokens_per_word={key: cost.tokens_per_word for key, cost in costs.items()})
        notes += [f"{key}: {cost.tokens_per_word:.2f} tokens a word, as {by}" for key, cost in costs.items()]
    return Settled(table, tuple(notes), template_tokens)


def _check_adapters(facts: EngineFacts, workload: Workload) -> list[str]:
    """Refuse adapters that a server which lists its own does not list."""
    wanted = {next(workload.conversations(person, "adapters")).adapter for person in range(ADAPTER_PEOPLE)} - {None}
    missing = sorted(str(adapter) for adapter in wanted if adapter not in facts.adapters)
    if missing and facts.adapters:
        raise ScenarioError(
            f"workload.adapters: {missing[0]!r} is not on the server", f"it has: {', '.join(facts.adapters)}"
        )
    return [f"adapters {', '.join(missing)}: the server does not say whether it has them"] if missing else []


async def _token_costs(
    count: _Count, probe_tokens: int, table: dict[str, object], seed: int, context_tokens: int | None
) -> dict[str, TokenCost]:
    """What a word costs by language and model: guessed from a few texts, then from as many of the lengths that will be
    sent as it takes to be sure."""
    first = calibration_texts(make_workload(table, seed), context_tokens, FIRST_TEXTS, FIRST_WORDS)
    guesses = _costs(probe_tokens, first, await count([(text.model, text.text) for text in first]))
    guessed = settle(table, tokens_per_word={key: cost.tokens_per_word for key, cost in guesses.items()})
    left: dict[str, list[CalibrationText]] = defaultdict(list)
    for text in calibration_texts(make_workload(guessed, seed), context_tokens, MOST_TEXTS):
        left[text.key].append(text)
    costs: dict[str, TokenCost] = {}
    sent: list[CalibrationText] = []
    counts: list[int | None] = []
    while True:
        unsure = [key for key in left if key not in costs or costs[key].error_fraction > SURE_FRACTION]
        batch = [text for key in unsure for text in left[key][:TEXTS_AT_ONCE]]
        if not batch:
            return costs
        for key in unsure:
            del left[key][:TEXTS_AT_ONCE]
        sent += batch
        counts += await count([(text.model, text.text) for text in batch])
        costs = _costs(probe_tokens, sent, counts)


def _costs(probe_tokens: int, texts: Sequence[CalibrationText], counts: Sequence[int | None]) -> dict[str, TokenCost]:
    """What the counted texts tell of each language and model."""
    pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for text, tokens in zip(texts, counts, strict=True):
        if tokens is not None:
            pairs[text.key].append((len(text.text.split()), tokens))
    costs = {key: token_cost(probe_tokens, found) for key, found in pairs.items()}
    return {key: cost for key, cost in costs.items() if cost is not None}


def _by_file(tokenizer_file: str) -> _Count:
    """Counts by a tokenizer's file, which knows no template and one model only."""
    tokens_of = token_counter(tokenizer_file)

    async def count(texts: Sequence[tuple[str | None, str]]) -> list[int | None]:
        return [tokens_of(text) for _, text in texts]

    return count


async def _prompt_tokens(ready: Ready, texts: Sequence[tuple[str | None, str]]) -> list[int | None]:
    """What each text costs alone; None where no answer or no count came."""
    places = asyncio.Semaphore(CALIBRATION_AT_ONCE)

    async def one(model: str | None, text: str) -> int | None:
        reply = Reply()
        prompt = Prompt(({"role": "user", "content": text},), max_output_tokens=1, model=model or ready.facts.model)
        async with places:
            await ready.engine.send(prompt, reply)
        return reply.prompt_tokens

    return await asyncio.gather(*(one(model, text) for model, text in texts))
