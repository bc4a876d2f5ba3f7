"""How punctual the mock server is: many streams at once, each token against the schedule.

    python benchmarks/mock_streams.py [--streams 1000] [--rate 20] [--seconds 10]

The server runs on one core, a bare client on another. All streams write in lockstep, which is the hardest case:
every token of a step is due at the same instant. Lateness is counted from the schedule, known from the earliest
arrivals, to the client's read.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import time
from multiprocessing.connection import Connection as Pipe

import uvloop

from headcount.engine.simulation import Options
from headcount.mock import MockServer


def serve(options: Options, pipe: Pipe, core: int) -> None:
    """The server's process, until it is told to stop; sends its address, then its processor seconds."""
    _pin(core)

    async def main() -> None:
        async with MockServer(options) as server:
            told = asyncio.Event()
            asyncio.get_running_loop().add_reader(pipe.fileno(), told.set)
            pipe.send(server.url)
            await told.wait()
            pipe.send(time.process_time())

    uvloop.run(main())


class Reader(asyncio.Protocol):
    """Notes when data comes and how many events it holds."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.reads: list[tuple[float, int]] = []
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        transport.write(head % len(self.body) + self.body)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Note the time first, look at the data afterwards."""
        self.reads.append((time.monotonic(), data.count(b'"content":" ')))
        if data.endswith(b"0\r\n\r\n") and not self.done.done():
            self.done.set_result(None)


async def read_all(url: str, streams: int, tokens: int) -> list[float]:
    """All streams at once; the arrival of each token."""
    host, port = url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    body = b'{"messages":[{"role":"user","content":"go"}],"stream":true,"max_tokens":%d}' % tokens
    readers = []
    for _ in range(streams):
        _, reader = await loop.create_connection(lambda: Reader(body), host, int(port))
        readers.append(reader)
    await asyncio.gather(*(reader.done for reader in readers))
    steady = [read for reader in readers for read in reader.reads[len(reader.reads) // 4 : -2]]
    return [at_s for at_s, events in steady for _ in range(events)]


def main() -> None:
    """Print percentiles of the lateness and what the server used of its core."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args()
    step_s = 1.0 / asked.rate
    options = Options(
        slots=asked.streams, kv_pool_tokens=10_000_000, max_batched_tokens=100_000, jitter=0.0, overhead_s=step_s,
        weights_s=0.0, token_s=0.0, sequence_s=0.0, context_token_s=0.0, pair_s=0.0, context_tokens=1_000_000,
    )  # fmt: skip
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(options, theirs, 1))
    server.start()
    try:
        url = ours.recv()
        _pin(0)
        arrivals = uvloop.run(read_all(url, asked.streams, int(asked.seconds * asked.rate)))
        ours.send("stop")
        used_s = ours.recv()
    finally:
        server.join(10)
        server.kill()
    report(arrivals, step_s, used_s, asked.seconds)


def report(arrivals: list[float], step_s: float, used_s: float, seconds: float) -> None:
    """The schedule is a grid of ``step_s``; its phase is that of the most punctual per mille."""
    phases = sorted(at_s % step_s for at_s in arrivals)
    gaps = [(b - a, a, b) for a, b in zip(phases, [*phases[1:], phases[0] + step_s], strict=True)]
    origin_s = max(gaps)[2]
    late = sorted((phase - origin_s) % step_s for phase in phases)
    shares = {share: late[int(share * (len(late) - 1))] * 1e3 for share in (0.5, 0.9, 0.99, 0.999)}
    print(f"{len(arrivals)} tokens; late by " + ", ".join(f"p{100 * q:g} {ms:.1f} ms" for q, ms in shares.items()))
    print(f"server: {used_s:.1f} s of processor for {seconds:g} s of streams")


def _pin(core: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {core})


if __name__ == "__main__":
    main()
