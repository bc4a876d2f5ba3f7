"""What one minute of a workload would send, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headcount.report.format import clean, number
from headcount.workload.preview import Preview

__all__ = ["preview_text"]

SHOWN_CHARS = 160
"""Of each turn in the sample conversations."""


def preview_text(seen: Preview) -> str:
    """People, lengths, what is asked of the server, and a few conversations."""
    lines = [
        f"{seen.users} people send {number(seen.requests, 9)} requests in {seen.span_s:g} s, "
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
