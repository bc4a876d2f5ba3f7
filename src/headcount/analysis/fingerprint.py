"""Whether two runs measured the same thing: what differs between their facts, in words."""

from __future__ import annotations

from headcount.records import EngineFacts, RunFacts

__all__ = ["changes"]

_TELLING = (
    "engine",
    "version",
    "model",
    "adapters",
    "context_tokens",
    "quantization",
    "slots",
    "kv_pool_tokens",
)
"""What of a server changes the answer. Its address does not: a server may move to another port."""


def changes(earlier: RunFacts, later: RunFacts) -> list[str]:
    """One phrase for each fact that differs; empty when the two can be told as one run.

    A fact that one of the two does not know is no difference.
    """
    found = [
        f"{name.replace('_', ' ')} was {before}, is {now}"
        for name in _TELLING
        if (before := _told(earlier.engine, name)) and (now := _told(later.engine, name)) and before != now
    ]
    if earlier.slo != later.slo:
        found.append(f"the service level was {', '.join(earlier.slo)}, is {', '.join(later.slo)}")
    if earlier.simulated != later.simulated:
        found.append("one of the two is simulated")
    boards, boards_now = sorted(g.uuid for g in earlier.gpus), sorted(g.uuid for g in later.gpus)
    if boards and boards_now and boards != boards_now:
        found.append("the GPUs are others")
    return found


def _told(facts: EngineFacts, name: str) -> str:
    value = getattr(facts, name)
    return ", ".join(value) if isinstance(value, tuple) else str(value or "")
