"""Energy and cost as people read them: nothing without watts, no money without prices."""

from __future__ import annotations

import msgspec

from headcount.analysis.conclusions import GpuFigures
from headcount.prices import Prices
from headcount.report import cost
from headcount.report.words import words
from tests.report.invented import altered, level

SEEN = msgspec.structs.replace(
    level(0, 20, "holds"),
    gpus=(GpuFigures("GPU-1", None, None, 500.0, None),),
    output_tokens_per_s=1000.0,
    requests_per_s=5.0,
)
PRICES = Prices(electricity_per_kwh=0.36)


def test_the_answers_line_tells_the_recommended_number_at_the_nearest_level() -> None:
    """500 W at 0.36 a kWh, 1,000 tokens a second: 0.05 a million."""
    verdict = altered(levels=(SEEN,), recommended_users=15)

    assert cost.answer_lines(verdict, PRICES, words("en")) == [
        (
            "Cost",
            "at 20 people 500 W, 25 W a person · 0.05 EUR a million tokens · "
            "6.57 EUR a person and month, if so busy day and night",
        )
    ]
    assert cost.answer_lines(verdict, None, words("en")) == []
    assert cost.answer_lines(altered(levels=(level(0, 20, "holds"),)), PRICES, words("en")) == []


def test_the_table_has_joules_always_and_money_with_prices() -> None:
    """A hostile currency stays one short line."""
    (plain,) = cost.tables(altered(levels=(SEEN,)), None, words("en"))
    assert plain.rows == [["20", "500 W", "25", "0.5", "100"]]
    priced = Prices(electricity_per_kwh=0.36, currency="\x1b[31m" + "x" * 99)
    (table,) = cost.tables(altered(levels=(SEEN,)), priced, words("en"))
    assert table.rows == [["20", "500 W", "25", "0.5", "100", "0.05", "6.57"]]
    assert table.headings[-1] == "[31mxxxxxxx… a person and month"
    assert cost.tables(altered(levels=()), priced, words("en")) == []


def test_it_is_told_in_korean() -> None:
    """Every word of it."""
    ((name, value),) = cost.answer_lines(altered(levels=(SEEN,), recommended_users=15), PRICES, words("ko"))

    assert name == "비용"
    assert "1인당" in value
    assert "people" not in value
