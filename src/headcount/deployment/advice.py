"""Who is served with what: models for shares of the people, caps, headroom, when to buy. Pure arithmetic on capacities.

Every sentence stands with the figures it rests on. Knows nothing of servers, gateways and simulation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from headcount.deployment.capacity import Capacity, Measured, capacity_of
from headcount.errors import NotTrustedError, ScenarioError

__all__ = ["Advice", "Demand", "Part", "advise"]


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Who is expected, and what they are promised."""

    people: int | None = None
    """At once, thinking ones included; None: as many as the servers carry."""
    complex_share: float = 0.2
    """The share of people whose questions need the larger model."""
    comfort: str = "slightly slow"
    """One of ``WANTED``."""
    growth_factor: float = 1.0
    """How many times as many people are to come."""
    complex_model: str | None = None
    """The model for complex questions; None: the one that carries fewest."""


class Part(msgspec.Struct, frozen=True):
    """One model's part of the plan."""

    name: str
    role: str
    """``simple``, ``complex`` or ``all``."""
    users: int
    """People sent to it."""
    share: float
    """Of all people."""
    servers: int
    """Servers there are: one for each run."""
    servers_needed: int
    """For everybody who asks such questions, ``growth_factor`` included."""
    carries_users: int
    """On one server, in the way chosen."""
    streamed: bool
    """Whole answers miss the comfort wanted, streamed ones hold: streaming is mandatory."""
    cap_requests: int
    """The most requests in flight on one server."""
    held_users: int
    """The most people on one server who were seen to be served as wanted, in the way chosen; what a run recommends
    lies below."""
    headroom_fraction: float
    """Of those on the servers there are; below 0 when more come."""
    further_from_users: int
    """From so many people of the whole mix on, one more server of this model is needed."""
    whole_until_users: int
    """Up to so many people of the whole mix whole answers hold on the servers there are; 0: never."""
    capacity: Capacity


class Advice(msgspec.Struct, frozen=True):
    """The plan."""

    demand: Demand
    people: int
    """Expected, or carried where nobody said how many are."""
    parts: tuple[Part, ...]
    """Models for simple questions first."""

    @property
    def carried(self) -> bool:
        """Whether the servers there are carry the people expected."""
        return all(part.users <= part.carries_users * part.servers for part in self.parts)

    @property
    def overflow_users(self) -> int:
        """People with complex questions for whom the larger model has no room: they are served by the smaller."""
        wanted = round(self.people * self.demand.complex_share) if len(self.parts) > 1 else 0
        return max(0, wanted - sum(part.users for part in self.parts if part.role == "complex"))


def advise(measured: Sequence[Measured], demand: Demand) -> Advice:
    """Share people out. Raises ``NotTrustedError`` for a model that carries nobody as wanted, ``ScenarioError`` for a
    model that no run is of."""
    capacities = _capacities(measured, demand)
    simple, complex_name = _roles(capacities, demand)
    shares = _shares(capacities, simple, complex_name, demand.complex_share)
    people = demand.people
    if people is None:
        people = min(math.floor(_carried(capacities[name]) / share) for name, share in shares.items() if share > 0)
    users = _people_by_model(people, shares, complex_name, capacities)
    parts = []
    for name in (*simple, *([complex_name] if complex_name else [])):
        role = "complex" if name == complex_name else "simple" if complex_name else "all"
        parts.append(_part(name, role, users[name], people, shares[name], capacities[name], demand.growth_factor))
    return Advice(demand, people, tuple(parts))


_Servers = tuple[Capacity, int]
"""What one server of a model carries, and how many there are."""


def _capacities(measured: Sequence[Measured], demand: Demand) -> dict[str, _Servers]:
    """By model; several runs of one are several servers, each taken for the one that carries fewest."""
    found: dict[str, list[Capacity]] = defaultdict(list)
    for each in measured:
        found[each.name].append(capacity_of(each, demand.comfort))
    servers = {name: (min(them, key=lambda one: one.users or 0), len(them)) for name, them in found.items()}
    for name, (capacity, _) in servers.items():
        if capacity.users is None:
            missed = capacity.missed
            shown = "" if missed is None else f": p50 {missed.e2e_s.p50 or 0.0:.1f} s with {missed.users} people"
            raise NotTrustedError(
                f"{name} serves nobody who wants it {demand.comfort}{shown}",
                "measure fewer people, or plan with --comfort 'slightly slow'",
            )
    return servers


def _roles(capacities: Mapping[str, _Servers], demand: Demand) -> tuple[list[str], str | None]:
    """Models for simple questions, and the one for complex ones: whoever carries fewest was taken for something."""
    named = demand.complex_model
    if named is not None and named not in capacities:
        raise ScenarioError(f"--complex {named!r}: no run is of this model", f"there are: {', '.join(capacities)}")
    order = sorted(capacities, key=lambda name: -_carried(capacities[name]))
    if len(order) == 1:
        return order, None
    last = named or order[-1]
    return [name for name in order if name != last], last


def _shares(
    capacities: Mapping[str, _Servers], simple: Sequence[str], complex_name: str | None, complex_share: float
) -> dict[str, float]:
    """Of people by model; simple questions are shared out by what each model carries."""
    left = 1.0 if complex_name is None else 1.0 - complex_share
    total = sum(_carried(capacities[name]) for name in simple)
    shares = {name: left * _carried(capacities[name]) / total for name in simple}
    return shares if complex_name is None else {**shares, complex_name: complex_share}


def _people_by_model(
    people: int, shares: Mapping[str, float], complex_name: str | None, capacities: Mapping[str, _Servers]
) -> dict[str, int]:
    """People to each model; the larger one never gets more than it carries, the smaller ones take the rest."""
    users = {name: round(people * share) for name, share in shares.items()}
    if complex_name is not None:
        users[complex_name] = min(users[complex_name], _carried(capacities[complex_name]))
    first = next(iter(shares))
    users[first] += people - sum(users.values())
    return users


def _part(name: str, role: str, users: int, people: int, share: float, found: _Servers, growth: float) -> Part:
    capacity, servers = found
    whole = capacity.whole_users or 0
    streamed = users > whole * servers and (capacity.users or 0) > whole
    carries = (capacity.users or 0) if streamed or not whole else whole
    cap = capacity.cap_requests if streamed or not whole else capacity.whole_cap_requests
    level = capacity.level if streamed or not whole else capacity.whole_level
    held = level.users if level is not None else carries
    most = _carried(found)
    needed = math.ceil(round(people * growth * share, 6) / (capacity.users or 1))
    return Part(
        name=name,
        role=role,
        users=users,
        share=users / people if people else 0.0,
        servers=servers,
        servers_needed=max(1, needed),
        carries_users=carries,
        streamed=streamed,
        cap_requests=cap or carries,
        held_users=held,
        headroom_fraction=1.0 - users / (held * servers),
        further_from_users=_first_beyond(most, share),
        whole_until_users=_first_beyond(whole * servers, share) - 1 if whole else 0,
        capacity=capacity,
    )


def _first_beyond(carried_users: int, share: float) -> int:
    """The fewest people of the mix of whom more than ``carried_users`` come to a model with this share."""
    return math.floor(round(carried_users / share, 6)) + 1 if share > 0 else carried_users + 1


def _carried(found: _Servers) -> int:
    capacity, servers = found
    return (capacity.users or 0) * servers
