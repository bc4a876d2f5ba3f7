"""The least sum of squares of a few residuals, and how well it determines each number: Levenberg and Marquardt.

Residuals are differentiated by small steps; all numbers should be of size one, logarithms for instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Matrix", "inverse", "least_squares"]

Matrix = list[list[float]]
_STEP = 1e-5


def least_squares(
    residuals: Callable[[list[float]], list[float]], start: Sequence[float], rounds: int = 60
) -> tuple[list[float], Matrix]:
    """Where the sum is least near ``start``, and the covariance of that place if each residual has a variance of 1."""
    x, damping = list(start), 1e-2
    at_x = residuals(x)
    sum_at_x = _sum(at_x)
    normal: Matrix = []
    for _ in range(rounds):
        slopes = _slopes(residuals, x, at_x)
        normal = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in slopes] for p in slopes]
        uphill = [sum(a * b for a, b in zip(p, at_x, strict=True)) for p in slopes]
        before = sum_at_x
        for _ in range(12):
            damped = [[v * (1.0 + damping * (i == j)) for j, v in enumerate(row)] for i, row in enumerate(normal)]
            step = _times(inverse(damped), uphill)
            tried = [v - s for v, s in zip(x, step, strict=True)]
            at_tried = residuals(tried)
            if _sum(at_tried) < sum_at_x:
                x, at_x, sum_at_x, damping = tried, at_tried, _sum(at_tried), damping / 5.0
                break
            damping *= 4.0
        if before - sum_at_x <= 1e-9 * before:
            break
    return x, inverse(normal)


def inverse(matrix: Matrix) -> Matrix:
    """By Gauss and Jordan with row exchanges; a singular matrix raises ``ZeroDivisionError``."""
    size = len(matrix)
    rows = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column][column]
        rows[column] = [v / head for v in rows[column]]
        for i in range(size):
            if i != column and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[column], strict=True)]
    return [row[size:] for row in rows]


def _slopes(residuals: Callable[[list[float]], list[float]], x: list[float], at_x: list[float]) -> Matrix:
    """Of every residual, one row for each number."""
    slopes = []
    for i in range(len(x)):
        moved = residuals([v + _STEP * (i == j) for j, v in enumerate(x)])
        slopes.append([(b - a) / _STEP for a, b in zip(at_x, moved, strict=True)])
    return slopes


def _times(matrix: Matrix, vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def _sum(values: list[float]) -> float:
    return sum(v * v for v in values)
