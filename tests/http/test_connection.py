"""Connections: many at once, used again, lost and replaced; every end of an exchange is told for what it was."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from headcount.http import Client, Exchange, Target, connection, descriptors_needed
from headcount.http import client as client_module
from headcount.virtual import clock
from tests.playback import CHUNKED, DONE, FINISH, GOOD, USAGE, Playback, Script, chunk, head, stream, token, whole
from tests.served import served

Run = Callable[[Any], Any]
OK = Script([(0, whole(b"hello", "text/plain"))])


class Kept(Exchange):
    """Keeps the body's pieces and their times; output is any body, and ``[DONE]`` says that all is said."""

    __slots__ = ("pieces",)

    def __init__(self, whole: bool = False) -> None:
        super().__init__(whole)
        self.pieces: list[tuple[bytes, float | None]] = []

    def on_body(self, data: bytes) -> None:
        self.pieces.append((data, self.read_at_s))
        self.has_output = self.has_output or not data.startswith(b":")
        self.over = self.over or b"[DONE]" in data


async def ask(client: Client, body: bytes = b"{}", whole: bool = False) -> Kept:
    """One exchange, whatever comes of it."""
    exchange = Kept(whole)
    await client.send("/v1/chat/completions", body, exchange)
    assert exchange.ended_at_s is not None
    assert exchange.parser is None
    return exchange


async def settled(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails after 10 s."""
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("never came to hold")


# --- times -----------------------------------------------------------------------------------


def test_times_are_in_order(run: Run) -> None:
    """Began, connected, sent, first byte, each read and the end follow each other, and each read has one time."""

    async def main() -> None:
        script = stream((0.05, token("a") + token("b")), (0.1, token("c")), (0.15, DONE))
        async with Playback(script) as server:
            client = Client(Target(url=server.url))
            for pooled in (False, True):
                x = await ask(client)
                assert x.failure is None
                assert x.began_at_s is not None
                assert x.connected_at_s is not None
                assert x.sent_at_s is not None
                assert x.first_byte_at_s is not None
                assert x.ended_at_s is not None
                wrote = server.seen[-1].wrote_at_s
                assert (x.connected_at_s == x.began_at_s) == pooled
                assert x.began_at_s <= x.connected_at_s < x.sent_at_s <= server.seen[-1].at_s
                assert wrote[0] <= x.first_byte_at_s <= wrote[1]
                assert [at_s for _, at_s in x.pieces] == sorted(at_s for _, at_s in x.pieces if at_s)
                assert all(w <= at_s for (_, at_s), w in zip(x.pieces, wrote[1:], strict=True) if at_s)
                assert x.ended_at_s == x.pieces[-1][1]
            await client.close()

    run(main())


def test_a_big_request_is_sent_when_the_kernel_has_all_of_it(run: Run) -> None:
    """A server that reads late takes the end of a large request late, and ``sent_at_s`` says so."""
    read_at_s: list[float] = []
    body = b"x" * 24_000_000

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)
        read_at_s.append(clock()())
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(body))
        writer.write(whole(b"hello", "text/plain"))
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(late, "127.0.0.1", 0, limit=2**16)
        client = Client(Target(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        x = await ask(client, body)
        assert x.status == 200
        assert x.sent_at_s is not None
        assert x.first_byte_at_s is not None
        assert read_at_s[0] <= x.sent_at_s <= x.first_byte_at_s
        await client.close()
        server.close()
        await server.wait_closed()

    run(main())


def test_refused_before_it_was_read(run: Run) -> None:
    """A server that answers before it has read a large request: the answer counts, and what is left of the request
    does not run into the next one."""

    gone: asyncio.Event

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(whole(b"too large", "text/plain", 413))
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        with contextlib.suppress(ConnectionError):
            while await reader.read(2**20):
                pass
        writer.close()
        gone.set()

    async def main() -> None:
        nonlocal gone
        gone = asyncio.Event()
        server = await asyncio.start_server(hasty, "127.0.0.1", 0, limit=2**16)
        client = Client(Target(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        x = await ask(client, b"x" * 24_000_000)
        assert (x.failure, x.status, x.keeps_alive) == (None, 413, True)
        assert not client._idle
        await client.close()
        await gone.wait()
        server.close()
        await server.wait_closed()

    run(main())


def test_small_writes_go_at_once(run: Run) -> None:
    """Every connection has TCP_NODELAY."""

    async def main() -> None:
        async with Playback(OK) as server:
            client = Client(Target(url=server.url))
            await client.open(1)
            (made,) = client._open
            assert made._transport is not None
            end = made._transport.get_extra_info("socket")
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            await client.close()

    run(main())


# --- the pool --------------------------------------------------------------------------------


def test_no_limit_of_its_own(run: Run) -> None:
    """128 people at once are 128 requests in flight at the server (A37): nothing waits for a place."""

    async def main() -> None:
        async with Playback(Script([(0.5, whole(b"hello", "text/plain"))])) as server:
            client = Client(Target(url=server.url))
            began_s = time.monotonic()
            answers = await asyncio.gather(*(ask(client) for _ in range(128)))
            assert time.monotonic() - began_s < 10
            assert all(x.failure is None for x in answers)
            assert server.in_flight_peak == 128
            assert client.counts.open_peak == 128
            await client.close()

    run(main())


def test_opened_ahead(run: Run) -> None:
    """Connections opened ahead are all there, used by later requests, and not opened twice."""

    async def main() -> None:
        async with Playback(OK) as server:
            client = Client(Target(url=server.url))
            assert await client.open(40) == 40
            assert await client.open(40) == 40
            answers = await asyncio.gather(*(ask(client) for _ in range(40)))
            assert all(x.connected_at_s == x.began_at_s for x in answers)
            assert server.connections == 40
            assert (client.counts.opened, client.counts.reused, client.counts.open_now) == (40, 40, 40)
            await client.close()
            assert client.counts.open_now == 0
            await settled(lambda: server.open_now == 0)

    run(main())


def test_opened_ahead_of_nobody(run: Run) -> None:
    """A server that is not there is not asked thousands of times."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def main() -> None:
        client = Client(Target(url=f"http://127.0.0.1:{port}"))
        assert await client.open(1000) == 0
        assert 1 <= client.counts.failed <= client_module.OPEN_AT_ONCE

    run(main())


def test_closed_as_soon_as_accepted(run: Run) -> None:
    """A server that hangs up at once is told as such soon, and leaves no dead connection in the pool."""

    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(rude, "127.0.0.1", 0)
        client = Client(Target(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        await client.open(20)
        await settled(lambda: client.counts.open_now == 0)
        for _ in range(20):
            x = await asyncio.wait_for(ask(client), 10)
            assert x.failure in ("lost", "unreachable")
        assert client.counts.open_now == 0
        await client.close()
        server.close()
        await server.wait_closed()

    run(main())


def test_the_last_one_used_is_used_next(run: Run) -> None:
    """Of several idle connections the warmest is taken, so that the others may be closed in peace."""

    async def main() -> None:
        async with Playback(OK) as server:
            client = Client(Target(url=server.url))
            await client.open(3)
            for _ in range(4):
                await ask(client)
            assert len({seen.connection for seen in server.seen}) == 1
            await client.close()

    run(main())


def test_thinking_longer_than_the_server_waits(run: Run) -> None:
    """A server that closes idle connections costs nobody an answer (A40), nor a resend when it is seen in time."""

    async def main() -> None:
        async with Playback(OK, idle_s=0.02) as server:
            client = Client(Target(url=server.url))
            for _ in range(20):
                assert (await ask(client)).failure is None
                await asyncio.sleep(0.03)
            assert len(server.seen) == 20
            await client.close()

    run(main())


def test_closed_while_idle_and_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection opened ahead that is closed in a pause is replaced once, and not for ever."""
    monkeypatch.setattr(client_module, "BEHIND_S", 0.01)

    async def main() -> None:
        async with Playback(OK, idle_s=0.1) as server:
            client = Client(Target(url=server.url))
            await client.open(2)
            await asyncio.gather(ask(client), ask(client))
            await settled(lambda: server.connections == 4)
            await settled(lambda: client.counts.open_now == 0)
            await asyncio.sleep(0.1)
            assert server.connections == 4
            await client.close()

    run(main())


@pytest.mark.parametrize("end", ["eof", "reset"])
def test_a_dead_pooled_connection_costs_one_resend(run: Run, end: Any) -> None:
    """When a pooled connection dies before any byte came, the request is sent once more, and that is counted."""

    async def main() -> None:
        async with Playback(GOOD, Script([], end), GOOD) as server:
            client = Client(Target(url=server.url))
            await ask(client)
            x = await ask(client)
            assert (x.failure, x.resends, client.counts.resends) == (None, 1, 1)
            assert [seen.connection for seen in server.seen] == [1, 1, 2]
            assert server.seen[1].body == server.seen[2].body
            await client.close()

    run(main())


@pytest.mark.parametrize(
    ("scripts", "requests"),
    [
        ([GOOD, Script([], "eof")], 3),  # the new connection dies as well: no third try
        ([GOOD, Script([(0, b"H")], "eof")], 2),  # a byte had come
        ([GOOD, Script([(0, b"HTTP/1.1 100 Continue\r\n\r\n")], "reset")], 2),
        ([GOOD, Script([(0.3, b"")], "eof")], 2),  # it had worked for a while: that is a crash, not a stale connection
    ],
)
def test_no_other_resends(run: Run, monkeypatch: pytest.MonkeyPatch, scripts: list[Script], requests: int) -> None:
    """Whatever else goes wrong stays wrong, and the request is not repeated."""
    monkeypatch.setattr(connection, "STALE_S", 0.2)

    async def main() -> None:
        async with Playback(*scripts) as server:
            client = Client(Target(url=server.url))
            await ask(client)
            x = await ask(client)
            assert x.failure == "lost"
            assert len(server.seen) == requests
            assert x.resends == requests - 2
            await client.close()

    run(main())


def test_no_resend_on_a_new_connection(run: Run) -> None:
    """The first request on a connection made for it is never repeated."""

    async def main() -> None:
        async with Playback(Script([], "eof"), GOOD) as server:
            client = Client(Target(url=server.url))
            assert (await ask(client)).failure == "lost"
            assert len(server.seen) == 1
            await client.close()

    run(main())


def test_closed_behind_each_answer(run: Run) -> None:
    """A server that says keep-alive and closes all the same is noticed; nothing is lost or sent twice."""

    async def main() -> None:
        said = head("text/event-stream", 200, CHUNKED, "Keep-Alive: timeout=5, max=100")
        async with Playback(Script([(0, said + chunk(token("a") + DONE) + chunk(b""))], "eof")) as server:
            client = Client(Target(url=server.url))
            for _ in range(5):
                x = await ask(client)
                assert (x.failure, x.resends) == (None, 0)
                await settled(lambda: client.closed_behind)
            assert (server.connections, len(server.seen)) == (5, 5)
            client.keep_alive = False
            assert await client.open(10) == 0
            await client.close()

    run(main())


def test_words_nobody_asked_for(run: Run) -> None:
    """A server that speaks on an idle connection loses it; the next request takes another."""

    async def main() -> None:
        late = Script([(0, whole(b"hello", "text/plain")), (0.05, whole(b"x", "text/plain", 408))])
        async with Playback(late, OK) as server:
            client = Client(Target(url=server.url))
            await ask(client)
            await settled(lambda: client.counts.open_now == 0)
            x = await ask(client)
            assert (x.status, x.resends) == (200, 0)
            assert server.connections == 2
            await client.close()

    run(main())


@pytest.mark.parametrize("more", [b"more", b"\0", whole(b"evil", "text/plain", 500)])
def test_more_than_was_asked_for(run: Run, more: bytes) -> None:
    """Bytes behind an answer, even a second answer, spoil the connection and not the answer."""

    async def main() -> None:
        async with Playback(Script([(0, whole(b"hello", "text/plain") + more)])) as server:
            client = Client(Target(url=server.url))
            for _ in range(2):
                x = await ask(client)
                assert (x.failure, x.status, b"".join(data for data, _ in x.pieces)) == (None, 200, b"hello")
            assert server.connections == 2
            await client.close()

    run(main())


# --- time-outs -------------------------------------------------------------------------------

SILENT = Script([], "hang")
PINGS = stream(*((0.02 * i, b": ping\n\n") for i in range(100)))
STUCK = Script([(0, head("text/event-stream", 200, CHUNKED)), (0, chunk(token("a")))], "hang")
PINGED = stream((0, token("a")), *((0.03 * i, b": ping\n\n") for i in range(20)), (0.6, FINISH + DONE))
ENDLESS = stream(*((0.02 * i, token("a")) for i in range(200)))


@pytest.mark.parametrize(
    ("name", "script", "says"),
    [
        ("silent", SILENT, "first-token"),
        ("only comments", PINGS, "first-token"),
        ("stuck", STUCK, "idle"),
        ("endless", ENDLESS, "total"),
    ],
)
def test_time_outs(run: Run, name: str, script: Script, says: str) -> None:
    """Each time-out ends the exchange, not before its time, and names itself; comments meet only the idle one."""

    async def main() -> None:
        async with Playback(script) as server:
            client = Client(Target(url=server.url, first_token_timeout_s=0.3, idle_timeout_s=0.2, total_timeout_s=0.8))
            x = await ask(client)
            assert x.failure == "timeout"
            assert says in x.failure_text
            assert x.ended_at_s is not None
            assert x.began_at_s is not None
            least_s = {"first-token": 0.3, "idle": 0.2, "total": 0.8}[says]
            assert least_s <= x.ended_at_s - x.began_at_s < 5
            assert (len(x.pieces) > 0) == (name != "silent")
            await client.close()

    run(main())


def test_comments_end_a_silence(run: Run) -> None:
    """After the first output a comment keeps an exchange alive."""

    async def main() -> None:
        async with Playback(PINGED) as server:
            client = Client(Target(url=server.url, first_token_timeout_s=0.3, idle_timeout_s=0.25))
            assert (await ask(client)).failure is None
            await client.close()

    run(main())


def test_our_own_hold_up_is_not_the_servers_silence(run: Run) -> None:
    """What came while our own loop stood still is read before a time-out is believed: event loops read, then time."""

    async def main(url: str) -> None:
        client = Client(Target(url=url, first_token_timeout_s=0.3, idle_timeout_s=0.3))
        for held_up_after_s in (0.0, 0.1):
            task = asyncio.create_task(ask(client))
            await asyncio.sleep(held_up_after_s)
            time.sleep(0.8)  # noqa: ASYNC251
            assert (await task).failure is None
        await client.close()

    with served(Playback(stream(*((0.05 * i, token("a")) for i in range(10)), (0.5, DONE)))) as url:
        run(main(url))


def test_whole_answers_have_one_time_out(run: Run) -> None:
    """An answer that is not streamed may be silent for as long as the whole may take."""

    async def main() -> None:
        async with Playback(Script([(0.3, whole(b"hello", "text/plain"))])) as server:
            client = Client(Target(url=server.url, first_token_timeout_s=0.05, idle_timeout_s=0.05))
            assert (await ask(client, whole=True)).failure is None
            assert (await ask(client, whole=False)).failure == "timeout"
            await client.close()

    run(main())


def test_over_but_not_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that has said it is over is good even when its framing never ends; its connection is not."""
    monkeypatch.setattr(connection, "LINGER_S", 0.05)

    async def main() -> None:
        script = Script([(0, head("text/event-stream", 200, CHUNKED)), (0, chunk(token("a") + DONE))], "hang")
        async with Playback(script) as server:
            client = Client(Target(url=server.url))
            for _ in range(2):
                x = await ask(client)
                assert x.failure is None
                assert x.ended_at_s == x.read_at_s
            assert server.connections == 2
            await client.close()

    run(main())


# --- the end ---------------------------------------------------------------------------------


def test_cancelled(run: Run) -> None:
    """A cancelled exchange keeps what was seen, and its connection is closed."""

    async def main() -> None:
        async with Playback(ENDLESS) as server:
            client = Client(Target(url=server.url))
            x = Kept()
            task = asyncio.create_task(client.send("/", b"{}", x))
            await settled(lambda: len(x.pieces) > 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(x.pieces) > 2
            assert x.ended_at_s is not None
            assert x.parser is None
            assert client.counts.open_now == 0
            await settled(lambda: server.open_now == 0)

    run(main())


def test_cancelled_while_connecting(run: Run) -> None:
    """Nothing is left of a connection that was not wanted any more."""

    async def main() -> None:
        async with Playback(SILENT) as server:  # waits for more of TLS's greeting
            client = Client(Target(url=f"https://127.0.0.1:{server.port}"))
            task = asyncio.create_task(ask(client))
            await settled(lambda: server.open_now == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.counts.open_now == 0
            await settled(lambda: server.open_now == 0)

    run(main())


def test_cancelled_when_it_had_just_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancellation that comes together with the answer's end does not spoil the connection for the next one."""

    async def main() -> None:
        async with Playback(GOOD) as server:
            client = Client(Target(url=server.url))
            free = client.on_free

            def free_and_cancel(connection: Any, keeps_alive: bool) -> None:
                free(connection, keeps_alive)
                task.cancel()

            monkeypatch.setattr(client, "on_free", free_and_cancel)
            task = asyncio.create_task(ask(client))
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.undo()
            assert (await ask(client)).failure is None
            assert server.connections == 1
            await client.close()

    run(main())


def test_out_of_descriptors(run: Run) -> None:
    """When our own descriptors run out that is our fault, told as such, and nothing breaks."""

    async def main() -> None:
        async with Playback(OK) as server:
            client = Client(Target(url=server.url))
            await client.open(1)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            used = max(made._fd or 0 for made in client._open)
            hogs = [socket.socket() for _ in range(8)]
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
            try:
                answers = await asyncio.gather(*(ask(client) for _ in range(5)))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for hog in hogs:
                    hog.close()
            kinds = [x.failure for x in answers]
            assert kinds.count("client") >= 3
            assert set(kinds) <= {"client", None}
            assert any("too many open files" in x.failure_text for x in answers)
            assert (await ask(client)).failure is None
            await client.close()

    run(main())


def test_our_own_mistakes_are_ours(run: Run) -> None:
    """An answer that makes our own code fail ends as our fault, with the reason, instead of hanging."""

    class Clumsy(Exchange):
        __slots__ = ()

        def on_body(self, data: bytes) -> None:
            raise KeyError("clumsy")

    async def main() -> None:
        async with Playback(OK) as server:
            client = Client(Target(url=server.url))
            x = Clumsy(whole=True)
            await client.send("/", b"", x)
            assert x.failure == "client"
            assert "clumsy" in x.failure_text
            await client.close()

    run(main())


def test_nothing_is_left_for_the_collector(run: Run) -> None:
    """Exchanges leave no reference cycles: with the collector off while measuring, memory would grow."""

    async def main() -> None:
        async with Playback(GOOD, GOOD, Script([], "eof"), GOOD) as server:
            client = Client(Target(url=server.url))
            await asyncio.gather(*(ask(client) for _ in range(10)))
            gc.collect()
            gc.disable()
            try:
                for _ in range(20):
                    await ask(client)
                found = gc.collect()
            finally:
                gc.enable()
            assert found < 20
            await client.close()

    run(main())


def test_descriptors_needed() -> None:
    """More than one a connection: files and pipes need some too."""
    assert descriptors_needed(1000) > 1000


def test_usage_is_no_end(run: Run) -> None:
    """The helper streams used here end as they should."""

    async def main() -> None:
        async with Playback(stream((0, token("a")), (0, FINISH + USAGE + DONE))) as server:
            client = Client(Target(url=server.url))
            x = await ask(client)
            assert (x.failure, x.complete, x.over, x.keeps_alive) == (None, True, True, True)
            await client.close()

    run(main())
