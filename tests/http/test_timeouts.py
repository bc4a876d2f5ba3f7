"""Time-outs: each ends an exchange for its own reason, at its time, and no other one does."""

from __future__ import annotations

import asyncio
import time

import pytest

from headcount.http import Client, Target, connection
from tests.http.asked import ENDLESS, SILENT, Run, ask
from tests.playback import CHUNKED, DONE, FINISH, Playback, Script, chunk, head, stream, token, whole
from tests.served import served

PINGS = stream(*((0.02 * i, b": ping\n\n") for i in range(100)))
STUCK = Script([(0, head("text/event-stream", 200, CHUNKED)), (0, chunk(token("a")))], "hang")
PINGED = stream((0, token("a")), *((0.03 * i, b": ping\n\n") for i in range(20)), (0.6, FINISH + DONE))


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
