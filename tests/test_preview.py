"""What ``headcount preview`` says of each kind of scenario, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from headcount.preview import scenario_text
from headcount.scenario import load_scenario, make_scenario

FILES = sorted((Path(__file__).parents[1] / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_ready_scenario_is_previewed(path: Path) -> None:
    """People, personas, adapters, lengths, tokens per second and conversations."""
    text = scenario_text(load_scenario(path))

    for part in ("requests", "personas", "adapters", "prompt tokens", "output tokens", "a second", "[at most "):
        assert part in text


def test_adapters_nobody_knows_yet_are_invented_and_said_so() -> None:
    """``adapters = "all"`` shows how people would share them out."""
    text = scenario_text(make_scenario({"workload": {"kind": "mix", "personas": {"chat": {"adapters": "all"}}}}), 8)

    assert text.startswith("the adapters' names are invented")
    assert all(f"adapter-{name} 2" in text for name in "abcd")
    assert "names are invented" not in scenario_text(make_scenario({"workload": {"adapters": ["sql"]}}))


def test_people_who_arrive_are_counted_by_their_arrivals() -> None:
    """A metronome of one conversation every two seconds: thirty in a minute, two turns each."""
    open_loop = {"kind": "open", "rates_per_s": [0.5], "gap_cv": 0.0}

    text = scenario_text(make_scenario({"workload": {"turns": 2}, "arrivals": open_loop}))

    assert text.startswith("29 people, arriving in 60 s: 58 requests")
