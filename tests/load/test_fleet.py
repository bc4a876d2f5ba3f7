"""Real load processes against a real server on loopback: shared work, lost processes, and limits of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headcount.codec import decode_request
from headcount.errors import ScenarioError, ServerError
from headcount.http import Target
from headcount.load import fleet as fleets
from headcount.load.fleet import ProcessFleet
from headcount.load.orders import Setup
from headcount.records import Level, Request, Sample
from tests.playback import DONE, FINISH, USAGE, Playback, Script, stream, token

ANSWER = stream((0.02, token("H")), (0.04, token("i")), (0.06, FINISH + USAGE + DONE))
ENDLESS = Script(ANSWER.writes[:3], end="hang")
"""Two tokens, then silence until the client goes."""
TIMES = {
    field
    for field in Request.__struct_fields__
    if field.endswith("_at_s") or field in ("connect_s", "coalesced", "resends")
}


class Held:
    """What came of one level."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.samples: list[Sample] = []
        self.processes: set[int] = set()

    def lines(self, process: int, lines: bytes) -> None:
        """As a session takes them."""
        self.processes.add(process)
        self.requests += map(decode_request, lines.splitlines())

    def apart_from_time(self) -> list[str]:
        """Every fact that is no instant, in an order of its own."""
        facts = (msgspec.to_builtins(request) for request in self.requests)
        return sorted(json.dumps({k: v for k, v in fact.items() if k not in TIMES}, sort_keys=True) for fact in facts)


def setup(url: str, **fields: Any) -> Setup:
    """A load process for the server at ``url``."""
    plain: dict[str, Any] = {
        "seed": 5,
        "workload": {"kind": "short", "think_s": 0.01},
        "engine": "openai",
        "model": "m",
    }
    return Setup(origin_s=time.monotonic(), target=Target(url=url), **(plain | fields))


async def begin(fleet: ProcessFleet, users: int, **fields: Any) -> None:
    """A level that begins now."""
    await fleet.prepare(Level(index=0, users=users, began_at_s=0.0, processes=fleet.processes, **fields))
    await fleet.begin(0.0)


def run(main: Awaitable[None]) -> None:
    """To its end, or not at all."""

    async def within() -> None:
        await asyncio.wait_for(main, 60)

    asyncio.run(within())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for it; the test's own time is the limit."""
    while not holds():
        await asyncio.sleep(0.02)


def with_fleet(
    do: Callable[[ProcessFleet, Held, Playback], Awaitable[None]],
    script: Script = ANSWER,
    processes: int = 1,
    **fields: Any,
) -> tuple[Held, Playback]:
    """Processes and a server, opened and closed around ``do``."""
    held, server = Held(), Playback(script)

    async def main() -> None:
        async with server:
            fleet = ProcessFleet(setup(server.url, **fields), processes, held.lines, held.samples.extend)
            try:
                await fleet.open()
                await do(fleet, held, server)
            finally:
                await fleet.close()

    run(main())
    return held, server


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_finite_test_is_the_same_however_it_is_shared(processes: int) -> None:
    """The same seed sends the same bytes and gives the same facts apart from timing, on any number of processes."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        await begin(fleet, 5, conversations_each=2)
        await fleet.finished()
        await fleet.stop()

    one, one_server = with_fleet(do)
    held, server = with_fleet(do, processes=processes)

    assert held.processes == set(range(processes))
    assert sorted(seen.body for seen in server.seen) == sorted(seen.body for seen in one_server.seen)
    assert held.apart_from_time() == one.apart_from_time()
    assert {request.error for request in held.requests} == {None}


def test_facts_longer_than_a_read_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the pipe cuts them."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        await begin(fleet, 3, conversations_each=2)
        await fleet.finished()
        await fleet.stop()

    usual, _ = with_fleet(do)
    monkeypatch.setattr(fleets, "READ_BYTES", 50)
    held, _ = with_fleet(do)

    assert held.apart_from_time() == usual.apart_from_time()
    assert len(held.requests) >= 6


def test_every_request_ends_once_also_when_it_is_cut() -> None:
    """The server saw as many requests as were recorded, and what was under way at the stop says so (A58)."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        await begin(fleet, 20)
        await until(lambda: len(server.seen) == 20)
        await asyncio.sleep(0.1)
        await fleet.stop()

    held, server = with_fleet(do, ENDLESS)

    assert len(held.requests) == len(server.seen) == 20
    assert {request.error for request in held.requests} == {"cut"}
    assert {len(request.chunk_at_s) for request in held.requests} == {2}


def test_connections_stand_before_the_clock_starts() -> None:
    """Three hundred people at once find three hundred connections: none is opened inside their first request (A37)."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        await fleet.prepare(Level(index=0, users=300, began_at_s=0.0, processes=2, conversations_each=1))
        assert server.open_now == 300
        await fleet.begin(0.0)
        await fleet.finished()
        await fleet.stop()

    held, server = with_fleet(do, stream((1.5, token("H")), (1.5, FINISH + USAGE + DONE)), processes=2)

    assert server.connections == 300
    assert server.in_flight_peak == 300
    assert {request.connect_s for request in held.requests} == {0.0}


def test_the_load_processes_watch_themselves() -> None:
    """Each tells its lag, its share of a core, its descriptors and its requests in flight, under its own name."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        await begin(fleet, 4)
        names = {"client_loop_lag_s", "client_loop_lag_max_s", "client_cpu_fraction", "client_in_flight_requests"}
        names |= {"client_open_connections", "client_failed_connections_total", "client_resends_total"}
        wanted = {(name, f"process-{number}") for name in names for number in (0, 1)}
        await until(lambda: wanted <= {(sample.name, sample.of) for sample in held.samples})
        await fleet.stop()

    with_fleet(do, processes=2, sample_interval_s=0.2)


def test_a_killed_process_is_a_lost_level() -> None:
    """The load is not what was asked for any more: the fleet says so at once and does not wait for the dead."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        await begin(fleet, 6)
        await until(lambda: len(server.seen) == 6)
        os.kill(fleet.pids[1], signal.SIGKILL)
        await asyncio.wait_for(fleet.finished(), 5)
        assert fleet.lost == "load process 1 ended by itself (status -9)"
        await asyncio.wait_for(fleet.stop(), 5)

    held, _ = with_fleet(do, ENDLESS, processes=2)

    assert [(request.person, request.error) for request in held.requests] == [(0, "cut"), (2, "cut"), (4, "cut")]


def test_a_load_process_can_be_added() -> None:
    """Between two levels one more starts; the next level's people are shared anew."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        await begin(fleet, 2, conversations_each=1)
        await fleet.finished()
        await fleet.stop()
        assert held.processes == {0}
        assert await fleet.grow()
        assert fleet.processes == 2
        await begin(fleet, 2, conversations_each=1)
        await fleet.finished()
        await fleet.stop()
        assert held.processes == {0, 1}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleets, "_cores", lambda: 2)
        with_fleet(do)


def test_there_are_no_more_processes_than_cores() -> None:
    """More would only stand in each other's way."""

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        assert not await fleet.grow()
        assert fleet.processes == 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleets, "_cores", lambda: 1)
        with_fleet(do)


def test_too_many_connections_are_refused_with_the_number_needed() -> None:
    """Before a level, not in its middle."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    async def do(fleet: ProcessFleet, held: Held, server: Playback) -> None:
        with pytest.raises(ScenarioError, match=f"{hard + 1:,} people need {hard + 65:,} open files in each"):
            await begin(fleet, hard + 1)

    with_fleet(do)


def test_a_set_up_that_cannot_work_is_said() -> None:
    """A load process that cannot make its engine says why, and the session hears it."""

    async def main() -> None:
        fleet = ProcessFleet(
            setup("http://127.0.0.1:9", options={"api": "morse"}), 1, Held().lines, Held().samples.extend
        )
        try:
            with pytest.raises(ServerError, match="api 'morse' is not known"):
                await fleet.open()
        finally:
            await fleet.close()

    run(main())


SOFT_LIMIT = """
    import asyncio, resource, sys, time
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
    from headcount.load.fleet import ProcessFleet
    from tests.load.test_fleet import Held, begin, setup

    async def main():
        held = Held()
        fleet = ProcessFleet(setup(sys.argv[1]), 1, held.lines, held.samples.extend)
        await fleet.open()
        await begin(fleet, 150, conversations_each=1)
        await fleet.finished()
        await fleet.close()
        print(len({request.person for request in held.requests}), {request.error for request in held.requests})

    asyncio.run(main())
"""


def test_the_soft_limit_of_open_files_is_raised() -> None:
    """A shell's small limit does not stand in the way while the hard one allows more (A39)."""

    async def main() -> None:
        async with Playback(ANSWER) as server:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", textwrap.dedent(SOFT_LIMIT), server.url),
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[2],
            )
            said, _ = await process.communicate()
            assert said.decode().strip() == "150 {None}"

    run(main())


ORPHAN = """
    import asyncio, sys
    from headcount.load.fleet import ProcessFleet
    from tests.load.test_fleet import Held, begin, setup

    async def main():
        held = Held()
        fleet = ProcessFleet(setup(sys.argv[1]), 2, held.lines, held.samples.extend)
        await fleet.open()
        await begin(fleet, 4)
        print(*fleet.pids, flush=True)
        await asyncio.sleep(60)

    asyncio.run(main())
"""


def test_no_load_process_outlives_its_session() -> None:
    """Whose session was killed without a word ends by itself, in mid-level too."""

    async def main() -> None:
        async with Playback(ENDLESS) as server:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", textwrap.dedent(ORPHAN), server.url),
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[2],
            )
            assert process.stdout is not None
            pids = [int(pid) for pid in (await process.stdout.readline()).split()]
            await until(lambda: len(server.seen) == 4)
            process.kill()
            await process.wait()
            await until(lambda: not any(map(_runs, pids)))
            await until(lambda: server.open_now == 0)

    run(main())


def _runs(pid: int) -> bool:
    """Whether a process runs; one that is only waited for by nobody does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
