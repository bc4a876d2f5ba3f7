"""What a load process sees of itself."""

from __future__ import annotations

import asyncio
import time

from headcount import virtual
from headcount.telemetry.client import TICK_S, LoadProcess


def values(process: LoadProcess, at_s: float) -> dict[str, float]:
    """Name → value of one reading."""
    return {sample.name: sample.value for sample in process.read(at_s)}


def test_a_blocked_loop_is_seen() -> None:
    """A pause of the loop is the largest lag, whatever runs in between."""

    async def main() -> dict[str, float]:
        process = LoadProcess("load-1")
        assert process.open() is None
        await asyncio.sleep(3 * TICK_S)
        time.sleep(0.08)  # noqa: ASYNC251  (the blocking is the point)
        await asyncio.sleep(3 * TICK_S)
        found = values(process, 1.0)
        process.close()
        return found

    found = asyncio.run(main())

    assert found["client_loop_lag_max_s"] >= 0.06
    assert 0 <= found["client_loop_lag_p50_s"] <= found["client_loop_lag_s"] <= found["client_loop_lag_max_s"]


def test_a_virtual_loop_has_no_lag() -> None:
    """Under the virtual clock every timer is on time, and each reading counts from the last."""

    async def main() -> tuple[dict[str, float], dict[str, float]]:
        process = LoadProcess()
        process.open()
        await asyncio.sleep(1.0)
        first = values(process, 1.0)
        again = values(process, 1.0)
        process.close()
        return first, again

    first, again = virtual.run(main())

    assert first["client_loop_lag_max_s"] < 1e-9
    assert "client_loop_lag_s" not in again


def test_processor_time_is_the_share_of_one_core() -> None:
    """Busy for the whole time between two readings: more than a small part of a core, not more than there are."""

    async def main() -> float:
        process = LoadProcess()
        process.open()
        values(process, 0.0)
        began_s = time.process_time()
        while time.process_time() - began_s < 0.1:
            pass
        found = values(process, 0.2)
        process.close()
        return found["client_cpu_fraction"]

    assert 0.3 < asyncio.run(main()) < 2


def test_descriptors_are_counted() -> None:
    """At least those of a fresh process, where the system counts them."""

    async def main() -> dict[str, float]:
        process = LoadProcess()
        process.open()
        found = values(process, 0.0)
        process.close()
        return found

    assert asyncio.run(main()).get("client_open_descriptors", 3.0) >= 3
