"""The mock server is a model server to every client here: found, described, streamed from, refused and broken."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from headcount.engine import engine_class
from headcount.engine.detect import detect
from headcount.engine.simulated import Simulated
from headcount.engine.simulation import Options
from headcount.http import Client, Target
from headcount.mock import MockServer
from headcount.records import Prompt, Reply
from headcount.virtual import clock, run

QUICK: dict[str, Any] = {"jitter": 0.0, "overhead_s": 0.004, "weights_s": 0.0, "token_s": 0.0}
"""A step takes little more than 4 ms."""


def served(use: Callable[[MockServer, Any], Awaitable[None]], dialect: str = "vllm", **options: Any) -> None:
    """Start a server, use it through the engine of its dialect, stop it."""

    async def main() -> None:
        async with MockServer(Options(**{**QUICK, **options}), dialect) as server:
            engine = engine_class(dialect)(Client(Target(url=server.url)), server.model)
            try:
                await asyncio.wait_for(use(server, engine), 60)
            finally:
                await engine.close()

    asyncio.run(main())


async def ask(engine: Any, text: str = "How do rivers find the sea?", tokens: int = 30, **fields: Any) -> Reply:
    """One question."""
    reply = Reply()
    await engine.send(Prompt(({"role": "user", "content": text},), tokens, **fields), reply)
    return reply


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp"])
def test_it_is_recognised_and_describes_itself(dialect: str) -> None:
    """Detection finds the engine; facts and gauges are read as from the real one."""

    async def use(server: MockServer, engine: Any) -> None:
        client = Client(Target(url=server.url))
        assert await detect(client) == dialect
        await client.close()
        facts = await engine.facts()
        await ask(engine)
        gauges = await engine.gauges()

        assert facts.model == server.model
        assert facts.context_tokens == 8192
        if dialect != "vllm":
            assert facts.slots == 6
        if dialect != "llamacpp":
            assert facts.kv_pool_tokens == 40_960
            assert facts.adapters == ("law",)
            assert gauges["server_kv_used_fraction"] == 0
        assert gauges["server_running_requests"] == 0
        assert gauges["server_output_tokens_total"] == 30

    served(use, dialect, slots=6, adapters=("law",))


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp"])
def test_a_stream_has_a_token_an_event_and_usage(dialect: str) -> None:
    """As many events as tokens, in order of time, and the server's own counts."""

    async def use(server: MockServer, engine: Any) -> None:
        reply = await ask(engine)

        assert reply.error is None
        assert reply.output_tokens == 30
        assert len("".join(reply.text).split()) == 30
        assert 25 <= len(reply.chunk_at_s) <= 30
        assert reply.prompt_tokens == 3 + 4 + 6
        assert reply.finish_reason == "length"
        assert reply.ended_at_s is not None
        assert reply.sent_at_s is not None
        assert reply.ended_at_s - reply.sent_at_s > 0.12

    served(use, dialect)


def test_it_answers_whole_too() -> None:
    """Without streaming: one body with text and usage."""

    async def use(server: MockServer, engine: Any) -> None:
        reply = await ask(engine, streamed=False)

        assert reply.error is None
        assert reply.output_tokens == 30
        assert reply.chunk_at_s == []

    served(use)


def test_history_and_adapters_reach_the_core() -> None:
    """A second turn finds the first in the cache; an adapter is asked for by its name."""

    async def use(server: MockServer, engine: Any) -> None:
        question = {"role": "user", "content": "word " * 100}
        first, second = Reply(), Reply()
        await engine.send(Prompt((question,), 150), first)
        history = (question, {"role": "assistant", "content": "".join(first.text)})
        await engine.send(Prompt((*history, {"role": "user", "content": "and then?"}), 20), second)
        adapted = await ask(engine, model="law", adapter="law")

        assert second.cached_tokens is not None
        assert second.cached_tokens == (3 + 4 + 100 + 150 - 1) // 16 * 16
        assert adapted.error is None
        assert server.core.adapters.loads_total == 1

    served(use, adapters=("law",))


def test_refusals_come_as_the_engine_words_them() -> None:
    """Unknown model, too long, too many, nonsense."""

    async def use(server: MockServer, engine: Any) -> None:
        long = await ask(engine, "word " * 2000, 100)
        crowd = await asyncio.gather(*(ask(engine, f"{n}") for n in range(6)))
        client = engine.client
        nonsense = await client.post("/v1/chat/completions", b"{")
        nobody = await client.post(
            "/v1/chat/completions", b'{"model":"nobody","messages":[{"role":"user","content":""}]}'
        )
        nowhere = await client.get("/nowhere")

        assert (long.status, long.error) == (400, "context_overflow")
        assert sorted(r.error or "" for r in crowd) == ["", "", "", "http_503", "http_503", "http_503"]
        assert (nonsense.status, nobody.status, nowhere.status) == (400, 404, 404)

    served(use, slots=2, queue_limit=1, context_tokens=1024)


@contextmanager
def spoken_to(port: int) -> Iterator[socket.socket]:
    """A bare connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        yield connection


def said_to(port: int, data: bytes) -> bytes:
    """What comes back for these bytes until the server closes."""
    found = b""
    with spoken_to(port) as connection, suppress(ConnectionError):
        connection.sendall(data)
        while piece := connection.recv(65536):
            found += piece
    return found


def posted(body: bytes, head: bytes = b"") -> bytes:
    """A request for a chat completion."""
    start = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    return start + head + b"content-length: %d\r\n\r\n" % len(body) + body


HOSTILE = [
    (b"\x16\x03\x01\x00\xa1 not HTTP\r\n\r\n", b"400"),
    (b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n", b"501"),
    (b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", b"501"),
    (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", b"431"),
    (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 50_000 + b"\r\n", b"431"),
    (posted(b"x" * 17_000_000), b"413"),
    (posted(b"null"), b"400"),
    (posted(b'{"messages":' + b"[" * 50_000 + b"]" * 50_000 + b"}"), b"400"),
    (posted(b'{"messages":[{"content":"x"}]}'), b"400"),
    (posted(b'{"messages":[{"role":"user","content":"x"}],"max_tokens":0}'), b"400"),
    (posted(b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1' + b"0" * 30 + b"}"), b"400"),
    (posted(b'{"messages":[{"role":"user","content":[{"text":null},7]}],"max_tokens":2}'), b"200"),
    (posted(b'{"messages":[{"role":"user","content":"x"}],"max_tokens":2}', b"expect: 100-continue\r\n"), b"100"),
    (b"HEAD /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", b"200"),
]


def test_hostile_requests_are_refused_and_others_served() -> None:
    """Each with its status, none with a traceback, and the next request is answered."""

    async def main() -> None:
        broken: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: broken.append(context))
        async with MockServer(Options(**QUICK)) as server:
            port = int(server.url.rpartition(":")[2])
            for data, status in HOSTILE:
                said = await asyncio.to_thread(said_to, port, data)
                # A refusal may be lost where the client still sends when the connection is closed.
                assert said.split()[1:2] == [status] or (not said and status in (b"413", b"431")), (data[:60], said)
        assert broken == []

    asyncio.run(main())


def test_pipelined_requests_are_answered_in_order() -> None:
    """Streams and whole answers, one after the other, and no answer is mixed into another."""
    stream = b'{"messages":[{"role":"user","content":"x"}],"max_tokens":3,"stream":true}'
    request = posted(stream).replace(b"connection: close\r\n", b"")

    async def main() -> bytes:
        async with MockServer(Options(**QUICK)) as server:
            last = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            port = int(server.url.rpartition(":")[2])
            return await asyncio.to_thread(said_to, port, request * 10 + last)

    said = asyncio.run(main())
    assert said.count(b"[DONE]") == 10
    assert said.count(b"HTTP/1.1 200 OK") == 11
    assert said.rindex(b"[DONE]") < said.rindex(b"HTTP/1.1 200 OK")


def test_who_reads_nothing_holds_up_nobody() -> None:
    """Ten clients that never read their long answers: another is served, and when they go the server is empty."""
    body = b'{"messages":[{"role":"user","content":"x"}],"max_tokens":3000,"stream":true}'

    async def use(server: MockServer, engine: Any) -> None:
        port = int(server.url.rpartition(":")[2])
        with ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(spoken_to(port)).sendall(posted(body))
            await asyncio.sleep(0.3)
            assert (await ask(engine)).error is None
        for _ in range(500):
            await asyncio.sleep(0.01)
            if not server.core.running and not server.core.waiting:
                break
        assert not server.core.running

    served(use)


def test_llamacpp_takes_adapters_by_number() -> None:
    """As its clients ask: with the scale of every adapter, and without its cache."""

    async def use(server: MockServer, engine: Any) -> None:
        facts = await engine.facts()
        reply = await ask(engine, model="tax", adapter="tax")
        plain = await ask(engine)

        assert facts.adapters == ("law", "tax")
        assert (reply.error, plain.error) == (None, None)
        assert server.core.adapters.loads_total == 1

    served(use, "llamacpp", adapters=("law", "tax"))


def test_a_key_guards_it() -> None:
    """Everything under /v1 needs the key, the metrics do not."""

    async def main() -> None:
        async with MockServer(Options(**QUICK), api_key="secret") as server:
            codes = []
            for target in (Target(url=server.url), Target(url=server.url, api_key="secret")):
                client = Client(target)
                codes += [(await client.get("/v1/models")).status, (await client.get("/metrics")).status]
                await client.close()
            assert codes == [401, 200, 200, 200]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("http_500", "http_500"),
        ("server_error", "server_error"),
        ("truncated", "truncated"),
        ("disconnect", "disconnect"),
    ],
)
def test_faults_on_demand(kind: str, error: str) -> None:
    """Each kind of failure is seen as what it is by a client."""

    async def use(server: MockServer, engine: Any) -> None:
        reply = await ask(engine)

        assert reply.error == error
        assert bool(reply.chunk_at_s) == (kind in ("server_error", "truncated"))

    served(use, error_share=1.0, error_kind=kind)


def test_buffering_stalls_and_merged_chunks() -> None:
    """Everything at once at the end; one long pause; several tokens an event."""

    async def buffered(server: MockServer, engine: Any) -> None:
        reply = await ask(engine)
        assert reply.output_tokens == 30
        assert reply.coalesced
        assert reply.sent_at_s is not None
        assert reply.chunk_at_s[0] - reply.sent_at_s > 0.1

    async def stalled(server: MockServer, engine: Any) -> None:
        reply = await ask(engine)
        assert reply.error is None
        assert max(b - a for a, b in itertools.pairwise(reply.chunk_at_s)) > 0.4
        assert len("".join(reply.text).split()) == 30

    async def merged(server: MockServer, engine: Any) -> None:
        reply = await ask(engine)
        assert reply.output_tokens == 30
        assert len(reply.chunk_at_s) <= 11
        assert len("".join(reply.text).split()) == 30

    served(buffered, buffered=True)
    served(stalled, stall_share=1.0, stall_s=0.5)
    served(merged, tokens_per_chunk=4)


def test_a_proxy_in_front_hides_the_queue() -> None:
    """With a limit of one the second waits, and the server's gauges never show it."""

    async def use(server: MockServer, engine: Any) -> None:
        tasks = [asyncio.create_task(ask(engine, f"{n}")) for n in range(3)]
        await asyncio.sleep(0.06)
        gauges = await engine.gauges()
        replies = await asyncio.gather(*tasks)

        assert gauges["server_running_requests"] + gauges["server_waiting_requests"] <= 1
        assert [r.error for r in replies] == [None] * 3

    served(use, proxy_limit=1)


def test_a_model_is_loaded_first_and_again_after_a_while() -> None:
    """The first request waits for it, the next does not, one after a long silence does; who hangs up is forgotten."""

    async def waited_s(engine: Any) -> float:
        reply = await ask(engine, tokens=2)
        assert reply.error is None
        assert reply.sent_at_s is not None
        return float(reply.chunk_at_s[0] - reply.sent_at_s)

    async def use(server: MockServer, engine: Any) -> None:
        assert await waited_s(engine) > 0.55
        await waited_s(engine)
        assert server.core.finished_total == 2
        await asyncio.sleep(1.2)
        assert await waited_s(engine) > 0.55
        await asyncio.sleep(1.2)
        impatient = asyncio.create_task(ask(engine, tokens=2))
        await asyncio.sleep(0.1)
        impatient.cancel()
        with suppress(asyncio.CancelledError):
            await impatient
        assert (await ask(engine, tokens=2)).error is None
        assert server.core.finished_total == 4

    served(use, load_s=0.6, unload_after_s=1.0, proxy_limit=1)


def test_a_client_that_hangs_up_frees_the_server() -> None:
    """Cancelled in mid-answer: the slot is free at once."""

    async def use(server: MockServer, engine: Any) -> None:
        task = asyncio.create_task(ask(engine, tokens=5000))
        await asyncio.sleep(0.1)
        assert len(server.core.running) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(200):
            await asyncio.sleep(0.01)
            if not server.core.running:
                break
        assert not server.core.running

    served(use)


def test_over_http_it_is_as_fast_as_under_the_virtual_clock() -> None:
    """The same questions at the same times end at nearly the same times, HTTP and all."""
    questions = [(0.05 * n, f"question {n}", 10 + 3 * n) for n in range(12)]
    options = {**QUICK, "slots": 4}

    async def ends(engine: Any) -> list[float]:
        now = clock()
        began_s = now()

        async def later(at_s: float, text: str, tokens: int) -> float:
            await asyncio.sleep(began_s + at_s - now())
            await ask(engine, text, tokens)
            return now() - began_s

        return await asyncio.gather(*(later(*question) for question in questions))

    measured: list[float] = []

    async def use(server: MockServer, engine: Any) -> None:
        measured.extend(await ends(engine))

    async def virtual() -> list[float]:
        return await ends(Simulated(round_trip_s=0.0, **options))

    served(use, **options)

    late_s = [there - here for there, here in zip(measured, run(virtual()), strict=True)]
    assert min(late_s) > -0.02
    assert max(late_s) < 1.0
