"""What one minute of a scenario would send, as text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len

from headcount.report.format import clean, number
from headcount.report.words import Words, people, words
from headcount.scenario import Scenario
from headcount.workload import make_workload, settle
from headcount.workload.arrivals import Open, Replayed, arrival_instants, recorded_instants
from headcount.workload.preview import Preview, preview

__all__ = ["preview_text", "scenario_text"]

INVENTED_ADAPTERS = ("adapter-a", "adapter-b", "adapter-c", "adapter-d")
"""In place of those that only a server could name."""
MINUTE_S = 60.0
USUAL_USERS, USUAL_RATE_PER_S = 20, 0.5

SHOWN_CHARS = 160
"""Of each turn in the sample conversations."""


def scenario_text(scenario: Scenario, users: int | None = None, language: str = "en") -> str:
    """One minute of a scenario's first level: of ``users`` people where that is given and people do not arrive.

    Raises ``ScenarioError`` when a file it names cannot be read.
    """
    _ = words(language)
    table = settle(scenario.workload, INVENTED_ADAPTERS)
    workload = make_workload(table, scenario.seed)
    arrivals, instants_s = scenario.arrivals, None
    if isinstance(arrivals, Open):
        rate_per_s = next(iter(arrivals.rates_per_s), USUAL_RATE_PER_S)
        instants_s = arrival_instants(arrivals, rate_per_s, scenario.seed, "level 0")
    elif isinstance(arrivals, Replayed):
        recorded: Iterator[float] = workload.instants_s()  # type: ignore[attr-defined]  # a trace has them
        instants_s = recorded_instants(recorded, arrivals.speed)
    if instants_s is None:
        seen = preview(workload, users or next(iter(scenario.search.levels), USUAL_USERS))
    else:
        arriving = sum(1 for _at_s in itertools.takewhile(lambda at_s: at_s < MINUTE_S, instants_s))
        seen = preview(workload, arriving, span_s=MINUTE_S, arriving=True)
    text = preview_text(seen, _)
    if table != scenario.workload:
        invented = _("the adapters' names are invented: those of the server are not known before it is asked")
        text = f"{invented}\n{text}"
    return text


def preview_text(seen: Preview, _: Words) -> str:
    """People, lengths, what is asked of the server, and a few conversations."""
    sends = _("{people}, arriving in {span}: {n} requests") if seen.arriving else _("{people} in {span}: {n} requests")
    sends = sends.format(people=people(seen.users, _), span=f"{seen.span_s:g} s", n=number(seen.requests, 9))
    nameless = _("unnamed")
    rows = [
        (_("personas"), _shares(seen.personas, nameless, _)),
        (_("models"), _shares(seen.models, _("the engine’s own"), _)),
        (_("adapters"), _shares(seen.adapters, _("none"), _)),
        (_("answers"), _shares(seen.styles, nameless, _)),
        (_("languages"), _shares(seen.languages, nameless, _)),
        (_("prompt tokens"), _spread(seen.prompt_tokens, seen.prompt_tokens_per_s, _)),
        (_("output tokens"), _spread(seen.output_tokens, seen.output_tokens_per_s, _)),
    ]
    width = max(cell_len(name) for name, _value in rows) + 1
    lines = [sends, _("were each answer to begin after half a second and be written at 20 tokens/s")]
    lines += [f"{name}{' ' * (width - cell_len(name))}{value}" for name, value in rows]
    for conversation in seen.samples:
        lines.append(f"\n{clean(conversation.persona)}:")
        if conversation.system:
            lines.append(f"  {_('system')}: {clean(conversation.system, SHOWN_CHARS)}")
        then = _("at most {n} tokens, then {pause}")
        lines += [
            f"  {clean(turn.text, SHOWN_CHARS)}  "
            f"[{then.format(n=turn.max_output_tokens, pause=f'{turn.think_s:.1f} s')}]"
            for turn in conversation.turns
        ]
    return "\n".join(lines)


def _shares(counts: Mapping[str, int], nameless: str, _: Words) -> str:
    """Names with how many people each has."""
    return ", ".join(f"{clean(_(name)) or nameless} {count}" for name, count in counts.items()) or _("none")


def _spread(rising: Sequence[int], per_s: float, _: Words) -> str:
    """From the least to the most, and what they come to."""
    if not rising:
        return _("none")
    told = _("{least} to {most}, half of them up to {median}, {rate} a second")
    return told.format(least=rising[0], most=rising[-1], median=rising[len(rising) // 2], rate=number(per_s))
