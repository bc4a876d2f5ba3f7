"""Virtual time jumps, keeps order, and notices a deadlock."""

import asyncio
import time

import pytest

from headcount.virtual import clock, run


def test_an_hour_takes_no_time() -> None:
    """Sleeping costs no wall time, and the clock reads what was slept."""

    async def main() -> float:
        now = clock()
        began_s = now()
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        return now() - began_s

    wall_began_s = time.monotonic()

    assert run(main()) == pytest.approx(3600)
    assert time.monotonic() - wall_began_s < 5


def test_timers_fire_in_order() -> None:
    """Tasks wake in the order of their deadlines, whatever the order of their start."""
    seen: list[int] = []

    async def wake(after_s: int) -> None:
        await asyncio.sleep(after_s)
        seen.append(after_s)

    async def main() -> None:
        await asyncio.gather(*(wake(s) for s in (3, 1, 2)))

    run(main())

    assert seen == [1, 2, 3]


def test_a_deadlock_is_an_error() -> None:
    """Waiting for what can never come ends with an error instead of hanging."""

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="virtual clock"):
        run(main())


def test_real_loops_read_the_monotonic_clock() -> None:
    """Outside virtual time the clock is the monotonic one."""

    async def main() -> float:
        return clock()()

    assert asyncio.run(main()) == pytest.approx(time.monotonic(), abs=5)
