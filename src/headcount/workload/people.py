"""What stays with a person for good: model, LoRA adapter, and whether answers are streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from headcount.errors import ScenarioError
from headcount.records import Conversation
from headcount.workload import Expected, Workload
from headcount.workload.bounds import Weight
from headcount.workload.deal import Deal

__all__ = ["Assigned", "People"]

Share = Annotated[float, Meta(ge=0, le=1)]


class People(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys that any workload and any persona of a mix may have."""

    streamed: bool | Share = True
    """Whether answers are streamed, or the share of people whose answers are."""
    models: str | tuple[str, ...] | dict[str, Weight] = ()
    """One model, several in equal shares, or the weight of each; empty: the engine's own."""
    adapters: str | tuple[str, ...] | dict[str, Weight] = ()
    """LoRA adapters in equal shares, or the weight of each; ``"all"``: those the server has."""
    adapter_zipf: Annotated[float, Meta(gt=0, le=100)] | None = None
    """The k-th adapter of the list gets the weight k**-adapter_zipf: a few popular ones and a long tail."""
    adapter_share: Share = 1.0
    """The share of people who use an adapter at all; the others use the base model."""

    def __post_init__(self) -> None:
        if self.adapter_zipf is not None and isinstance(self.adapters, dict):
            raise ValueError("adapter_zipf and weights of adapters are both given; keep one of them")


class Assigned:
    """A workload whose people have been given what ``People`` says. Deals are independent of each other."""

    def __init__(self, people: People, made_for: Callable[[str | None], Workload], seed: int, name: str) -> None:
        self._people = people
        self._made_for = made_for
        self._seed = seed
        self._name = name
        self._workloads: dict[str | None, Workload] = {}
        self._models = self._deal("models", _weights(people.models))
        shares = {"streamed": float(people.streamed), "whole": 1 - float(people.streamed)}
        self._styles = Deal(shares, seed, f"{name} styles")
        self._users = Deal({"adapter": people.adapter_share, "base": 1 - people.adapter_share}, seed, f"{name} users")
        self._adapters = self._deal("adapters", _adapter_weights(people))

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """The conversations of one person, all with the same model, adapter and style."""
        if self._people.adapters == "all":
            raise ScenarioError(f"{self._name}: adapters = 'all', but nobody told which there are", "list them")
        model = self._models.of(person)[0] if self._models else None
        adapter = None
        if self._adapters:
            use, ordinal = self._users.of(person)
            adapter = self._adapters.of(ordinal)[0] if use == "adapter" else None
        streamed = self._styles.of(person)[0] == "streamed"
        for conversation in self._workload(model).conversations(person, stream):
            yield msgspec.structs.replace(
                conversation,
                model=model or conversation.model,
                adapter=adapter or conversation.adapter,
                streamed=streamed and conversation.streamed,
            )

    def expected(self) -> Expected:
        """As without people."""
        return self._workload(None).expected()

    @property
    def notes(self) -> tuple[str, ...]:
        """As without people."""
        return getattr(self._workload(None), "notes", ())

    def _workload(self, model: str | None) -> Workload:
        if model not in self._workloads:
            self._workloads[model] = self._made_for(model)
        return self._workloads[model]

    def _deal(self, what: str, weights: Mapping[str, float]) -> Deal | None:
        return Deal(weights, self._seed, f"{self._name} {what}") if weights else None


def _weights(given: str | tuple[str, ...] | dict[str, float]) -> Mapping[str, float]:
    if isinstance(given, str):
        return {given: 1.0} if given else {}
    return given if isinstance(given, dict) else dict.fromkeys(given, 1.0)


def _adapter_weights(people: People) -> Mapping[str, float]:
    if people.adapters == "all":
        return {}
    weights = _weights(people.adapters)
    if people.adapter_zipf is None:
        return weights
    return {name: rank**-people.adapter_zipf for rank, name in enumerate(weights, 1)}
