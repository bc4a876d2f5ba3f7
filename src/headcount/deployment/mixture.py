"""The plan's people as a scenario: personas with a share, each asking its model, or letting the gateway choose."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headcount.deployment.advice import Advice, Part
from headcount.deployment.capacity import Measured
from headcount.deployment.places import AUTO, word
from headcount.scenario import Scenario, make_scenario

__all__ = ["mix_scenario", "overflow_users"]

OVERFLOW = 1.5
"""So many times the people that a model was seen to serve are sent to it, so that its cap is reached."""
_OF_PEOPLE = ("models", "streamed", "adapters", "adapter_share", "adapter_zipf")
"""Keys of a run's workload that the plan decides itself, or that a gateway does not know."""


def mix_scenario(
    advice: Advice,
    measured: Sequence[Measured],
    url: str,
    *,
    overflow: bool = False,
    routed_by: str = "client",
    level_time_s: float = 60.0,
) -> Scenario:
    """One fixed level through the gateway at ``url``: the people planned for, in the plan's shares; or, to overflow
    every cap at once, ``OVERFLOW`` times the people that each model was seen to serve."""
    workloads = {each.name: each.workload for each in measured}
    parts = [part for part in advice.parts if part.users > 0 or overflow]
    personas: dict[str, dict[str, object]] = {}
    for part in parts:
        spoken = {key: value for key, value in workloads[part.name].items() if key not in _OF_PEOPLE}
        personas[word(part.name)] = {
            "kind": "chat",
            **spoken,
            "weight": overflow_users(part) if overflow else part.users,
            "models": AUTO if routed_by == "gateway" and len(advice.parts) > 1 else part.name,
        }
    people = sum(map(overflow_users, parts)) if overflow else advice.people
    return make_scenario(
        {
            "name": "plan-overflow" if overflow else "plan",
            "slo": ["ttft_p95 <= 3 s", "errors <= 1 %"],
            "engine": {"url": url, "model": advice.parts[0].name},
            "workload": {"kind": "mix", "personas": personas},
            "search": {"levels": [people], "level_time_s": level_time_s},
        }
    )


def overflow_users(part: Part) -> int:
    """So many people on one model that its servers' caps must be reached."""
    return math.ceil(OVERFLOW * part.held_users * part.servers) + 1
