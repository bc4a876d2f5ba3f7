"""NVIDIA GPUs through the real nvidia-ml-py, against the C stand-in of the driver's library."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from headcount.records import Gpu, Sample
from headcount.telemetry.nvml import Nvml

Boards = Callable[[str], None]

TWO = """\
- driver 580.65.06
- count 2
0 uuid GPU-aaaa1111-0000-0000-0000-000000000000
0 name NVIDIA H100 80GB HBM3
0 utilization 93
0 memory_utilization 41
0 memory_total 85899345920
0 memory_used 80530636800
0 power_mw 651500
0 enforced_limit_mw 700000
0 limit_mw 650000
0 default_limit_mw 700000
0 energy_mj 123456789
0 temperature 71
0 slowdown 89
0 shutdown 94
0 sm_mhz 1755
0 memory_mhz 2619
0 pcie_generation 5
0 pcie_lanes 16
0 pcie_replays 2
0 ecc_uncorrected 0
0 ecc_corrected 3
0 throttle 0x25
1 uuid GPU-bbbb2222-0000-0000-0000-000000000000
1 name NVIDIA GB10
1 utilization 0
1 temperature 38
1 throttle 0x1
"""
"""A board that tells everything, and a unified-memory one that answers most questions with "not supported"."""

FIRST, SECOND = "GPU-aaaa1111-0000-0000-0000-000000000000", "GPU-bbbb2222-0000-0000-0000-000000000000"


def four(names: tuple[str, str, str, str] = ("A", "A", "A", "A")) -> str:
    """Four boards with utilisation 10, 20, 30 and 40 %."""
    lines = ["- driver 1", "- count 4"]
    for i, name in enumerate(names):
        lines += [f"{i} uuid GPU-{i}{i}{i}{i}-x", f"{i} name {name}", f"{i} utilization {10 * (i + 1)}"]
    return "\n".join(lines) + "\n"


def figures(samples: list[Sample], uuid: str) -> dict[str, float]:
    """Name → value of one GPU."""
    return {s.name: s.value for s in samples if s.of.partition(":")[0] == uuid}


def utilizations(nvml: Nvml) -> list[int]:
    """Of the GPUs that count, in their order; opens and closes."""
    assert nvml.open() is None
    found = [round(s.value * 100) for s in nvml.read(1.0) if s.name == "gpu_utilization_fraction"]
    nvml.close()
    return found


def test_every_fact_of_a_board_is_in_our_units(boards: Boards) -> None:
    """Watts, bytes, degrees; the driver's version; which GPUs count and why."""
    boards(TWO)
    nvml = Nvml(variables={})

    assert nvml.open() is None

    assert nvml.gpus[0] == Gpu(
        uuid=FIRST,
        name="NVIDIA H100 80GB HBM3",
        memory_total_bytes=85899345920,
        power_limit_w=650.0,
        power_default_limit_w=700.0,
        temperature_slowdown_c=89.0,
        temperature_shutdown_c=94.0,
        driver="580.65.06",
    )
    assert nvml.note == "all 2 GPUs: the server's processes were not seen on any of them"
    nvml.close()


def test_every_figure_of_a_board_is_in_our_units(boards: Boards) -> None:
    """Fractions, watts, joules, hertz; idle is no throttle reason, the others are named."""
    boards(TWO)
    nvml = Nvml(variables={})
    assert nvml.open() is None

    samples = nvml.read(2.5)

    assert {s.at_s for s in samples} == {2.5}
    assert figures(samples, FIRST) == {
        "gpu_utilization_fraction": 0.93,
        "gpu_memory_busy_fraction": 0.41,
        "gpu_power_w": 651.5,
        "gpu_power_limit_w": 700.0,
        "gpu_energy_j_total": 123456.789,
        "gpu_temperature_c": 71.0,
        "gpu_sm_clock_hz": 1.755e9,
        "gpu_memory_clock_hz": 2.619e9,
        "gpu_pcie_generation": 5.0,
        "gpu_pcie_lanes": 16.0,
        "gpu_pcie_replays_total": 2.0,
        "gpu_ecc_uncorrected_errors_total": 0.0,
        "gpu_ecc_corrected_errors_total": 3.0,
        "gpu_memory_used_bytes": 80530636800.0,
        "gpu_throttled": 1.0,
    }
    assert [s.of for s in samples if s.name == "gpu_throttled"] == [
        f"{FIRST}:sw_power_cap",
        f"{FIRST}:sw_thermal_slowdown",
        SECOND,
    ]
    nvml.close()


def test_what_a_board_does_not_support_is_left_out(boards: Boards) -> None:
    """A unified-memory board: no memory, power or clocks, never a zero in their place; the rest is kept."""
    boards(TWO)
    nvml = Nvml(variables={})
    assert nvml.open() is None

    assert nvml.gpus[1] == Gpu(uuid=SECOND, name="NVIDIA GB10", driver="580.65.06")
    assert figures(nvml.read(1.0), SECOND) == {
        "gpu_utilization_fraction": 0.0,
        "gpu_memory_busy_fraction": 0.0,
        "gpu_temperature_c": 38.0,
        "gpu_throttled": 0.0,
    }
    nvml.close()


def test_a_board_that_falls_off_the_bus_is_said_to_be_lost(boards: Boards) -> None:
    """In mid-run: no exception, no zeros, ``gpu_lost``, and the other board goes on."""
    boards(TWO)
    nvml = Nvml(variables={})
    assert nvml.open() is None
    nvml.read(1.0)

    boards(TWO + "0 lost 1\n")

    samples = nvml.read(2.0)
    assert figures(samples, FIRST) == {"gpu_lost": 1.0}
    assert figures(samples, SECOND)["gpu_temperature_c"] == 38.0
    nvml.close()


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("2,3", [30, 40]),
        ("3, 1", [40, 20]),
        ("GPU-2222-x,GPU-0000", [30, 10]),
        ("1,-1,2", [20]),
        ("1,7,2", [20]),
        ("0,0", [10]),
    ],
)
def test_visible_devices_choose_the_boards(boards: Boards, visible: str, expected: list[int]) -> None:
    """Numbers, UUIDs and their beginnings; as with CUDA the list ends at the first name nobody bears."""
    boards(four())

    assert utilizations(Nvml(variables={"CUDA_VISIBLE_DEVICES": visible})) == expected


def test_no_visible_device_is_said(boards: Boards) -> None:
    """An empty list hides every GPU: nothing is watched, and why."""
    boards(four())

    assert Nvml(variables={"CUDA_VISIBLE_DEVICES": ""}).open() == "0 of 4 GPUs: CUDA_VISIBLE_DEVICES="


def test_numbers_over_unlike_boards_are_doubted(boards: Boards) -> None:
    """CUDA orders by speed unless told otherwise, the driver by bus."""
    boards(four(("A", "B", "A", "A")))
    doubtful = Nvml(variables={"CUDA_VISIBLE_DEVICES": "1"})
    certain = Nvml(variables={"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})

    assert doubtful.open() is None
    assert certain.open() is None

    assert "another order" in doubtful.note
    assert certain.note == "1 of 4 GPUs: CUDA_VISIBLE_DEVICES=1"
    doubtful.close()
    certain.close()


def test_a_slice_has_its_own_memory_and_its_boards_power(boards: Boards) -> None:
    """MIG ids: the board is watched, its memory is that of the slices named."""
    boards(
        TWO
        + "- MIG-5 5\n5 uuid MIG-5\n5 board 0\n5 memory_total 1000\n5 memory_used 400\n"
        + "- MIG-6 6\n6 uuid MIG-6\n6 board 0\n6 memory_total 2000\n6 memory_used 50\n"
    )
    nvml = Nvml(variables={"CUDA_VISIBLE_DEVICES": "MIG-5,MIG-6,MIG-unknown"})

    assert nvml.open() is None

    assert [(gpu.uuid, gpu.memory_total_bytes) for gpu in nvml.gpus] == [(FIRST, 3000)]
    assert figures(nvml.read(1.0), FIRST)["gpu_memory_used_bytes"] == 450.0
    assert figures(nvml.read(1.0), FIRST)["gpu_power_w"] == 651.5
    nvml.close()


def test_the_boards_that_hold_the_server_count(boards: Boards) -> None:
    """A child of whoever listens on the server's port holds board 3: only that one counts, whatever is visible."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            boards(four() + f"3 pid {child.pid}\n0 pid 1\n")
            nvml = Nvml(listener.getsockname()[1], variables={"CUDA_VISIBLE_DEVICES": "0"})

            assert nvml.open() is None

            assert [(gpu.uuid, gpu.holds_server) for gpu in nvml.gpus] == [("GPU-3333-x", True)]
            assert nvml.note == "1 of 4 GPUs: those that hold the server's processes"
            nvml.close()
        finally:
            child.communicate()


def test_the_servers_own_variables_are_preferred(boards: Boards) -> None:
    """What the server's process was given names its GPUs, not what we were given."""
    serve = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "2"}
    with subprocess.Popen(
        [sys.executable, "-c", serve],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables,
        start_new_session=True,
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        boards(four())

        assert utilizations(Nvml(port, variables={"CUDA_VISIBLE_DEVICES": "0"})) == [30]
        server.communicate(b"\n")


@pytest.mark.parametrize(("code", "why"), [(9, "the driver is not loaded"), (18, "stand-in error")])
def test_a_driver_that_does_not_start_is_said(boards: Boards, code: int, why: str) -> None:
    """No GPU is no error: one sentence why nothing is watched."""
    boards(f"- init {code}\n")

    said = Nvml(variables={}).open()

    assert said is not None
    assert said.startswith("no NVIDIA GPU is watched")
    assert why in said or code == 18


def test_a_driver_without_boards_is_said(boards: Boards) -> None:
    """The driver is there, a card is not."""
    boards("- driver 1\n- count 0\n")

    assert Nvml(variables={}).open() == "the NVIDIA driver sees no GPU"


def test_a_machine_without_the_library_says_so() -> None:
    """In a process of its own, where the stand-in was never loaded: GPUs or a reason, never an exception."""
    look = "from headcount.telemetry.nvml import Nvml; n = Nvml(); print(n.open() or n.note)"

    said = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True).stdout

    assert "GPU" in said
