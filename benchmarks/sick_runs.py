"""Is what is wrong noticed? Real servers on loopback, each with one thing wrong, and what headcount makes of it.

    python benchmarks/sick_runs.py [KIND …]        all of them take about five minutes; exit 1 when one is misjudged

``healthy``: a mock server, nothing wrong. ``capped``: a proxy before it lets two requests through at once.
``buffered``: a proxy holds every answer back until it is whole. ``slowing``: the server gets slower all the time.
``errors``: one answer in ten ends with an error inside its stream. ``busy``: the measuring client shares one core with
processes that never sleep.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headcount.analysis.conclusions import LevelSummary, Plan, Verdict
from headcount.measure import measure
from headcount.records import Level
from headcount.scenario import make_scenario

LEVEL_S = 30.0
BURN = """
import contextlib, os
with contextlib.suppress(OSError):  # who may raise the client's priority may raise this one's above it
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
while True:
    pass
"""


class Kind(msgspec.Struct, frozen=True):
    """One thing that is wrong, and what must be said of it."""

    expected: frozenset[str]
    """Codes of cautions, one of which must stand at the level; empty: no fatal one may."""
    users: int = 6
    level_s: float = LEVEL_S
    void: bool = False
    fails: bool = False
    proxy: str = ""
    mock: tuple[str, ...] = ()
    burners: int = 0
    slots: int = 8
    ttft_bound_s: float = 2.0


KINDS = {
    "healthy": Kind(frozenset()),
    "capped": Kind(frozenset({"capped-before-gpu"}), users=12, proxy="cap"),
    "buffered": Kind(frozenset({"buffered-stream"}), users=3, void=True, proxy="buffer"),
    "slowing": Kind(frozenset({"drift"}), users=12, level_s=70.0, mock=("drift_per_hour=150",)),
    "errors": Kind(frozenset({"errors"}), fails=True, mock=("error_share=0.1", "error_kind=server_error")),
    "busy": Kind(
        frozenset({"client-lag", "send-delay", "client-cpu"}),
        users=60,
        void=True,
        burners=8,
        slots=64,
        ttft_bound_s=0.5,
    ),
}


class Silent:
    """Watches and says nothing."""

    def level_began(self, level: Level, plan: Plan) -> None:
        """A level begins."""

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """About once a second."""

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """A level has ended."""


# --- what is wrong ----------------------------------------------------------------------------


@contextlib.contextmanager
def started(*command: str) -> Iterator[str]:
    """A process that prints its address as its first line, until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def on_a_busy_core(burners: int) -> Iterator[None]:
    """This process, and those it starts, share one core with so many others that never sleep."""
    if not burners:
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    spin = [subprocess.Popen([sys.executable, "-c", BURN], start_new_session=True) for _ in range(burners)]
    try:
        yield
    finally:
        for process in spin:
            process.kill()
            process.wait()
        os.sched_setaffinity(0, allowed)


class Proxy:
    """A reverse proxy with a fault: ``cap`` works on two questions at once, ``buffer`` sends whole answers only."""

    def __init__(self, fault: str, upstream: str) -> None:
        host, _, port = upstream.removeprefix("http://").partition(":")
        self.upstream = host, int(port)
        self.fault = fault
        self.places = asyncio.Semaphore(2)

    async def serve(self) -> None:
        """For ever, on a free port that is printed."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=1024)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            held = self.places if self.fault == "cap" and head.startswith(b"POST") else contextlib.nullcontext()
            async with held:
                await self._pass(head, body, writer)
        writer.close()

    async def _pass(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(*self.upstream)
        try:
            fields = [line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith(b"connection:")]
            to_there.write(b"\r\n".join([*fields, b"Connection: close", b"", b""]) + body)
            if self.fault == "buffer":
                writer.write(await there.read())
            else:
                while piece := await there.read(65536):
                    writer.write(piece)
                    await writer.drain()
            await writer.drain()
        finally:
            to_there.close()


# --- what is made of it -----------------------------------------------------------------------


def judged(kind: Kind) -> Verdict:
    """One level on a server with this thing wrong."""
    with contextlib.ExitStack() as stack:
        mock = (
            sys.executable,
            "-m",
            "headcount",
            "mock",
            "--port",
            "0",
            "--engine",
            "vllm",
            "--slots",
            str(kind.slots),
        )
        url = stack.enter_context(started(*mock, "--speed", "2", *kind.mock))
        if kind.proxy:
            url = stack.enter_context(started(sys.executable, __file__, "--proxy", kind.proxy, url))
        stack.enter_context(on_a_busy_core(kind.burners))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scenario = make_scenario(
            {
                "slo": [f"ttft_p95 <= {kind.ttft_bound_s} s", "tpot_p95 <= 0.2 s", "errors <= 1 %"],
                "engine": {"url": url},
                "workload": {"kind": "short", "think_s": 0.5},
                "search": {"levels": [kind.users], "level_time_s": kind.level_s},
            }
        )
        outcome = measure(scenario, verb="run", out=folder, api_key=None, watcher=Silent(), agree=lambda _intent: True)
        assert outcome is not None
        return outcome.verdict


def right(kind: Kind, level: LevelSummary) -> bool:
    """Whether the level was judged as it should be."""
    codes = {caution.code for caution in level.cautions}
    if not kind.expected:
        return level.decision != "void"
    decided = (not kind.void or level.decision == "void") and (not kind.fails or level.decision == "fails")
    return bool(kind.expected & codes) and decided


def main() -> int:
    """All kinds that were named, one line each."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("kind", nargs="*", choices=[*KINDS, []])
    arguments.add_argument("--proxy", nargs=2, metavar=("FAULT", "UPSTREAM"))
    given = arguments.parse_args()
    if given.proxy:
        asyncio.run(Proxy(*given.proxy).serve())
    wrong = 0
    for name in given.kind or KINDS:
        verdict = judged(KINDS[name])
        level = verdict.levels[-1]
        good = right(KINDS[name], level)
        wrong += not good
        lag_s, delay_s = level.loop_lag_p99_s or 0.0, level.send_delay_p99_s or 0.0
        print(
            f"{name:9} {'right' if good else 'WRONG':6} {level.decision:9} {level.n_requests:5} answers, loop "
            f"{lag_s * 1000:.0f} ms late, requests {delay_s * 1000:.0f} ms (p99)",
            flush=True,
        )
        for caution in level.cautions:
            print(f"{'':17}{'fatal ' if caution.fatal else ''}{caution.code}: {caution.sentence}", flush=True)
    print(f"{len(given.kind or KINDS) - wrong} of {len(given.kind or KINDS)} judged rightly")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
