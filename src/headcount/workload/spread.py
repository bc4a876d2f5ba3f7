"""How lengths, turns and pauses vary: each distribution is its quantile function, drawn by one uniform number.

One draw takes one number from its stream, so that a wider spread moves no other draw. Bounds clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from statistics import NormalDist, fmean
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = [
    "Lognormal",
    "Normal",
    "Quantiles",
    "Spread",
    "Uniform",
    "check",
    "count_quantile",
    "draw",
    "draw_count",
    "mean",
    "mean_count",
    "quantile",
]

_STANDARD = NormalDist()
_GRID = tuple((i + 0.5) / 2000 for i in range(2000))

Amount = Annotated[float, Meta(ge=0, le=1e9)]

_GREATEST_SHARE = 1 - 2**-53
"""The greatest number that ``random()`` gives."""


class _Bounded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    min: Annotated[float, Meta(ge=0)] = 0.0
    max: Annotated[float, Meta(ge=0)] = math.inf

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError(f"min = {self.min:g} is above max = {self.max:g}; swap them")

    def clipped(self, value: float) -> float:
        """``value``, but within the bounds."""
        return min(self.max, max(self.min, value))


class Uniform(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="uniform"):
    """Every value between ``low`` and ``high``, both included, equally often. ``[low, high]`` is short for it."""

    low: Amount
    high: Amount

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low = {self.low:g} is above high = {self.high:g}; swap them")


class Normal(_Bounded, frozen=True, tag="normal"):
    """A bell of this mean and standard deviation, clipped to ``min`` and ``max``."""

    mean: Amount
    sd: Amount


class Lognormal(_Bounded, frozen=True, tag="lognormal"):
    """Many small and a few very large values: exp of a normal with this median; ``sigma`` of the logarithm."""

    median: Annotated[float, Meta(gt=0, le=1e9)]
    sigma: Annotated[float, Meta(ge=0, le=10)]


class Quantiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="quantiles"):
    """Measured quantiles at equal steps from the smallest to the largest value, straight lines between them."""

    values: Annotated[tuple[Amount, ...], Meta(min_length=2)]

    def __post_init__(self) -> None:
        if list(self.values) != sorted(self.values):
            raise ValueError("values must go from the smallest to the largest; sort them")


Pair = Annotated[tuple[Amount, ...], Meta(min_length=2, max_length=2)]
# not tuple[Amount, Amount]: beside a bounded float in one union msgspec 0.23 reads beyond its memory

Spread = Amount | Pair | Uniform | Normal | Lognormal | Quantiles
"""In a scenario: ``500``, ``[30, 250]`` or ``{ kind = "lognormal", median = 120, sigma = 0.8, max = 4000 }``."""


def check(name: str, spread: Spread, least: float = 0.0, most: float = math.inf) -> None:
    """``ValueError`` when a pair falls, or when a draw could lie outside ``least`` .. ``most``; the Structs check
    themselves. The lower tail of a bell is clipped, not refused: nobody names its end."""
    if isinstance(spread, tuple) and spread[0] > spread[1]:
        raise ValueError(f"{name} = [{spread[0]:g}, {spread[1]:g}] falls; swap the numbers")
    lowest = spread.max if isinstance(spread, Normal | Lognormal) else quantile(spread, 0.0)
    if lowest < least:
        raise ValueError(f"{name} can be {lowest:g}, which is below {least:g}; raise it")
    greatest = quantile(spread, _GREATEST_SHARE)
    if greatest > most:
        capped = isinstance(spread, Normal | Lognormal) and math.isinf(spread.max)
        remedy = f"give it max = {most:g} or less" if capped else "lower it"
        raise ValueError(f"{name} can reach {greatest:g}, which is above {most:g}; {remedy}")


def quantile(spread: Spread, share: float) -> float:
    """The value that ``share`` (0..1, 1 excluded) of all draws stay below."""
    match spread:
        case Uniform(low, high):
            return low + share * (high - low)
        case tuple():
            return spread[0] + share * (spread[1] - spread[0])
        case Normal():
            return spread.clipped(spread.mean + spread.sd * _bell(share))
        case Lognormal():
            return spread.clipped(spread.median * math.exp(spread.sigma * _bell(share)))
        case Quantiles(values):
            place = share * (len(values) - 1)
            below = min(int(place), len(values) - 2)
            return values[below] + (place - below) * (values[below + 1] - values[below])
    return float(spread)


def count_quantile(spread: Spread, share: float) -> int:
    """As ``quantile`` for whole numbers: a uniform spread gives each of its whole numbers equally often."""
    match spread:
        case (low, high) | Uniform(low, high):
            first, last = math.ceil(low), math.floor(high)
            return first + int(share * (last - first + 1)) if last >= first else round(low)
        case _:
            return round(quantile(spread, share))


def draw(spread: Spread, rng: Random) -> float:
    """One value; takes exactly one number from ``rng``."""
    return quantile(spread, rng.random())


def draw_count(spread: Spread, rng: Random, least: int = 1) -> int:
    """One whole number, at least ``least``; takes exactly one number from ``rng``."""
    return max(least, count_quantile(spread, rng.random()))


def mean(spread: Spread) -> float:
    """The mean of many draws, by the midpoint rule: exact for fixed and uniform ones, within 1 % otherwise."""
    return _mean_of(lambda share: quantile(spread, share))


def mean_count(spread: Spread, least: int = 1) -> float:
    """The mean of many whole draws of at least ``least``."""
    return _mean_of(lambda share: max(least, count_quantile(spread, share)))


def _mean_of(value_at: Callable[[float], float]) -> float:
    return fmean(map(value_at, _GRID))


def _bell(share: float) -> float:
    """The standard normal quantile, its infinite end cut off where ``random()`` gives 0."""
    return _STANDARD.inv_cdf(max(share, 1e-12))
