"""What one minute of a scenario would send, as text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from headcount.report.format import clean, number
from headcount.report.words import people
from headcount.scenario import Scenario
from headcount.workload import make_workload, settle
from headcount.workload.arrivals import Open, Replayed, arrival_instants, recorded_instants
from headcount.workload.preview import Preview, preview

__all__ = ["preview_text", "scenario_text"]

INVENTED_ADAPTERS = ("adapter-a", "adapter-b", "adapter-c", "adapter-d")
"""In place of those that only a server could name."""
MINUTE_S = 60.0
USUAL_USERS = 20

SHOWN_CHARS = 160
"""Of each turn in the sample conversations."""


def scenario_text(scenario: Scenario, users: int | None = None) -> str:
    """One minute of a scenario's first level: of ``users`` people where that is given and people do not arrive.

    Raises ``ScenarioError`` when a file it names cannot be read.
    """
    table = settle(scenario.workload, INVENTED_ADAPTERS)
    workload = make_workload(table, scenario.seed)
    arrivals, instants_s = scenario.arrivals, None
    if isinstance(arrivals, Open):
        instants_s = arrival_instants(arrivals, arrivals.rates_per_s[0], scenario.seed, "level 0")
    elif isinstance(arrivals, Replayed):
        recorded: Iterator[float] = workload.instants_s()  # type: ignore[attr-defined]  # a trace has them
        instants_s = recorded_instants(recorded, arrivals.speed)
    if instants_s is None:
        seen = preview(workload, users or next(iter(scenario.search.levels), USUAL_USERS))
    else:
        arriving = sum(1 for _ in itertools.takewhile(lambda at_s: at_s < MINUTE_S, instants_s))
        seen = preview(workload, arriving, span_s=MINUTE_S, arriving=True)
    text = preview_text(seen)
    if table != scenario.workload:
        text = f"the adapters' names are invented: those of the server are not known before it is asked\n{text}"
    return text


def preview_text(seen: Preview) -> str:
    """People, lengths, what is asked of the server, and a few conversations."""
    who = people(seen.users, str)
    lines = [
        f"{who}{', arriving' if seen.arriving else ''} in {seen.span_s:g} s: {number(seen.requests, 9)} requests, "
        "were each answer to begin after half a second and be written at 20 tokens/s",
        f"{'personas':<14}{_shares(seen.personas)}",
        f"{'models':<14}{_shares(seen.models, nameless='the engine’s own')}",
        f"{'adapters':<14}{_shares(seen.adapters, nameless='none')}",
        f"{'answers':<14}{_shares(seen.styles)}",
        f"{'languages':<14}{_shares(seen.languages)}",
        f"{'prompt tokens':<14}{_spread(seen.prompt_tokens)}, {number(seen.prompt_tokens_per_s)} a second",
        f"{'output tokens':<14}{_spread(seen.output_tokens)}, {number(seen.output_tokens_per_s)} a second",
    ]
    for conversation in seen.samples:
        lines.append(f"\n{clean(conversation.persona)}:")
        if conversation.system:
            lines.append(f"  system: {clean(conversation.system, SHOWN_CHARS)}")
        lines += [
            f"  {clean(turn.text, SHOWN_CHARS)}  [at most {turn.max_output_tokens} tokens, then {turn.think_s:.1f} s]"
            for turn in conversation.turns
        ]
    return "\n".join(lines)


def _shares(counts: Mapping[str, int], nameless: str = "unnamed") -> str:
    return ", ".join(f"{clean(name) or nameless} {count}" for name, count in counts.items()) or "none"


def _spread(rising: Sequence[int]) -> str:
    if not rising:
        return "none"
    return f"{rising[0]} to {rising[-1]}, half of them up to {rising[len(rising) // 2]}"
