"""From run folders to what a plan is made of: the measured models, and where each one's simulation begins.

Knows nothing of demand and advice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headcount.deployment.capacity import Measured
from headcount.deployment.from_figures import start_of_figures
from headcount.engine.simulation import profile_for, read_options, server_of
from headcount.errors import NotTrustedError, ScenarioError
from headcount.prediction import Served, Start, start_of_calibration
from headcount.prediction.calibration import Told
from headcount.prediction.fitted import check_trust
from headcount.prediction.from_run import calibrate_run
from headcount.review import review, scenario_of
from headcount.scenario import Scenario
from headcount.slo import parse_slo
from headcount.store import Run, open_run

__all__ = ["measured_models", "starts_of"]


def measured_models(paths: Sequence[Path]) -> list[tuple[Run, Measured]]:
    """Every run with what it shows. A model is called as the server calls it, else after its folder."""
    found = []
    for path in paths:
        run = open_run(path)
        scenario = scenario_of(run)
        name = run.facts.engine.model or run.path.resolve().name
        found.append((run, Measured(name, review(run), run.facts, scenario.comfort, dict(scenario.workload))))
    return found


def starts_of(measured: Sequence[tuple[Run, Measured]], gpu: str | None = None) -> dict[str, Start | str]:
    """Where each model's simulation begins, or why there is none. ``gpu`` names the card where a run does not tell it.

    A simulated run knows its server's constants. Of others they are fitted to single requests, or, where those are not
    known or do not follow the simulator's equation, to the figures of levels.
    """
    starts: dict[str, Start | str] = {}
    for run, each in measured:
        if run.facts.engine.engine == "simulated":
            starts[each.name] = _start_of_simulated(run, scenario_of(run))
            continue
        told = _told(each, gpu)
        start = _start_of_requests(run, told) if run.facts.verb != "import" else None
        start = start or start_of_figures(
            each.verdict.levels,
            workload=scenario_of(run).workload if run.facts.verb != "import" else None,
            hardware=told.hardware() if told is not None else None,
            slots=run.facts.engine.slots,
        )
        starts[each.name] = start or "its levels do not follow the simulator's equation, or are fewer than two"
    return starts


def _start_of_requests(run: Run, told: Told | None) -> Start | None:
    """None when the requests tell too little, or what they tell must not be believed."""
    try:
        calibration = calibrate_run(run, told)
    except NotTrustedError:
        return None
    return start_of_calibration(calibration) if check_trust(calibration) is None else None


def _start_of_simulated(run: Run, scenario: Scenario) -> Start:
    options = read_options(scenario.engine.options)
    server = server_of(options, profile_for(options, scenario.engine.model))
    return Start(
        served=Served(server.cost, server.policy, request_s=options.round_trip_s),
        workload=dict(scenario.workload),
        slo=parse_slo(run.facts.slo),
        basis="simulated",
        seed=scenario.seed,
        answer_share=(options.output_share,),
    )


def _told(each: Measured, gpu: str | None) -> Told | None:
    """What the model ran on; None where nobody told, or the catalogue does not know it."""
    cards = [card for card in each.facts.gpus if card.holds_server is not False]
    name = gpu or (cards[0].name if cards else None)
    if name is None:
        return None
    told = Told(gpu=name, model=each.name, gpus=max(1, len(cards)))
    try:
        told.hardware()
    except ScenarioError:
        if gpu is not None:
            raise
        return None
    return told
