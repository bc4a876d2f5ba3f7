"""Sources read on a thread beside the loop."""

from __future__ import annotations

import asyncio
import threading
import time

from headcount.records import Gpu, Sample
from headcount.telemetry.sampler import Sampler, opened, usual_sources
from headcount.virtual import clock


class Counter:
    """A source that counts its readings, and may take long or see nothing."""

    note = "counting"

    def __init__(self, *, takes_s: float = 0.0, blind: bool = False) -> None:
        self.gpus: tuple[Gpu, ...] = () if blind else (Gpu(uuid="GPU-x", name="X"),)
        self.threads: set[str] = set()
        self.closed = False
        self._takes_s = takes_s
        self._blind = blind

    def open(self) -> str | None:
        return "nothing to see" if self._blind else None

    def read(self, at_s: float) -> list[Sample]:
        self.threads.add(threading.current_thread().name)
        time.sleep(self._takes_s)
        return [Sample(at_s, "count", 1.0)]

    def close(self) -> None:
        self.closed = True


def sample_for(source: Counter, time_s: float, interval_s: float = 0.02) -> list[Sample]:
    """What the callback was given on the loop."""

    async def main() -> list[Sample]:
        found: list[Sample] = []
        here = threading.current_thread().name

        def take(samples: list[Sample]) -> None:
            assert threading.current_thread().name == here
            found.extend(samples)

        sampler = Sampler(opened([source]))
        sampler.start(interval_s, clock()(), take)
        await asyncio.sleep(time_s)
        sampler.stop()
        sampler.stop()
        return found

    return asyncio.run(main())


def test_sources_are_read_on_a_thread_and_handed_to_the_loop() -> None:
    """Stamped since the run began, in order; closed at the end."""
    source = Counter()

    found = sample_for(source, 0.5)

    at_s = [sample.at_s for sample in found]
    assert len(found) >= 3
    assert at_s == sorted(at_s)
    assert 0 <= at_s[0] < 0.5
    assert source.threads == {"telemetry"}
    assert source.closed


def test_a_slow_source_does_not_delay_the_loop_and_is_not_caught_up() -> None:
    """Reading takes twenty intervals: few samples, and the loop goes on as if nothing were read."""

    async def main() -> tuple[list[Sample], float]:
        found: list[Sample] = []
        sampler = Sampler(opened([Counter(takes_s=0.4)]))
        now = clock()
        sampler.start(0.02, now(), found.extend)
        worst_s = 0.0
        for _ in range(60):
            asked_at_s = now()
            await asyncio.sleep(0.005)
            worst_s = max(worst_s, now() - asked_at_s - 0.005)
        sampler.stop()
        return found, worst_s

    found, worst_s = asyncio.run(main())

    assert len(found) <= 2
    assert worst_s < 0.35


def test_what_was_tried_is_told() -> None:
    """GPUs of those that see, reasons of those that do not; the blind are not read."""
    blind = Counter(blind=True)

    sampler = Sampler(opened([Counter(), blind]))

    assert sampler.gpus == (Gpu(uuid="GPU-x", name="X"),)
    assert sampler.notes == ("counting", "nothing to see")
    sampler.stop()
    assert not blind.closed


def test_a_loop_closed_without_stopping_ends_the_thread() -> None:
    """An aborted run must not leave a thread that raises."""

    async def main() -> Sampler:
        sampler = Sampler(opened([Counter()]))
        sampler.start(0.01, clock()(), lambda _: None)
        return sampler

    sampler = asyncio.run(main())
    time.sleep(0.05)
    sampler.stop()


def test_which_sources_are_usual() -> None:
    """GPUs here for a server here, an exporter where one is given, and for a server elsewhere a reason."""
    names = [
        [type(source).__name__ for source in sources]
        for sources in (
            usual_sources(),
            usual_sources(None, "http://127.0.0.1:8000"),
            usual_sources("http://node7:9400", "http://node7:8000"),
        )
    ]

    assert names == [["Host", "Nvml"], ["Host", "Nvml"], ["Host", "Prometheus"]]
    elsewhere = opened(usual_sources(None, "http://192.0.2.1:8000"))
    assert elsewhere.notes == ("the server runs on another machine: its GPUs are not watched (give --gpu-metrics URL)",)
