"""Joules, watts a person and money: from figures that can be reckoned by hand."""

from __future__ import annotations

import msgspec
import pytest

from headcount.analysis.conclusions import GpuFigures, LevelSummary
from headcount.analysis.energy import energy_by_users
from headcount.prices import MONTH_S, Prices
from tests.report.invented import level


def held(
    users: int, *power_w: float | None, tokens_per_s: float | None = 1000.0, window_s: float = 100.0, void: bool = False
) -> LevelSummary:
    """A level that answered 5 requests a second while its GPUs drew so much."""
    return msgspec.structs.replace(
        level(users, users, "void" if void else "holds"),
        gpus=tuple(GpuFigures(f"GPU-{place}", None, None, watts, None) for place, watts in enumerate(power_w)),
        output_tokens_per_s=tokens_per_s,
        requests_per_s=5.0,
        window_s=window_s,
    )


def test_joules_are_the_watts_of_all_gpus_over_what_came_of_them() -> None:
    """Two GPUs of 300 and 200 W, 1,000 tokens and 5 answers a second, 20 people."""
    (found,) = energy_by_users([held(20, 300.0, 200.0)])

    assert found.power_w == 500.0
    assert found.user_power_w == 25.0
    assert found.token_energy_j == pytest.approx(0.5)
    assert found.answer_energy_j == pytest.approx(100.0)
    assert found.million_tokens_price is None
    assert found.user_month_price is None


def test_money_is_electricity_and_the_hardwares_share() -> None:
    """1 kW in all at 0.36 a kWh is 0.0001 a second; the hardware costs as much again."""
    prices = Prices(
        electricity_per_kwh=0.36, hardware_price=1e-4 * 10 * MONTH_S, hardware_months=10, further_power_w=600.0
    )
    (found,) = energy_by_users([held(20, 400.0)], prices)

    assert found.power_w == 1000.0
    assert found.million_tokens_price == pytest.approx(2e-4 * 1e6 / 1000.0)
    assert found.user_month_price == pytest.approx(2e-4 * MONTH_S / 20)


def test_visits_count_by_their_time_and_void_ones_not_at_all() -> None:
    """Numbers of people ascend."""
    levels = [
        held(8, 100.0, window_s=30.0),
        held(4, 50.0),
        held(8, 200.0, window_s=90.0),
        held(8, 999.0, void=True),
    ]
    found = energy_by_users(levels)

    assert [(one.users, one.power_w) for one in found] == [(4, 50.0), (8, 175.0)]


def test_what_was_not_seen_is_not_guessed() -> None:
    """No GPU, or one of two that tells no power; no throughput."""
    assert energy_by_users([held(4), held(8, 100.0, None)]) == ()
    (found,) = energy_by_users([held(4, 100.0, tokens_per_s=None)], Prices(electricity_per_kwh=0.3))
    assert found.token_energy_j is None
    assert found.million_tokens_price is None
    assert found.user_month_price is not None


def test_a_level_left_before_a_turn_was_over_tells_no_energy() -> None:
    """It counts what was begun before it, so that its tokens seem cheap."""
    short = msgspec.structs.replace(held(128, 300.0, tokens_per_s=5417.0, window_s=4.0), turn_cycle_s=12.0)

    assert [one.users for one in energy_by_users([held(64, 300.0), short])] == [64]
