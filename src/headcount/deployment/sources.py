"""From run folders to what a plan is made of: the measured models, and where each one's simulation begins.

Knows nothing of demand and advice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headcount.deployment.capacity import Measured
from headcount.deployment.fitted import start_of_figures
from headcount.engine.simulation import profile_for, read_options, server_of
from headcount.errors import ScenarioError
from headcount.prediction import Hardware, Served, Start, hardware_from
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

    A simulated run knows its server's constants; of others they are fitted to the levels.
    """
    starts: dict[str, Start | str] = {}
    for run, each in measured:
        scenario = scenario_of(run)
        if run.facts.engine.engine == "simulated":
            starts[each.name] = _start_of_simulated(run, scenario)
            continue
        start = start_of_figures(
            each.verdict.levels,
            workload=scenario.workload if run.facts.verb != "import" else None,
            hardware=_hardware(each, gpu),
            slots=run.facts.engine.slots,
        )
        starts[each.name] = start or "its levels do not follow the simulator's equation, or are fewer than two"
    return starts


def _start_of_simulated(run: Run, scenario: Scenario) -> Start:
    options = read_options(scenario.engine.options)
    server = server_of(options, profile_for(options, scenario.engine.model))
    return Start(
        served=Served(server.cost, server.policy, request_s=options.round_trip_s),
        workload=dict(scenario.workload),
        slo=parse_slo(run.facts.slo),
        basis="simulated",
        seed=scenario.seed,
        answer_shares=(options.output_share,),
    )


def _hardware(each: Measured, gpu: str | None) -> Hardware | None:
    """What the model ran on; None where nobody told, or the catalogue does not know it."""
    cards = [card for card in each.facts.gpus if card.holds_server is not False]
    name = gpu or (cards[0].name if cards else None)
    if name is None:
        return None
    try:
        return hardware_from(name, each.name, max(1, len(cards)))
    except ScenarioError:
        if gpu is not None:
            raise
        return None
