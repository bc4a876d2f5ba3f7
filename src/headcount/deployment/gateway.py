"""A gateway before it is loaded: does it know the key and the models, does each server answer, what does it cost.

Every failure is one sentence that names the address and the model. Knows nothing of levels and people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from headcount.deployment.places import AUTO, Place
from headcount.engine import ENGINES, Engine, engine_class
from headcount.engine.detect import detect
from headcount.errors import ServerError
from headcount.http import Client, Response, Target
from headcount.records import Prompt, Reply
from headcount.virtual import clock

__all__ = ["Overhead", "overhead_of", "places_alive", "server_at", "usable"]

_QUESTION = "Tell me in a sentence what the sea looks like on a windy day."
_PAIRS = 12
"""Requests each way, one after the other; the first pair is dropped."""
_TOKENS = 8
_NO_DATABASE = b"no_db_connection"
"""What LiteLLM says of any key but its master key, where it keeps no other keys."""


class Overhead(msgspec.Struct, frozen=True):
    """What the gateway adds to one request while nothing else is on the way. Medians."""

    name: str
    direct_ttft_s: float
    through_ttft_s: float
    direct_e2e_s: float
    through_e2e_s: float
    n: int

    @property
    def ttft_s(self) -> float:
        """Added to the first token."""
        return self.through_ttft_s - self.direct_ttft_s

    @property
    def e2e_s(self) -> float:
        """Added to the whole answer."""
        return self.through_e2e_s - self.direct_e2e_s


async def usable(url: str, api_key: str | None, names: Sequence[str]) -> None:
    """Ask the gateway for its models, and each of them for a word.

    Raises ``ServerError``: unreachable, wrong key, unknown model, or a model whose server does not answer.
    """
    client = Client(Target(url=url, api_key=api_key))
    try:
        listed = await client.get("/v1/models")
        _refuse_key(url, listed, api_key)
        known = _listed(listed)
        for name in names:
            if known and name not in known:
                raise ServerError(f"{url} has no model {name!r}", f"it has: {', '.join(known)}")
            _refuse_answer(url, name, await client.post("/v1/chat/completions", _question(name)))
    finally:
        await client.close()


def _question(name: str) -> bytes:
    return msgspec.json.encode({"model": name, "max_tokens": 1, "messages": [{"role": "user", "content": _QUESTION}]})


def _refuse_key(url: str, response: Response, api_key: str | None) -> None:
    if response.status in (401, 403) or (response.status == 400 and _NO_DATABASE in response.body):
        given = "the API key" if api_key else "requests without an API key"
        raise ServerError(f"{url} refuses {given}", "give the gateway's key: --api-key, or HEADCOUNT_API_KEY")


def _listed(response: Response) -> list[str]:
    try:
        said = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        return []
    entries = said.get("data") if isinstance(said, dict) else None
    return [str(entry.get("id")) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _refuse_answer(url: str, name: str, response: Response) -> None:
    if response.status != 200:
        said = response.body[:200].decode("utf-8", "replace")
        raise ServerError(
            f"{url} gives no answer for {name}: status {response.status}, {said}",
            "is its server running, and does the gateway have its key?",
        )
    if response.headers.get("x-litellm-attempted-fallbacks", "0") != "0" and name != AUTO:
        raise ServerError(
            f"{url} lets another model answer for {name}: its own server does not",
            "start that server, and see the gateway's log",
        )


async def places_alive(places: Sequence[Place], keys: Mapping[str, str]) -> None:
    """Ask every server itself. Raises ``ServerError`` for one that does not answer, or refuses its key."""
    for place in places:
        client = Client(Target(url=place.url, api_key=keys.get(place.key_variable), connect_timeout_s=5.0))
        try:
            response = await client.get("/v1/models")
        except ServerError as error:
            why = error.message.removeprefix(f"{place.url}: ")
            raise ServerError(
                f"{place.name}: its server at {place.url} does not answer ({why})",
                "start it (launch.sh has the line), or say where it is: --server MODEL=URL",
            ) from error
        finally:
            await client.close()
        if response.status in (401, 403):
            raise ServerError(f"{place.name}: its server at {place.url} refuses us", f"set {place.key_variable}")


async def server_at(place: Place, keys: Mapping[str, str], kind: str) -> Engine:
    """The server of a place, to be asked past the gateway; ``kind`` as it was when it was measured."""
    client = Client(Target(url=place.url, api_key=keys.get(place.key_variable)))
    if kind not in ENGINES or kind in ("simulated", "openai"):
        kind = await detect(client)
    engine: Engine = engine_class(kind)(client, place.name, {})
    return engine


async def overhead_of(place: Place, url: str, api_key: str | None, keys: Mapping[str, str]) -> Overhead:
    """The same small request straight to a server and through the gateway, in turns."""
    direct = await server_at(place, keys, "")
    through: Engine = engine_class("openai")(Client(Target(url=url, api_key=api_key)), place.name, {})
    took: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    try:
        for pair in range(_PAIRS + 1):
            for is_direct in (True, False) if pair % 2 else (False, True):
                times = await _asked(direct if is_direct else through, place.name)
                if pair and times is not None:
                    took[is_direct].append(times)
            await asyncio.sleep(0)
    finally:
        await direct.close()
        await through.close()
    if not took[True] or not took[False]:
        raise ServerError(
            f"{place.name}: no answer came {'straight from its server' if not took[True] else 'through the gateway'}",
            "ask it by hand, and see its log",
        )
    return Overhead(
        place.name,
        direct_ttft_s=median(first for first, _ in took[True]),
        through_ttft_s=median(first for first, _ in took[False]),
        direct_e2e_s=median(whole for _, whole in took[True]),
        through_e2e_s=median(whole for _, whole in took[False]),
        n=min(len(took[True]), len(took[False])),
    )


async def _asked(engine: Engine, name: str) -> tuple[float, float] | None:
    """First token and whole answer; None for a failure."""
    reply, began_s = Reply(), clock()()
    prompt = Prompt(({"role": "user", "content": _QUESTION},), max_output_tokens=_TOKENS, model=name)
    await engine.send(prompt, reply)
    if reply.error is not None or not reply.chunk_at_s:
        return None
    return reply.chunk_at_s[0] - began_s, reply.chunk_at_s[-1] - began_s
