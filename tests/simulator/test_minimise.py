"""The simplex finds the bottom of valleys, bent ones too."""

import pytest

from headcount.simulator.minimise import minimise


def test_a_bent_valley() -> None:
    """Rosenbrock's function from its usual start."""

    def valley(x: list[float]) -> float:
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    assert minimise(valley, [-1.2, 1.0], rounds=200) == pytest.approx([1.0, 1.0], abs=1e-3)


def test_four_numbers_at_once() -> None:
    """A bowl somewhere else."""
    bottom = [0.3, -2.0, 5.0, 0.0]

    found = minimise(lambda x: sum((a - b) ** 2 for a, b in zip(x, bottom, strict=True)), [0.0] * 4, rounds=300)

    assert found == pytest.approx(bottom, abs=1e-3)
