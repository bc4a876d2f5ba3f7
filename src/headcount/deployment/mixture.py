"""The plan's people as a scenario: personas with a share, each asking its model, or letting the gateway choose."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headcount.deployment.advice import Advice
from headcount.deployment.capacity import Measured
from headcount.deployment.places import AUTO, word
from headcount.scenario import Scenario, make_scenario

__all__ = ["mix_scenario", "overflow_people"]

OVERFLOW = 1.5
"""So many times what a model carries are sent to each, so that every cap is reached."""
_OF_PEOPLE = ("models", "streamed", "adapters", "adapter_share", "adapter_zipf")
"""Keys of a run's workload that the plan decides itself, or that a gateway does not know."""


def mix_scenario(
    advice: Advice,
    measured: Sequence[Measured],
    url: str,
    *,
    routed_by: str = "client",
    level_time_s: float = 60.0,
    seed: int = 1,
) -> Scenario:
    """Two fixed levels through the gateway at ``url``: the people planned for, then as many as overflow every cap."""
    workloads = {each.name: each.workload for each in measured}
    personas: dict[str, dict[str, object]] = {}
    for part in advice.parts:
        if part.share <= 0:
            continue
        spoken = {key: value for key, value in workloads[part.name].items() if key not in _OF_PEOPLE}
        personas[word(part.name)] = {
            "kind": "chat",
            **spoken,
            "weight": part.share,
            "models": AUTO if routed_by == "gateway" and len(advice.parts) > 1 else part.name,
        }
    return make_scenario(
        {
            "name": "plan",
            "seed": seed,
            "slo": ["ttft_p95 <= 3 s", "errors <= 1 %"],
            "engine": {"url": url, "model": advice.parts[0].name},
            "workload": {"kind": "mix", "personas": personas},
            "search": {"levels": [advice.people, overflow_people(advice)], "level_time_s": level_time_s},
        }
    )


def overflow_people(advice: Advice) -> int:
    """So many that every model gets ``OVERFLOW`` times the people it carries."""
    wanted = [OVERFLOW * part.carries_users * part.servers / part.share for part in advice.parts if part.share > 0]
    return max(advice.people + 1, math.ceil(max(wanted)))
