"""The host's figures from files like those in ``/proc``."""

from __future__ import annotations

from pathlib import Path

import pytest

from headcount.records import Sample
from headcount.telemetry.host import Host

MEMINFO = """\
MemTotal:        1000 kB
MemFree:          100 kB
MemAvailable:     600 kB
SwapTotal:        500 kB
SwapFree:         450 kB
HugePages_Total:       0
"""


def write(folder: Path, cpu: str, meminfo: str = MEMINFO, vmstat: str = "pgpgin 1\npswpin 3\npswpout 2\n") -> None:
    """Lay the three files down."""
    (folder / "stat").write_text(f"{cpu}\nintr 99 1 2\nctxt 5\n")
    (folder / "meminfo").write_text(meminfo)
    (folder / "vmstat").write_text(vmstat)


def values(samples: list[Sample]) -> dict[str, float]:
    """Name → value."""
    return {sample.name: sample.value for sample in samples}


def test_processor_use_is_the_share_since_the_last_reading(tmp_path: Path) -> None:
    """Idle and waiting for disks are not busy; the busiest core is told besides the mean."""
    write(tmp_path, "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\ncpu1 50 0 50 400 0 0 0 0 0 0")
    host = Host(tmp_path)
    assert host.open() is None

    write(tmp_path, "cpu  190 0 130 870 10 0 0 0 50 0\ncpu0 140 0 60 400 0 0 0 0 0 0\ncpu1 50 0 70 470 10 0 0 0 0 0")

    found = values(host.read(1.0))
    assert found["host_cpu_fraction"] == pytest.approx(120 / 200)
    assert found["host_cpu_busiest_core_fraction"] == pytest.approx(1.0)


def test_memory_and_swap_are_in_bytes(tmp_path: Path) -> None:
    """What can be freed counts as free; swap traffic is a counter."""
    write(tmp_path, "cpu  1 0 0 1 0")
    host = Host(tmp_path)
    assert host.open() is None

    found = values(host.read(1.0))

    assert found["host_memory_used_bytes"] == 400 * 1024
    assert found["host_memory_total_bytes"] == 1000 * 1024
    assert found["host_swap_used_bytes"] == 50 * 1024
    assert found["host_swap_traffic_bytes_total"] % 5 == 0


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """No time passed, a core taken away, an old kernel's meminfo, no vmstat: those figures are absent, not 0."""
    write(tmp_path, "cpu  5 0 5 10 0\ncpu0 5 0 5 10 0")
    host = Host(tmp_path)
    assert host.open() is None
    write(tmp_path, "cpu  5 0 5 10 0", meminfo="MemTotal: 1000 kB\nMemFree: 100 kB\n")
    (tmp_path / "vmstat").unlink()

    assert host.read(1.0) == []


def test_a_system_without_proc_says_so(tmp_path: Path) -> None:
    """Nothing to read: one sentence, and no samples."""
    host = Host(tmp_path / "none")

    assert "only read on Linux" in (host.open() or "")
    assert host.read(1.0) == []


def test_this_machine_is_read() -> None:
    """The real ``/proc``: fractions lie in 0..1, memory in use is below the total."""
    host = Host()
    assert host.open() is None

    found = values(host.read(1.0))

    assert 0 < found["host_memory_used_bytes"] < found["host_memory_total_bytes"]
    assert 0 <= found.get("host_cpu_fraction", 0.0) <= 1
    host.close()
