"""What pasted documents do to short answers: the worst of what is clear is said, and nothing that is not."""

from __future__ import annotations

import math

import pytest

from headcount.analysis.compare import Ratio
from headcount.analysis.findings import interference


def ratio(measure: str, value: float, error: float) -> Ratio:
    """A ratio whose logarithm has this standard error."""
    low, high = value * math.exp(-1.96 * error), value * math.exp(1.96 * error)
    return Ratio(measure, 0, "", None, None, value, low, high, "worse" if low > 1 else "cannot-tell")


CLEAR, VAGUE, NONE = (3.0, 0.1), (1.7, 0.5), (1.0, 0.01)


@pytest.mark.parametrize(
    ("pauses", "slowest", "typical", "begins"),
    [
        (CLEAR, CLEAR, CLEAR, "Pasted documents make short answers stall: the longest pauses take 3.00 times"),
        (VAGUE, CLEAR, CLEAR, "Pasted documents make short questions wait: the slowest first tokens take 3.00 times"),
        (VAGUE, VAGUE, CLEAR, "Pasted documents make short questions wait: first tokens take 3.00 times"),
        (VAGUE, VAGUE, VAGUE, ""),
        (NONE, NONE, NONE, ""),
    ],
)
def test_the_worst_of_what_is_clear_is_said(
    pauses: tuple[float, float], slowest: tuple[float, float], typical: tuple[float, float], begins: str
) -> None:
    """A stall is worse than a wait; typical waits are told by fewer answers than the slowest ones."""
    said = interference._disturbed(
        ratio("max_gap_p95_s", *pauses), ratio("ttft_p95_s", *slowest), ratio("ttft_p50_s", *typical)
    )

    assert said.startswith(begins)
    assert bool(said) == bool(begins)
