"""The faults other load clients have had on the wire, byte for byte: each gives the right values or the right error.

A value is right when it lies between the write that carried it and the next one, as the server itself noted them:
that holds on any machine, however busy.
"""

from __future__ import annotations

import asyncio
import base64
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from headcount.engine.openai import OpenAI
from headcount.http import Client, Target
from headcount.metrics import tpot_s
from headcount.records import Prompt, Reply, Request
from tests.playback import CHUNKED, Playback, Script, Seen, chunk, head


class Write(msgspec.Struct):
    """Bytes of a body and when they are written."""

    at_s: float
    base64: str


class Case(msgspec.Struct):
    """One recorded fault with what is right for it."""

    id: str
    http: int
    content_type: str
    end: str
    writes: list[Write]
    expect: dict[str, Any]


CASES = msgspec.json.decode((Path(__file__).parent.parent / "data" / "wire.json").read_bytes(), type=list[Case])
FRAMINGS = ("eof", "chunked", "chunked, cut", "reset")
"""As recorded; in chunks with a proper end; in chunks without one; and reset instead of closed."""
LOOPS = ("asyncio", "uvloop")
KEYS = list(product((case.id for case in CASES), FRAMINGS, LOOPS))


def script(case: Case, framing: str) -> Script:
    """The case's bytes in a framing."""
    bodies = [(write.at_s, base64.b64decode(write.base64)) for write in case.writes]
    if framing in ("eof", "reset"):
        return Script([(0.0, head(case.content_type, case.http)), *bodies], "eof" if framing == "eof" else "reset")
    writes = [(0.0, head(case.content_type, case.http, CHUNKED)), *((at_s, chunk(data)) for at_s, data in bodies)]
    if framing == "chunked, cut":
        return Script(writes, "eof")
    at_s, last = writes.pop()
    return Script([*writes, (at_s, last + chunk(b""))], "keep")


async def play(case: Case, framing: str) -> tuple[Reply, Seen]:
    """Ask one server that plays the case."""
    async with Playback(script(case, framing)) as server:
        engine = OpenAI(Client(Target(url=server.url)), "m")
        reply = Reply()
        await engine.send(Prompt(({"role": "user", "content": "hello"},), 16), reply)
        await engine.close()
        return reply, server.seen[0]


async def play_all() -> list[tuple[Reply, Seen]]:
    """Every case in every framing, all at once: it takes no longer than one."""
    return await asyncio.gather(*(play(case, framing) for case, framing in product(CASES, FRAMINGS)))


@pytest.fixture(scope="module")
def played() -> dict[tuple[str, str, str], tuple[Reply, Seen]]:
    """What came of every case in every framing on both event loops."""
    found = {}
    for name, loop in (("asyncio", asyncio.new_event_loop), ("uvloop", uvloop.new_event_loop)):
        with asyncio.Runner(loop_factory=loop) as runner:
            for (case, framing), result in zip(product(CASES, FRAMINGS), runner.run(play_all()), strict=True):
                found[case.id, framing, name] = result
    return found


def came_with(seen: Seen, case: Case, at_s: float) -> tuple[float, float]:
    """When the write planned for ``at_s`` was made, and when the next one was."""
    index = 1 + [write.at_s for write in case.writes].index(at_s)
    later = [wrote for wrote in seen.wrote_at_s[index + 1 :] if wrote > seen.wrote_at_s[index]]
    return seen.wrote_at_s[index], later[0] if later else float("inf")


@pytest.mark.parametrize(("name", "framing", "loop"), KEYS)
def test_wire(played: dict[tuple[str, str, str], tuple[Reply, Seen]], name: str, framing: str, loop: str) -> None:
    """Status, times, tokens and text are what the case says, whichever way the body is framed."""
    case = next(case for case in CASES if case.id == name)
    reply, seen = played[name, framing, loop]
    expected = case.expect
    status = expected["status"]

    assert reply.error == (None if status == "ok" else status), reply.error_text
    assert (reply.error is None) == (reply.error_text is None)
    assert reply.ended_at_s is not None

    first = reply.chunk_at_s[0] if reply.chunk_at_s else None
    for key, value in (("ttft_s", first), ("first_answer_s", reply.first_answer_at_s)):
        if key not in expected:
            continue
        if expected[key] is None:
            assert value is None
        else:
            wrote_s, next_s = came_with(seen, case, expected[key])
            assert value is not None
            assert wrote_s <= value <= next_s
    if "output_tokens" in expected:
        assert reply.output_tokens == expected["output_tokens"]
    if "text" in expected:
        assert "".join(reply.text) == expected["text"]
    if "coalesced" in expected or status == "ok":
        assert reply.coalesced == expected.get("coalesced", False)
    if "tpot_s" in expected:
        assert tpot_s(as_request(reply)) == pytest.approx(as_written(expected, case, seen), abs=0.05)
        if late_s(case, seen) < 0.002:  # the server kept its schedule: so must what we say
            assert tpot_s(as_request(reply)) == pytest.approx(expected["tpot_s"], abs=0.01)


def as_request(reply: Reply) -> Request:
    """As much of a request as the metric looks at."""
    return Request(
        level=0,
        person=0,
        conversation=0,
        turn=1,
        scheduled_at_s=0.0,
        ended_at_s=reply.ended_at_s or 0.0,
        chunk_at_s=reply.chunk_at_s,
        output_tokens=reply.output_tokens,
        error=reply.error,
    )


def late_s(case: Case, seen: Seen) -> float:
    """How far the server was behind its schedule at worst."""
    return max(w - seen.at_s - p.at_s for w, p in zip(seen.wrote_at_s[1:], case.writes, strict=False))


def as_written(expected: dict[str, Any], case: Case, seen: Seen) -> float | None:
    """The TPOT by the times at which the first and the last output were really written."""
    if expected["tpot_s"] is None:
        return None
    span_s = expected["tpot_s"] * (expected["output_tokens"] - 1)
    first_s, _ = came_with(seen, case, expected["ttft_s"])
    planned = min((w.at_s for w in case.writes), key=lambda at_s: abs(at_s - expected["ttft_s"] - span_s))
    last_s, _ = came_with(seen, case, planned)
    return (last_s - first_s) / int(expected["output_tokens"] - 1)
