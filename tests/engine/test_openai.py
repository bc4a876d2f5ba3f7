"""The plain OpenAI engine on real sockets: what it sends, and what it says when a server is not as it should be."""

from __future__ import annotations

import asyncio
import json

import pytest

from headcount.engine import ENGINES, Engine, engine_class
from headcount.engine.openai import OpenAI
from headcount.errors import ScenarioError
from headcount.http import Client, Target
from headcount.metrics import ttft_s
from headcount.records import Prompt, Reply, Request
from tests.engine.asked import PROMPT, engine_of, run, said, send
from tests.playback import (
    CHUNKED,
    DONE,
    FINISH,
    GOOD,
    USAGE,
    Playback,
    Script,
    chunk,
    event,
    head,
    stream,
    token,
    whole,
)

# --- what is sent ----------------------------------------------------------------------------


def test_the_request() -> None:
    """Standard fields only, the same for every request; options and adapters where they belong."""

    async def main() -> None:
        async with Playback(GOOD) as server:
            engine = engine_of(server, temperature=0.5, body={"seed": 7})
            await send(engine)
            await send(engine, Prompt(PROMPT.messages, 3, model="n"))
            await send(engine, Prompt(PROMPT.messages, 3, model="n", adapter="lora"))
            bodies = [json.loads(seen.body) for seen in server.seen]
            assert bodies[0] == {
                "messages": [{"role": "user", "content": "hello"}],
                "max_tokens": 2,
                "model": "m",
                "stream": True,
                "stream_options": {"include_usage": True},
                "temperature": 0.5,
                "seed": 7,
            }
            assert [body["model"] for body in bodies] == ["m", "n", "lora"]
            assert {seen.line for seen in server.seen} == {"POST /v1/chat/completions HTTP/1.1"}
            await engine.close()

    run(main)


def test_whole_answers_are_asked_for_plainly() -> None:
    """Not streamed: no stream options; the text and counts come, times of chunks do not (A76)."""

    async def main() -> None:
        body = {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2},
        }
        async with Playback(said(body)) as server:
            engine = engine_of(server)
            reply = await send(engine, Prompt(PROMPT.messages, 2, streamed=False))
            asked = json.loads(server.seen[0].body)
            assert (asked["stream"], "stream_options" in asked) == (False, False)
            assert (reply.error, reply.text, reply.chunk_at_s, reply.output_tokens) == (None, ["Hi"], [], 2)
            assert ttft_s(as_request(reply, streamed=False)) is None
            await engine.close()

    run(main)


@pytest.mark.parametrize(
    ("api", "path", "field"),
    [("completions", "/v1/completions", "prompt"), ("responses", "/v1/responses", "input")],
)
def test_other_apis(api: str, path: str, field: str) -> None:
    """Completions send a text, responses send an input; both are read alike."""
    answers = {
        "completions": [event('{"choices":[{"text":"H"}]}'), event('{"choices":[{"text":"","finish_reason":"stop"}]}')],
        "responses": [
            event('{"type":"response.output_text.delta","delta":"H"}'),
            event('{"type":"response.completed","response":{"status":"completed","usage":{"output_tokens":1}}}'),
        ],
    }

    async def main() -> None:
        async with Playback(stream(*((0.0, one) for one in answers[api]))) as server:
            engine = engine_of(server, api=api)
            reply = await send(engine)
            assert (reply.error, reply.text) == (None, ["H"])
            assert server.seen[0].line == f"POST {path} HTTP/1.1"
            assert field in json.loads(server.seen[0].body)
            await engine.close()

    run(main)


def test_it_is_an_engine() -> None:
    """It has what the load, the telemetry and the session need; mypy sees to the signatures."""

    async def main() -> None:
        engine: Engine = OpenAI(Client(Target(url="http://a")), "m")
        assert engine.name in ENGINES
        assert engine_class(engine.name) is OpenAI

    run(main)


def test_an_unknown_api() -> None:
    """Refused with the known ones."""

    async def main() -> None:
        with pytest.raises(ScenarioError) as caught:
            OpenAI(Client(Target(url="http://a")), api="chats")
        assert "completions" in caught.value.hint

    run(main)


# --- what comes back -------------------------------------------------------------------------


def test_times_of_a_stream() -> None:
    """Each token has the time at which it came, not that of the end (A47), and latency needs nothing else."""

    async def main() -> None:
        script = stream(*((0.03 * i, token("a")) for i in range(1, 6)), (0.2, FINISH + USAGE + DONE))
        async with Playback(script) as server:
            engine = engine_of(server)
            reply = await send(engine)
            wrote = server.seen[0].wrote_at_s
            assert all(w <= at_s <= then for w, at_s, then in zip(wrote[1:], reply.chunk_at_s, wrote[2:], strict=False))
            assert len(reply.chunk_at_s) == 5
            assert reply.first_byte_at_s is not None
            assert reply.first_byte_at_s < reply.chunk_at_s[0] == reply.first_event_at_s == reply.first_answer_at_s
            assert reply.ended_at_s is not None
            assert reply.ended_at_s >= wrote[-1]
            assert (reply.status, reply.prompt_tokens, reply.output_tokens) == (200, 10, 2)
            await engine.close()

    run(main)


def test_a_huge_event() -> None:
    """An event of 200 kB, and one of 8 MiB, are read whole (A29)."""

    async def main() -> None:
        for size in (200_000, 8 * 1024 * 1024):
            async with Playback(stream((0.0, token("é" * (size // 2))), (0.0, FINISH + DONE))) as server:
                engine = OpenAI(Client(Target(url=server.url)), "m")
                reply = await send(engine)
                assert (reply.error, len("".join(reply.text)), len(reply.chunk_at_s)) == (None, size // 2, 1)
                await engine.close()

    run(main)


def answer_head(status: int = 200, *more: str) -> bytes:
    """The head of a chunked stream."""
    return head("text/event-stream", status, CHUNKED, *more)


ENDS: list[tuple[str, Script, str, str]] = [
    ("no answer", Script([], "eof"), "disconnect", "closed"),
    ("no answer, reset", Script([], "reset"), "disconnect", "lost"),
    ("half a head", Script([(0, b"HTTP/1.1 200 OK\r\nCont")], "eof"), "disconnect", "closed"),
    ("no HTTP", Script([(0, b"hello\r\n\r\n")], "hang"), "disconnect", "not HTTP"),
    ("only a head", Script([(0, answer_head())], "eof"), "truncated", "closed"),
    ("cut", Script([(0, answer_head() + chunk(token("a")))], "eof"), "truncated", "closed"),
    ("reset", Script([(0, answer_head() + chunk(token("a")))], "reset"), "truncated", "lost"),
    ("bad chunk", Script([(0, answer_head() + chunk(token("a")) + b"zz\r\n")], "hang"), "truncated", "not HTTP"),
    (
        "cut whole body",
        Script([(0, head("application/json", 200, "Content-Length: 99") + b'{"a')], "eof"),
        "truncated",
        "",
    ),
    ("silent", Script([], "hang"), "timeout", "first-token"),
    ("only roles", stream((0, event('{"choices":[{"delta":{"role":"assistant"}}]}')), (2, DONE)), "timeout", "first"),
    ("stuck", Script([(0, answer_head() + chunk(token("a")))], "hang"), "timeout", "idle"),
    ("refused", Script([(0, whole(b'{"error":"Unauthorized"}', status=401))]), "http_401", "Unauthorized"),
    ("refused, bare", Script([(0, whole(b"", "", 500))]), "http_500", ""),
    ("refused, as stream", Script([(0, answer_head(503) + chunk(b"busy") + chunk(b""))]), "http_503", "busy"),
    ("moved", Script([(0, whole(b"", "", 307, "Location: https://b/v1"))]), "http_307", "https://b/v1"),
    ("accepted only", Script([(0, whole(b'{"choices":[{"message":{"content":"a"}}]}', status=202))]), "http_202", ""),
    (
        "compressed",
        Script([(0, whole(b"\x1f\x8b\x08\0", "text/event-stream", 200, "Content-Encoding: gzip"))]),
        "truncated",
        "gzip",
    ),
    (
        "error, then stuck",
        Script([(0, answer_head() + chunk(event('{"error":"died"}')))], "hang"),
        "server_error",
        "died",
    ),
    ("no output", stream((0, FINISH + USAGE + DONE)), "empty", ""),
    (
        "too long",
        Script([(0, whole(b'{"error":{"message":"maximum context length is 9"}}', status=400))]),
        "context_overflow",
        "9",
    ),
]


@pytest.mark.parametrize(("name", "script", "kind", "text"), ENDS, ids=[end[0] for end in ENDS])
def test_no_failure_is_a_success(name: str, script: Script, kind: str, text: str) -> None:
    """Each way to fail has its kind and its reason; nothing raises, and the next request is not harmed."""

    async def main() -> None:
        async with Playback(script, GOOD) as server:
            engine = engine_of(server)
            reply = await send(engine)
            assert reply.error == kind, reply.error_text
            assert reply.error_text is not None
            assert text in reply.error_text
            assert len(reply.error_text) <= 300
            assert (await send(engine)).error is None
            assert len(server.seen) == 2
            await engine.close()

    run(main)


def test_finished_but_never_closed() -> None:
    """An answer that said why it stopped is good, even when the server then forgets to end it."""

    async def main() -> None:
        async with Playback(Script([(0, answer_head() + chunk(token("a") + FINISH + USAGE))], "hang")) as server:
            engine = engine_of(server)
            reply = await send(engine)
            assert (reply.error, reply.output_tokens) == (None, 2)
            await engine.close()

    run(main)


def test_nobody_listens() -> None:
    """No server at all is a disconnect with its reason; a name that does not exist too."""

    async def main() -> None:
        engine = OpenAI(Client(Target(url="unix:/nowhere/at/all")), "m")
        reply = await send(engine)
        assert (reply.error, reply.status, reply.sent_at_s) == ("disconnect", None, None)
        assert "no such file" in (reply.error_text or "")
        await engine.close()

    run(main)


def test_one_refusal_is_one_error() -> None:
    """Nothing is retried behind the load's back (A44)."""

    async def main() -> None:
        async with Playback(said({"error": "busy"}, 503), GOOD) as server:
            engine = engine_of(server)
            assert (await send(engine)).error == "http_503"
            assert len(server.seen) == 1
            await engine.close()

    run(main)


def test_time_outs_do_not_flatter() -> None:
    """A timed-out request ends at its time-out, not before, and keeps what had come (A42)."""

    async def main() -> None:
        script = Script([(0, answer_head() + chunk(token("a")))], "hang")
        async with Playback(script) as server:
            engine = engine_of(server)
            reply = await send(engine)
            assert reply.error == "timeout"
            assert (reply.text, len(reply.chunk_at_s)) == (["a"], 1)
            assert reply.ended_at_s is not None
            assert reply.ended_at_s - reply.chunk_at_s[0] >= 0.3
            await engine.close()

    run(main)


def test_cut_at_the_end_of_a_level() -> None:
    """A cancelled request keeps what was seen, is no success, and leaves no connection at the server."""

    async def main() -> None:
        async with Playback(stream(*((0.02 * i, token("a")) for i in range(200)))) as server:
            engine = engine_of(server)
            reply = Reply()
            task = asyncio.create_task(engine.send(PROMPT, reply))
            while len(reply.chunk_at_s) < 3:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert reply.ended_at_s is not None
            assert reply.sent_at_s is not None
            assert reply.status == 200
            assert (len(reply.text), reply.finish_reason) == (len(reply.chunk_at_s), None)
            for _ in range(1000):
                if server.open_now == 0:
                    break
                await asyncio.sleep(0.005)
            assert server.open_now == 0
            await engine.close()

    run(main)


def as_request(reply: Reply, streamed: bool) -> Request:
    """As much of a request as a metric looks at."""
    return Request(0, 0, 0, 1, 0.0, reply.ended_at_s or 0.0, streamed=streamed, chunk_at_s=reply.chunk_at_s)


def test_gauges_of_a_plain_server() -> None:
    """None."""

    async def main() -> None:
        assert await OpenAI(Client(Target(url="http://a"))).gauges() == {}

    run(main)
