"""One exchange on a connection: its times are in order, and every end of it is told for what it was."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import socket
from typing import Any

import pytest

from headcount.http import Client, Exchange, Target, descriptors_needed
from headcount.virtual import clock
from tests.http.asked import ENDLESS, OK, SILENT, Kept, Run, ask, settled
from tests.playback import DONE, FINISH, GOOD, USAGE, Playback, Script, stream, token, whole


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
