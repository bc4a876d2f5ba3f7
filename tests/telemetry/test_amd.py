"""AMD GPUs, against a stand-in of ``amdsmi`` written from its documentation."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from headcount.records import Gpu
from headcount.telemetry.amd import Amd


@pytest.fixture
def amdsmi(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The stand-in, fresh, under its real name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "amdsmi_standin"))
    sys.modules.pop("amdsmi", None)
    yield importlib.import_module("amdsmi")
    sys.modules.pop("amdsmi", None)


def test_facts_are_in_our_units(amdsmi: ModuleType) -> None:
    """A power limit in microwatts or in watts; what a board does not tell is None."""
    amd = Amd()

    assert amd.open() is None

    assert amd.gpus == (
        Gpu(
            uuid="uuid-full",
            name="AMD Instinct MI300X",
            memory_total_bytes=196592 * 1024 * 1024,
            power_limit_w=750.0,
            temperature_slowdown_c=100.0,
            temperature_shutdown_c=105.0,
            driver="6.12.12",
        ),
        Gpu(uuid="uuid-poor", name="AMD GPU", power_limit_w=300.0),
    )
    amd.close()


def test_figures_are_in_our_units_and_unknown_ones_left_out(amdsmi: ModuleType) -> None:
    """``"N/A"`` and refusals are no zeros; the next way to ask is tried."""
    amd = Amd()
    assert amd.open() is None

    found = {(s.of, s.name): s.value for s in amd.read(1.0)}

    assert {name: value for (of, name), value in found.items() if of == "uuid-full"} == {
        "gpu_utilization_fraction": 0.87,
        "gpu_memory_busy_fraction": 0.3,
        "gpu_power_w": 640.0,
        "gpu_temperature_c": 66.0,
        "gpu_sm_clock_hz": 2.1e9,
        "gpu_memory_clock_hz": 1.3e9,
        "gpu_memory_used_bytes": 1024.0 * 1024 * 1024,
        "gpu_ecc_uncorrected_errors_total": 0.0,
        "gpu_ecc_corrected_errors_total": 4.0,
    }
    assert {name: value for (of, name), value in found.items() if of == "uuid-poor"} == {
        "gpu_utilization_fraction": 0.05,
        "gpu_power_w": 120.0,
        "gpu_temperature_c": 51.0,
    }
    amd.close()


def test_a_lost_board_is_said_to_be_lost(amdsmi: ModuleType) -> None:
    """It tells nothing any more; the other goes on."""
    amd = Amd()
    assert amd.open() is None
    amdsmi.LOST.add("full")

    found = [(s.of, s.name) for s in amd.read(1.0)]

    assert [name for of, name in found if of == "uuid-full"] == ["gpu_lost"]
    assert ("uuid-poor", "gpu_power_w") in found
    amd.close()


def test_why_nothing_is_watched(amdsmi: ModuleType) -> None:
    """No driver, no board."""
    amdsmi.__dict__["FAILS"] = True
    assert Amd().open() == "no AMD GPU is watched: no driver"

    amdsmi.__dict__.update(FAILS=False, BOARDS=[])
    assert Amd().open() == "amdsmi sees no GPU"


def test_without_rocm_it_says_so() -> None:
    """The library is not ours to install."""
    assert importlib.util.find_spec("amdsmi") is None
    assert Amd().open() == "no AMD GPU is watched: amdsmi (part of ROCm) is not installed"
