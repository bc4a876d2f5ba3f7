"""Who gets what: options dealt to people in proportion to their weights, for good."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from headcount.errors import ScenarioError
from headcount.workload.streams import random_stream

__all__ = ["Deal"]


class Deal:
    """Options dealt to person 0, 1, 2 … as cards from a deck that is even everywhere and still shuffled.

    The m-th card of an option lies at a random place in the m-th of its equal intervals, so that the first N people
    hold N x weight of it within about one, for every N; with equal weights each k people hold k different options.
    Deals of different names are independent of each other.
    """

    def __init__(self, weights: Mapping[str, float], seed: int, name: str) -> None:
        kept = {option: weight for option, weight in weights.items() if weight > 0}
        if not kept:
            raise ScenarioError(f"{name}: no option has a weight above 0", "give at least one of them a weight")
        self._weights = kept
        self._chance = {option: random_stream(seed, "deal", name, option) for option in kept}
        self._next = [(self._chance[option].random() / weight, option, 0) for option, weight in kept.items()]
        heapq.heapify(self._next)
        self._dealt: list[tuple[str, int]] = []

    def of(self, person: int) -> tuple[str, int]:
        """The person's option, and how many people before held the same one."""
        if len(self._weights) == 1:
            return next(iter(self._weights)), person
        while len(self._dealt) <= person:
            _, option, number = self._next[0]
            self._dealt.append((option, number))
            due = (number + 1 + self._chance[option].random()) / self._weights[option]
            heapq.heapreplace(self._next, (due, option, number + 1))
        return self._dealt[person]

    def shares(self) -> dict[str, float]:
        """The share of people that each option goes to; sums to 1."""
        total = sum(self._weights.values())
        return {option: weight / total for option, weight in self._weights.items()}
