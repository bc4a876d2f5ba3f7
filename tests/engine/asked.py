"""An OpenAI engine asked over real sockets; shared by its tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from headcount.engine.openai import OpenAI
from headcount.http import Client, Target
from headcount.records import Prompt, Reply
from tests.playback import Playback, Script, whole

__all__ = ["PROMPT", "engine_of", "run", "said", "send"]

PROMPT = Prompt(({"role": "user", "content": "hello"},), 2)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On the event loop that measuring uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(main(), 60))


def said(body: Any, status: int = 200) -> Script:
    """A whole JSON answer."""
    return Script([(0.0, whole(json.dumps(body).encode(), "application/json", status))])


def engine_of(server: Playback, *, model: str | None = "m", **options: Any) -> OpenAI:
    """An engine for a server, impatient."""
    return OpenAI(Client(Target(url=server.url, first_token_timeout_s=0.5, idle_timeout_s=0.3)), model, **options)


async def send(engine: OpenAI, prompt: Prompt = PROMPT) -> Reply:
    """One request."""
    reply = Reply()
    await engine.send(prompt, reply)
    assert reply.ended_at_s is not None
    return reply
