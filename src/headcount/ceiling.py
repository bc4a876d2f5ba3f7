"""``headcount check --client``: how much load this machine can carry before its own figures are not to be believed.

Ten seconds of the real load processes against the built-in server on loopback, whose times are known. Knows nothing
of model servers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import numpy as np

from headcount.codec import decode_request
from headcount.errors import ServerError
from headcount.http import Target
from headcount.load.fleet import ProcessFleet, most_connections
from headcount.load.orders import Setup
from headcount.loopback import FIRST_TOKEN_S, TOKEN_S
from headcount.records import Level, Request, Sample
from headcount.report.format import percent, seconds
from headcount.virtual import clock

__all__ = ["Step", "check_client", "measure_ceiling", "next_people"]

BUDGET_S = 10.0
"""All steps together."""
STEP_S = 1.0
"""How long one step is watched, once everybody has started."""
SPREAD_S = 0.5
HEAD_START_S = 0.15
TOKENS = 32
"""Of one answer: three quarters of a second, so that even the shortest step sees whole answers."""
FIRST_PEOPLE = 128
MOST_PEOPLE = 16384
SAMPLE_INTERVAL_S = 0.25

LAG_BOUND_S = 0.020
CPU_BOUND_FRACTION = 0.90
DISTORTION_BOUND_S = 0.010
"""A tenth of the server's own time to the first token."""


class Step(msgspec.Struct, frozen=True):
    """One number of people who all wait for an answer all the time, held for a second."""

    people: int
    tokens_per_s: float
    lag_s: float
    """The worst 99th percentile of the load process's loop lag within a quarter of a second."""
    cpu_fraction: float
    """Of one core, by the busiest load process."""
    distortion_s: float | None
    """p95 of our TTFT less the server's own; None when no answer came."""
    server_late_s: float | None
    """p95 of how late the built-in server itself was; beyond it nothing can be told of the client."""

    @property
    def fault(self) -> str:
        """Why its figures could not be trusted; empty when they could."""
        if self.distortion_s is None:
            return "no answer came in time"
        if self.lag_s > LAG_BOUND_S:
            return f"the loop was {seconds(self.lag_s)} late"
        if self.cpu_fraction > CPU_BOUND_FRACTION:
            return f"a load process took {percent(self.cpu_fraction)} of its core"
        if self.distortion_s > DISTORTION_BOUND_S:
            return f"waits came out {seconds(self.distortion_s)} too long"
        return ""

    @property
    def server_bound(self) -> bool:
        """Whether it was the built-in server that could not go on."""
        return self.server_late_s is not None and self.server_late_s > DISTORTION_BOUND_S


def next_people(steps: list[Step], most: int) -> int | None:
    """How many to try next: up until a step fails, then between; None when that is fine enough."""
    good = max((step.people for step in steps if not step.fault and not step.server_bound), default=0)
    bad = min((step.people for step in steps if step.people > good), default=None)
    if not steps:
        return min(FIRST_PEOPLE, most)
    if bad is None:
        easy = steps[-1].cpu_fraction < CPU_BOUND_FRACTION / 4
        return None if good >= most else min(most, good * (4 if easy else 2))
    return (good + bad) // 2 if bad - good > max(8, bad // 8) else None


async def measure_ceiling(processes: int = 1, budget_s: float = BUDGET_S) -> list[Step]:
    """Hold step after step while the time lasts. Raises ``ServerError`` when nothing can be started."""
    now = clock()
    steps: list[Step] = []
    async with _server() as url:
        stage = _Stage(url, processes)
        try:
            await stage.fleet.open()
            until_s = now() + budget_s
            most = min(MOST_PEOPLE, most_connections(processes))
            while now() < until_s - STEP_S and (people := next_people(steps, most)) is not None:
                steps.append(await stage.hold(people))
        finally:
            await stage.fleet.close()
    return steps


def check_client(processes: int) -> int:
    """Measure, print one page; 0 when there is a number of people that this machine can be trusted with."""
    steps = asyncio.run(measure_ceiling(processes))
    print("\n".join(_page(steps, processes)))
    return 0 if any(not step.fault and not step.server_bound for step in steps) else 5


class _Stage:
    """Load processes before the built-in server."""

    def __init__(self, url: str, processes: int) -> None:
        self._now = clock()
        self._origin_s = self._now()
        self._requests: list[Request] = []
        self._samples: list[Sample] = []
        self._index = 0
        setup = Setup(
            origin_s=self._origin_s,
            seed=1,
            workload={"kind": "chat", "turns": 1, "think_s": 0.0, "prompt_tokens": 40, "output_tokens": TOKENS},
            engine="openai",
            target=Target(url=url),
            model="loopback",
            sample_interval_s=SAMPLE_INTERVAL_S,
        )
        self.fleet = ProcessFleet(setup, processes, self._take_lines, self._samples_taken)

    def _take_lines(self, process: int, lines: bytes) -> None:
        self._requests.extend(map(decode_request, lines.splitlines()))

    def _samples_taken(self, samples: list[Sample]) -> None:
        self._samples.extend(samples)

    async def hold(self, people: int) -> Step:
        """One step."""
        self._requests.clear()
        self._samples.clear()
        level = Level(self._index, people, 0.0, spread_s=SPREAD_S, processes=self.fleet.processes)
        self._index += 1
        await self.fleet.prepare(level)
        began_at_s = self._now() - self._origin_s + HEAD_START_S
        await self.fleet.begin(began_at_s)
        from_s = began_at_s + SPREAD_S + FIRST_TOKEN_S
        await asyncio.sleep(from_s + STEP_S - (self._now() - self._origin_s))
        await self.fleet.stop()
        if self.fleet.lost:
            raise ServerError(
                f"this machine's client could not be checked: {self.fleet.lost}", "try again when it is idle"
            )
        return self._judge(people, from_s, from_s + STEP_S)

    def _judge(self, people: int, from_s: float, until_s: float) -> Step:
        """What was seen between two instants."""
        inside = [sample for sample in self._samples if from_s <= sample.at_s <= until_s]
        lags_s = [sample.value for sample in inside if sample.name == "client_loop_lag_s"]
        busy: dict[str, list[float]] = {}
        for sample in inside:
            if sample.name == "client_cpu_fraction":
                busy.setdefault(sample.of, []).append(sample.value)
        answered = [r for r in self._requests if r.error is None and r.server and r.ended_at_s >= from_s]
        theirs_s = np.array([(request.server or {}).get("ttft_s", 0.0) for request in answered])
        ours_s = np.array([request.chunk_at_s[0] - request.scheduled_at_s for request in answered])
        tokens = sum(from_s <= at_s <= until_s for request in self._requests for at_s in request.chunk_at_s)
        return Step(
            people=people,
            tokens_per_s=tokens / (until_s - from_s),
            lag_s=max(lags_s, default=until_s - from_s),
            cpu_fraction=max((float(np.mean(shares)) for shares in busy.values()), default=1.0),
            distortion_s=float(np.quantile(ours_s - theirs_s, 0.95)) if answered else None,
            server_late_s=float(np.quantile(theirs_s, 0.95)) - FIRST_TOKEN_S if answered else None,
        )


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    """The built-in server in a process of its own; gives its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headcount.loopback"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is ours to handle
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = (await process.stdout.readline()).decode().strip()
        if not port:
            raise ServerError("the built-in server did not start", "does this machine allow to listen on 127.0.0.1?")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        await process.wait()


def _page(steps: list[Step], processes: int) -> list[str]:
    """What the steps mean."""
    schedule = f"{seconds(FIRST_TOKEN_S)} to the first token, then one every {seconds(TOKEN_S)}"
    lines = [f"this machine against its own built-in server: {schedule}; load processes: {processes}"]
    lines += map(_line, sorted(steps, key=lambda step: step.people))
    good = [step for step in steps if not step.fault and not step.server_bound]
    best = max(good, key=lambda step: step.people, default=None)
    if best is None:
        return [*lines, "its figures cannot be trusted at any load: is something else busy here?"]
    ended_by_server = any(step.server_bound and not step.fault for step in steps)
    at_least = "at least " if ended_by_server or len(good) == len(steps) else ""
    believed = f"{at_least}{best.people:,} answers at once, {best.tokens_per_s:,.0f} tokens/s"
    return [*lines, f"figures can be trusted up to {believed}; people who pause between answers make less of both"]


def _line(step: Step) -> str:
    """One step."""
    what = step.fault or ("the built-in server could not keep up" if step.server_bound else "good")
    return (
        f"  {step.people:>6,} answers at once  {step.tokens_per_s:>8,.0f} tokens/s  "
        f"loop lag {seconds(step.lag_s):>7}  CPU {percent(step.cpu_fraction):>5}  {what}"
    )
