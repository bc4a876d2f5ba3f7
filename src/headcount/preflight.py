"""Before anything is measured: reach the server, learn what it is and how it wants to be asked.

Gives everything the session and the load processes need. Knows nothing of levels and people.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headcount.engine import Engine, engine_class
from headcount.engine.detect import detect
from headcount.errors import ScenarioError
from headcount.http import Client, Target
from headcount.records import EngineFacts, Prompt
from headcount.scenario import EngineOptions

__all__ = ["PROBE_TOKENS", "Ready", "probe", "reach", "target_of"]

PROBE_TEXT = "Tell me in a few sentences what the sea looks like on a windy day."
PROBE_TOKENS = 16


class Ready(msgspec.Struct, frozen=True):
    """A server that has answered a real request."""

    engine: Engine
    """Open in this process; for facts, gauges and single requests."""
    facts: EngineFacts
    target: Target | None
    """How to reach it from a load process; None without a network."""
    notes: tuple[str, ...]


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


async def reach(options: EngineOptions, api_key: str | None, *, adapter: str | None = None) -> Ready:
    """Find out which engine answers, ask for its facts, and have it answer one small request.

    Raises ``ServerError`` when it cannot be used, ``ScenarioError`` when no address is given and none is needed
    by the engine named.
    """
    target = target_of(options, api_key)
    if target is None and options.kind == "auto":
        raise ScenarioError("engine.url is missing", "give the server's address, e.g. http://127.0.0.1:8000")
    client = Client(target) if target is not None else None
    try:
        engine = await _engine(options, client)
        facts = await engine.facts()
        notes = await engine.prepare(facts, probe(facts, adapter))
    except BaseException:
        if client is not None:
            await client.close()
        raise
    return Ready(engine, facts, target, notes)


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
