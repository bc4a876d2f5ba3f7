"""Streams broken in every way: no crash, no hang, and no success that is none.

Some hundreds by default; ``HEADCOUNT_FUZZ=100000 pytest tests/engine/test_fuzz.py`` tries as many.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import itertools
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import httptools
import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headcount.engine.answers import Answer
from headcount.engine.openai import OpenAI
from headcount.http import Client, Target, connection
from headcount.records import ERROR_KINDS, Prompt, Reply
from tests.playback import DONE, FINISH, USAGE, End, Playback, Script, event, token

STREAMS = int(os.environ.get("HEADCOUNT_FUZZ", "400"))
AT_ONCE = 20
"""Streams played over sockets at the same time."""

PATIENCE = pytest.mark.timeout(120 + STREAMS // 20)
LONG = settings(max_examples=STREAMS, suppress_health_check=list(HealthCheck))

# --- streams ---------------------------------------------------------------------------------

PARTS = [
    token("a"),
    token("é✅"),
    token("[DONE]"),
    token("finish_reason"),
    event('{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'),
    event('{"choices":[{"index":0,"delta":{"reasoning":"b"}}]}'),
    event('{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]}'),
    event('{"choices":[{"index":0,"text":"c","finish_reason":"length"}]}'),
    event('{"choices":[{"index":1,"delta":{"content":"d"},"finish_reason":"stop"}]}'),
    event('{"choices":null,"usage":null,"error":null}'),
    event('{"error":{"message":"died"}}'),
    event('{"error":"died"}'),
    event('{"object":"error","message":"died"}'),
    event('{"type":"response.output_text.delta","delta":"e"}'),
    event('{"type":"response.completed","response":{"status":"completed"}}'),
    event("oops"),
    FINISH,
    USAGE,
    DONE,
    b": ping\n\n",
    b"event: x\r\nid: 1\r\n\r\n",
    b'{"choices":[{"index":0,"message":{"content":"f"},"finish_reason":"stop"}]}',
    b'{"message":{"content":"g"},"done":false}\n',
    b'{"done":true,"eval_count":1}\n',
    b"<html>",
    b"\xff\xfe\x00",
]
KINDS = ["text/event-stream", "application/json", "application/x-ndjson", "text/html", ""]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """An answer with its head, built of whole parts and then broken in up to four places."""
    pieces = draw(st.lists(st.sampled_from(PARTS), max_size=8))
    status, kind = draw(st.sampled_from([200, 200, 200, 200, 500, 204])), draw(st.sampled_from(KINDS[:1] * 4 + KINDS))
    framing = draw(st.sampled_from(["chunked", "chunked", "length", "none"]))
    body, extra = b"".join(pieces), ""
    if framing == "chunked":
        body = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
        extra = "Transfer-Encoding: chunked\r\n"
    elif framing == "length":
        extra = f"Content-Length: {len(body)}\r\n"
    data = bytearray(f"HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\n{extra}\r\n".encode() + body)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "drop", "flip", "insert", "double"])):
            case "cut":
                del data[at:]
            case "drop":
                del data[at : at + draw(st.integers(1, 30))]
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                data[at:at] = draw(st.binary(max_size=4) | st.sampled_from(PARTS))
            case _:
                data[at:at] = data[at : at + 40]
    return bytes(data)


cuts = st.lists(st.integers(1, 2000), max_size=6)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """In pieces."""
    edges = [0, *sorted({a for a in at if a < len(data)}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


# --- what a success must have ----------------------------------------------------------------


def bodies(data: bytes) -> Iterator[bytes]:
    """Every way to read the body of an answer with status 200: by another client, and by cutting off the head."""
    for start in (m.start() for m in re.finditer(rb"HTTP/1", data)):

        class Socket:
            def __init__(self, data: bytes) -> None:
                self.data = data

            def makefile(self, _mode: str) -> io.BytesIO:
                return io.BytesIO(self.data)

        answer = http.client.HTTPResponse(Socket(data[start:]))  # type: ignore[arg-type]
        try:
            answer.begin()
            yield answer.read()
        except http.client.IncompleteRead as error:
            yield error.partial
        except (http.client.HTTPException, ValueError):
            pass
        body = data[start:].replace(b"\r\n\n", b"\n\n").partition(b"\n\r\n")[2]
        yield body
        yield re.sub(rb"(\r\n)?[0-9a-fA-F]+[^\n]*\r\n", b"", body)


def objects(body: bytes) -> Iterator[Any]:
    """Everything in a body that could be an event."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    blocks = ["\n".join(re.findall(r"(?m)^data: ?(.*)$", block)) for block in text.split("\n\n")]
    for one in [*blocks, *text.split("\n"), text]:
        if one.strip() == "[DONE]":
            yield "[DONE]"
            continue
        try:
            yield json.loads(one.strip("\x1e \t"))
        except (ValueError, RecursionError):
            continue


OUTPUT = re.compile(r'"(content|reasoning|text|delta|arguments|response|thinking)": (?!""|null|\{\}|\[\])')
END = re.compile(r'"\[DONE\]"|"finish_reason": (?!null|"")|"done": true|response\.completed|"message": \{')


def may_be_good(data: bytes) -> bool:
    """Whether an answer holds a status 200, some output, and something that ends it. Errs on the lenient side."""
    if not re.search(rb"HTTP/1\.\d\s+200", data):
        return False
    for body in bodies(data):
        found = json.dumps([one for one in objects(body) if isinstance(one, dict | str)])
        if OUTPUT.search(found) and END.search(found):
            return True
    return False


def check(reply: Reply, data: bytes) -> None:
    """What holds for every reply, whatever came."""
    if reply.error is None:
        assert reply.status == 200
        assert reply.error_text is None
        assert may_be_good(data)
    else:
        assert reply.error in ERROR_KINDS or reply.error.startswith("http_")
        assert reply.error_text is not None
        assert len(reply.error_text) <= 300
    assert reply.ended_at_s is not None
    assert reply.chunk_at_s == sorted(reply.chunk_at_s)
    "".join(reply.text).encode()
    for count in (reply.prompt_tokens, reply.output_tokens, reply.cached_tokens):
        assert count is None or count >= 0


# --- the fuzzers -----------------------------------------------------------------------------


@PATIENCE
@LONG
@given(streams(), cuts)
def test_broken_answers(data: bytes, at: list[int]) -> None:
    """The parsers alone, as a connection would feed them."""
    reply = Reply()
    answer = Answer(reply, streamed=True)
    answer.restart()
    parser = answer.parser
    assert parser is not None
    answer.failure, answer.failure_text = "lost", "closed"
    for at_s, piece in enumerate(cut(data, at)):
        answer.read_at_s = float(at_s)
        try:
            parser.feed_data(piece)
        except httptools.HttpParserCallbackError as error:
            ours = error.__context__
            if not isinstance(ours, ValueError):
                raise
            assert answer.complete
            break
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            answer.failure = "malformed"
            break
    if answer.complete:
        answer.failure = None
    answer.ended_at_s = float(len(data))
    answer.note_times()
    answer.judge()

    check(reply, data)


@PATIENCE
@settings(LONG, max_examples=max(10, STREAMS // AT_ONCE))
@given(
    st.lists(
        st.tuples(streams(), cuts, st.sampled_from(["eof", "eof", "reset", "keep", "hang"])),
        min_size=AT_ONCE,
        max_size=AT_ONCE,
    )
)
def test_broken_answers_on_sockets(played: list[tuple[bytes, list[int], End]]) -> None:
    """Client and engine on real connections; then a good answer must still be good."""

    async def one(data: bytes, at: list[int], end: End) -> Reply:
        async with Playback(Script([(0.0, piece) for piece in cut(data, at)], end)) as server:
            target = Target(url=server.url, first_token_timeout_s=0.03, idle_timeout_s=0.03, total_timeout_s=2.0)
            engine = OpenAI(Client(target), "m")
            reply = Reply()
            await asyncio.wait_for(engine.send(Prompt(({"role": "user", "content": "a"},), 4), reply), 30)
            await engine.close()
            assert engine.client.counts.open_now == 0
            return reply

    async def main() -> list[Reply]:
        return await asyncio.gather(*(one(*each) for each in played))

    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        patch.setattr(connection, "LINGER_S", 0.02)
        for reply, (data, _, _) in zip(runner.run(main()), played, strict=True):
            check(reply, data)
