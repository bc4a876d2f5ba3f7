"""The least value of a function of a few numbers, without derivatives: Nelder and Mead's simplex, restarted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["minimise"]


def minimise(
    loss: Callable[[list[float]], float],
    start: Sequence[float],
    steps: Sequence[float] = (0.3, -0.2, 0.1),
    rounds: int = 80,
) -> list[float]:
    """Where ``loss`` is least near ``start``: one simplex for each of ``steps``, each begun at the best so far."""
    best = list(start)
    for step in steps:
        best = _simplex(loss, best, step, rounds)
    return best


def _simplex(loss: Callable[[list[float]], float], start: list[float], step: float, rounds: int) -> list[float]:
    size = len(start)
    corners = [start, *([v + step * (i == j) for j, v in enumerate(start)] for i in range(size))]
    found = sorted((loss(x), x) for x in corners)
    for _ in range(rounds):
        centre = [sum(x[i] for _, x in found[:-1]) / size for i in range(size)]
        tried = _beyond(loss, centre, found[-1][1], 1.0)
        if tried < found[0]:
            tried = min(tried, _beyond(loss, centre, found[-1][1], 2.0))
        elif tried >= found[-2]:
            tried = _beyond(loss, centre, found[-1][1], -0.5)
        if tried < found[-1]:
            found[-1] = tried
        else:
            best = found[0][1]
            shrunk = [[(b + v) / 2 for b, v in zip(best, x, strict=True)] for _, x in found[1:]]
            found = [found[0], *((loss(x), x) for x in shrunk)]
        found.sort()
    return found[0][1]


def _beyond(
    loss: Callable[[list[float]], float], centre: list[float], worst: list[float], factor: float
) -> tuple[float, list[float]]:
    """The worst corner mirrored in the centre of the others, ``factor`` times as far."""
    x = [c + factor * (c - w) for c, w in zip(centre, worst, strict=True)]
    return loss(x), x
