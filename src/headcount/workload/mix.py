"""Mix: several personas, each person one of them for good."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from headcount.records import Conversation
from headcount.workload import Expected, Workload, make_persona
from headcount.workload.bounds import TokenCost, Weight
from headcount.workload.deal import Deal

__all__ = ["Mix"]


class Mix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """``kind = "mix"``: personas in proportion to their weights.

    The k-th person of a persona says the same whatever other personas there are.
    """

    seed: int = 1
    """Filled from the scenario's own ``seed``."""
    personas: Annotated[dict[str, dict[str, object]], Meta(min_length=1)]
    """By name: ``weight`` (1 where missing), ``kind`` (the name itself where that is a ready persona, else ``chat``)
    and the options of that kind."""
    languages: str | dict[str, Weight] = ""
    """For all personas that do not say themselves."""
    tokens_per_word: dict[str, TokenCost] = {}
    """For all personas that do not say themselves."""

    def __post_init__(self) -> None:
        for name, table in self.personas.items():
            weight = table.get("weight", 1.0)
            if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 <= weight <= 1e9:
                raise ValueError(f"personas.{name}.weight must be a number from 0 to 1e9; write e.g. weight = 2")
        if not any(table.get("weight", 1.0) for table in self.personas.values()):
            raise ValueError("no persona has a weight above 0; give at least one of them a weight")
        _ = self.workloads  # a mistake in a persona shows here, not when the first person speaks

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """The conversations of the persona that was dealt to this person."""
        name, ordinal = self._deal.of(person)
        return self.workloads[name].conversations(ordinal, stream)

    def expected(self) -> Expected:
        """The means over people: each persona counts by its share of them."""
        shares = self._deal.shares()
        parts = [(share, msgspec.structs.astuple(self.workloads[name].expected())) for name, share in shares.items()]
        return Expected(*(sum(share * part[i] for share, part in parts) for i in range(len(parts[0][1]))))

    @functools.cached_property
    def workloads(self) -> dict[str, Workload]:
        """The workload of each persona."""
        common: dict[str, object] = {"languages": self.languages} if self.languages else {}
        if self.tokens_per_word:
            common["tokens_per_word"] = self.tokens_per_word
        return {name: make_persona(name, table, common, self.seed) for name, table in self.personas.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the personas' files left out."""
        return tuple(note for workload in self.workloads.values() for note in getattr(workload, "notes", ()))

    @functools.cached_property
    def _deal(self) -> Deal:
        weights = {name: float(table.get("weight", 1.0)) for name, table in self.personas.items()}  # type: ignore[arg-type]
        return Deal(weights, self.seed, "personas")
