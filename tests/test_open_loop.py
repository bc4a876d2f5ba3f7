"""The open loop from end to end: how many people are inside is told, and it is noticed when they pile up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_session import held


def test_people_inside_are_counted_and_pile_up_beyond_the_servers_rate(tmp_path: Path) -> None:
    """At a rate the server carries they stay few, by Little's law of conversations; beyond it they pile up."""
    arrivals = {"kind": "open", "rates_per_s": [0.3, 6.0]}
    outcome, _ = held(tmp_path, arrivals=arrivals, search={"level_time_s": 120})
    carried, beyond = outcome.verdict.levels

    assert carried.inside_users_mean is not None
    assert beyond.inside_users_mean is not None
    assert carried.inside_users_mean < 10 < beyond.inside_users_mean
    assert "people-pile-up" not in {caution.code for caution in carried.cautions}
    assert "people-pile-up" in {caution.code for caution in beyond.cautions}


def test_people_of_the_closed_loop_are_those_of_the_level(tmp_path: Path) -> None:
    """Those who think are inside too."""
    outcome, _ = held(tmp_path, search={"levels": [3], "level_time_s": 60})
    (level,) = outcome.verdict.levels

    assert level.inside_users_mean == pytest.approx(3.0)
    assert level.in_flight_mean is not None
    assert level.in_flight_mean < 3.0
