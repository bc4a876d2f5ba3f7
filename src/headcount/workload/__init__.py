"""What people say: endless conversations of turns. An extension point, table ``WORKLOADS``.

Everything random comes from one seed by named streams, so that the same person of the same run says the
same words whatever the others do. Knows nothing of engines, HTTP and clocks.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

import msgspec

from headcount.errors import ScenarioError
from headcount.records import Conversation

__all__ = ["PRESETS", "WORKLOADS", "Expected", "Workload", "make_workload", "workload_class"]

WORKLOADS: dict[str, str] = {
    "chat": "headcount.workload.chat:Chat",
}

PRESETS: dict[str, dict[str, object]] = {
    "short": {"turns": [2, 4], "prompt_tokens": [16, 48], "output_tokens": [16, 24], "think_s": [0.3, 1.0]},
}
"""Ready personas: the options of ``Chat`` that make them. A scenario may change any of them."""


class Expected(msgspec.Struct, frozen=True):
    """The means of what one person asks, for estimates before anything was measured."""

    turns: float
    """Turns a conversation."""
    think_s: float
    """Pause after one answer."""
    prompt_tokens: float
    """Text of one turn, without history."""
    output_tokens: float
    """The most asked for in one answer."""


class Workload(Protocol):
    """Conversations for each person."""

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """The endless conversations of one person. ``stream`` names the random stream (level and repeat),
        so that a repeated level says new words while a repeated run says the same."""

    def expected(self) -> Expected:
        """The means of what one person asks."""


def make_workload(table: Mapping[str, object], seed: int) -> Workload:
    """The workload that a scenario's ``[workload]`` table describes: ``kind`` and the options of its class.

    ``kind`` is a preset, a key of ``WORKLOADS`` or ``module:Class``; ``chat`` where it is missing.
    Raises ``ScenarioError``.
    """
    from headcount.workload.table import fill

    options = dict(table)
    kind = options.pop("kind", "chat")
    if not isinstance(kind, str):
        raise ScenarioError(f"workload.kind must be a text, not {kind!r}", f"known: {', '.join(_kinds())}")
    if "seed" in options:
        raise ScenarioError("workload.seed is not a known key", "seed stands at the top of the scenario")
    if kind in PRESETS:
        options = {"persona": kind} | PRESETS[kind] | options
        kind = "chat"
    cls = workload_class(kind)
    if issubclass(cls, msgspec.Struct):
        return cast("Workload", fill(cls, options | {"seed": seed}, "workload"))
    try:
        made: Workload = cls(seed=seed, **options)
    except TypeError as error:
        raise ScenarioError(f"workload: {error}", f"see the options of {kind}") from error
    return made


def workload_class(name: str) -> type[Any]:
    """The class behind a name of ``WORKLOADS`` or ``module:Class``; ``ScenarioError`` for anything else."""
    from headcount.workload.table import nearest

    where = WORKLOADS.get(name, name)
    module, colon, attribute = where.partition(":")
    if not colon:
        raise ScenarioError(f"workload.kind {name!r} is not known", nearest(name, _kinds()))
    try:
        found: type[Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"workload.kind {name!r} cannot be loaded: {error}", "check the module's path") from error
    return found


def _kinds() -> list[str]:
    return [*WORKLOADS, *(name for name in PRESETS if name not in WORKLOADS)]
