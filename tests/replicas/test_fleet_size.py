"""The size of a fleet: it keeps the service level and one replica fewer does not; a part stands for the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest
from msgspec.structs import replace as with_fields

from headcount.cli import main
from headcount.errors import ScenarioError
from headcount.prediction import Start, hardware_from, start_of_hardware
from headcount.prediction.crowd import Crowd
from headcount.replicas import FleetSize, fleet_size
from headcount.replicas.level import ReplicaPool, steady
from headcount.replicas.showing import fleet_text
from headcount.report.words import LANGUAGES

FLAGS = ["fleet-size", "--gpu", "RTX 4090", "--model", "Qwen3-8B-AWQ", "--workload", "short"]


@cache
def small() -> Start:
    """A slow card with few slots, so that a few people fill it."""
    hardware = hardware_from("RTX 3060", "Qwen3-4B-AWQ")
    workload = {"kind": "short", "think_s": [1.0, 5.0]}
    return start_of_hardware(hardware, slots=6, workload=workload, context_tokens=2048)


@cache
def sized(people: int) -> FleetSize:
    """All of them at once."""
    return fleet_size(small(), people, 1.0)


def pool(replicas: int, routing: str = "least-loaded") -> ReplicaPool:
    """So many replicas."""
    start = small()
    return ReplicaPool(start.served, Crowd(start.workload, start.seed), start.slo, replicas, routing)


def test_a_small_fleet_is_simulated_whole() -> None:
    """What is needed holds and one fewer does not; spare ones come on top, and the machine is counted."""
    size = sized(150)
    needed = size.plans[0].replicas

    assert size.exact
    assert needed > 1
    assert size.plans[0].figures.holds
    assert not steady(pool(needed - 1), 150).holds
    assert size.installed_replicas == size.cards == needed + 1
    assert size.power_w == size.cards * 170
    assert size.low_replicas <= needed <= (size.high_replicas or needed)
    assert {plan.routing for plan in size.plans} == {"least-loaded", "sticky"}


def test_a_part_stands_for_a_large_fleet() -> None:
    """A hundred times the people need about a hundred times the replicas; the rule from below agrees."""
    few, many = sized(150), sized(15_000)

    assert not many.exact
    assert many.plans[0].replicas == pytest.approx(100 * few.plans[0].replicas, rel=0.35)
    assert 0.6 * many.plans[0].replicas <= many.square_root_replicas <= 1.05 * many.plans[0].replicas


def test_faster_constants_need_fewer() -> None:
    """Monotone, and so is the interval's origin."""
    start = small()
    cost = start.served.cost
    half = {name: getattr(cost, name) / 2 for name in ("overhead_s", "weights_s", "token_s", "sequence_s")}
    faster = with_fields(start, served=replace(start.served, cost=replace(cost, **half), draws=()))

    size = fleet_size(faster, 150, 1.0)

    assert size.plans[0].replicas < sized(150).plans[0].replicas
    assert size.low_replicas == size.high_replicas == size.plans[0].replicas


def test_a_level_nobody_can_have_is_refused() -> None:
    """Named with the clause that fails; not searched for ever."""
    start = start_of_hardware(
        hardware_from("RTX 3060", "Qwen3-4B"), workload={"kind": "short"}, slo=("tpot_p95 <= 0.001 s",)
    )
    with pytest.raises(ScenarioError, match="single person"):
        fleet_size(start, 100, 1.0)
    with pytest.raises(ScenarioError, match="single person"):
        fleet_size(start, 1_000_000, 1.0)


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_says_first_that_it_is_simulated(language: str) -> None:
    """In every language; cost and power by person in both forms."""
    size = with_fields(sized(150), cost_per_hour=2.5)
    text = fleet_text("terminal", size, small(), "a card", language)
    told = json.loads(fleet_text("json", size, small(), "a card"))

    assert text.splitlines()[0].startswith("simulated" if language == "en" else "시뮬레이션")
    assert "{" not in text
    assert told["simulated"] is True
    assert told["cost_per_person_hour"] == pytest.approx(2.5 / 150)
    assert told["installed_replicas"] == size.installed_replicas


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """Its JSON is whole, and flags change what they name."""
    assert main([*FLAGS, "--people", "1000", "--active-share", "10%", "--redundancy", "2", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert told["active_users"] == 100
    assert told["redundancy"] == 2
    assert told["cost_per_hour"] is None
    assert [plan["routing"] for plan in told["plans"]] == ["least-loaded", "sticky"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--people", "10"], "no GPU is named"),
        (["--people", "10", "--gpu", "H100"], "no model is named"),
        (["--people", "10", "--gpu", "H1000", "--model", "Qwen3-8B"], "not in the catalogue"),
        (["--people", "10", "--gpu", "RTX 3060", "--model", "Qwen3-32B"], "does not fit"),
        (["--people", "10", "--gpu", "H100", "--model", "Qwen3-8B", "--workload", "chatt"], "chatt"),
        (["--people", "10", "--gpu", "H100", "--model", "Qwen3-8B", "--engine", "vlm"], "vlm"),
        (["--people", "10", "no-such-run"], "is not there"),
        (["--people", "10", "some-run", "--gpu", "H100"], "both given"),
        (["--people", "10", "some-run", "--context", "4096"], "some-run and --context are both given"),
        (["--people", "10", "--gpu", "H100", "--model", "Qwen3-8B", "--workload", "document"], "do not fit"),
    ],
)
def test_what_cannot_work_is_one_sentence(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Named, without a traceback."""
    assert main(["fleet-size", *flags]) in (2, 4)
    assert words in capsys.readouterr().err
