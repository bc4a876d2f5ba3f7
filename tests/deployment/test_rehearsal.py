"""Simulated servers fitted to figures, plans held on them, and the power limit that conditions show."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headcount.deployment.advice import Demand, advise
from headcount.deployment.capacity import Measured
from headcount.deployment.from_figures import start_of_figures
from headcount.deployment.power_advice import power_advice
from headcount.deployment.rehearsal import rehearse
from headcount.deployment.sources import measured_models, starts_of
from headcount.prediction import Change, predict
from headcount.review import review
from headcount.store import open_run
from tests.deployment.reference import SMALL, reference_runs
from tests.report.invented import FACTS, PLAIN, altered, level


def test_two_constants_reproduce_the_published_load_test(tmp_path: Path) -> None:
    """Median and throughput of every level within a tenth: also those between the two that were adjusted to."""
    for _, each in reference_runs(tmp_path):
        start = start_of_figures(each.verdict.levels)
        assert start is not None
        for one in each.verdict.levels:
            figures = predict(start, Change(), one.users, draws=0).figures
            assert figures.e2e_p50_s == pytest.approx(one.e2e_s.p50, rel=0.12)
            assert figures.output_tokens_per_s == pytest.approx(one.output_tokens_per_s, rel=0.12)


def test_levels_that_follow_no_equation_are_not_simulated() -> None:
    """One level is too few; a median that falls with more people is no batching server."""
    slow = level(0, 8, whole=True)
    fast = msgspec.structs.replace(level(1, 64, whole=True), e2e_s=msgspec.structs.replace(slow.e2e_s, p50=0.1))

    assert start_of_figures([slow]) is None
    assert start_of_figures([slow, fast, msgspec.structs.replace(level(2, 99, whole=True))]) is None


def test_a_plan_that_asks_too_much_does_not_hold(tmp_path: Path) -> None:
    """250 people on a model that carries 100: the simulation says what they would feel."""
    runs = reference_runs(tmp_path)[:1]
    measured = [each for _, each in runs]
    starts = starts_of(runs)

    good = rehearse(advise(measured, Demand(people=40)), measured, starts)
    bad = rehearse(advise(measured, Demand(people=250)), measured, starts)
    assert good.holds is True
    assert bad.holds is False
    assert bad.parts[0].feels in ("frustrating", "unusable")


def test_what_cannot_be_simulated_is_named(tmp_path: Path) -> None:
    """It neither holds nor fails."""
    measured = [each for _, each in reference_runs(tmp_path)[:1]]
    found = rehearse(advise(measured, Demand(people=40)), measured, {SMALL: "too few levels"})

    assert found.holds is None
    assert found.unchecked == {SMALL: "too few levels"}


def test_a_simulated_run_knows_its_server(tmp_path: Path) -> None:
    """Its constants are taken, not fitted: the simulation meets the measurement."""
    from headcount.cli import main

    scenario = tmp_path / "small.toml"
    scenario.write_text('[engine]\nkind = "simulated"\n[search]\nlevels = [2, 8]\nlevel_time_s = 120\n')
    assert main(["run", str(scenario), "--out", str(tmp_path / "runs")]) == 0
    (path,) = (tmp_path / "runs").iterdir()
    runs = measured_models([path])
    measured = [each for _, each in runs]
    found = rehearse(advise(measured, Demand()), measured, starts_of(runs))

    assert found.holds is True
    assert found.parts[0].error_fraction == pytest.approx(0.0, abs=0.1)
    assert review(open_run(path)).trusted


def test_the_lowest_power_limit_that_keeps_the_speed() -> None:
    """Of three limits the middle one costs 3 %, the lowest 13 %."""
    speeds = {"600 W": 1000.0, "450 W": 967.0, "350 W": 870.0}
    levels = tuple(
        msgspec.structs.replace(level(n, 16, condition=name), output_tokens_per_s=speed)
        for n, (name, speed) in enumerate(speeds.items())
    )
    found = power_advice(Measured("8B", altered(levels=levels), FACTS))

    assert found is not None
    sentence, figures = found
    assert sentence == "A power limit of 450 W keeps 97% of the tokens per second."
    assert figures == ("8B: level 16, 600 W, 1000 tokens/s", "8B: level 16, 450 W, 967 tokens/s")
    assert power_advice(Measured("8B", PLAIN, FACTS)) is None
    assert power_advice(Measured("8B", altered(levels=levels[:1]), FACTS)) is None
