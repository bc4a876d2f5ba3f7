"""Many connections: no limit, opened ahead, used again, lost and replaced."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest

from headcount.http import Client, Target, connection
from headcount.http import client as client_module
from tests.http.asked import OK, Run, ask, settled
from tests.playback import CHUNKED, DONE, GOOD, Playback, Script, chunk, head, token, whole


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
