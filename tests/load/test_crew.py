"""A load process's own share, over the real client: garbage stays out of the measured window, and there is none."""

from __future__ import annotations

import asyncio
import gc
import time

from headcount.codec import decode_request
from headcount.http import Target
from headcount.load.crew import Crew
from headcount.load.orders import Event, Setup
from headcount.records import Level, Request
from tests.playback import DONE, FINISH, USAGE, Playback, stream, token

ANSWER = stream((0.0, token("H")), (0.002, token("i")), (0.002, FINISH + USAGE + DONE))


def test_requests_leave_no_cycles() -> None:
    """With the collector off, nothing that a request needed may wait for it: memory must not grow with requests."""
    requests: list[Request] = []
    events: list[str] = []

    async def garbage_after(answers: int) -> int:
        """Unreachable objects once so many more requests have ended."""
        assert not gc.isenabled()
        until = len(requests) + answers
        while len(requests) < until:
            await asyncio.sleep(0.01)
        return gc.collect()

    async def main() -> None:
        async with Playback(ANSWER) as server:
            setup = Setup(
                origin_s=time.monotonic(),
                seed=1,
                workload={"kind": "short", "think_s": 0.0},
                engine="openai",
                model="m",
                target=Target(url=server.url),
            )
            crew = Crew(
                setup,
                on_lines=lambda line: requests.append(decode_request(line)),
                on_samples=lambda samples: None,
                on_event=lambda event: events.append(event.kind),
            )
            await crew.open()
            await crew.prepare(Level(index=0, users=8, began_at_s=0.0))
            await crew.begin(0.0)
            await garbage_after(100)
            few, many = await garbage_after(100), await garbage_after(400)
            await crew.close()
            assert gc.isenabled()
            assert many <= few + 40, f"{few} unreachable objects after 100 requests, {many} after 400"

    asyncio.run(asyncio.wait_for(main(), 60))
    assert {request.error for request in requests} == {None, "cut"}
    assert events == [Event(kind).kind for kind in ("ready", "prepared", "began", "stopped")]
