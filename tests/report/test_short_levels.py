"""A level that was left before a turn was over: its throughput is marked, and neither drawn nor reckoned with."""

from __future__ import annotations

import msgspec

from headcount.analysis.formula import first_estimate
from headcount.analysis.statements import statements
from headcount.report import outline
from headcount.report.rows import level_rows
from headcount.report.words import words
from tests.report.invented import altered, level

HELD = msgspec.structs.replace(level(0, 64), output_tokens_per_s=2046.0, turn_cycle_s=12.0, window_s=43.0)
LEFT = msgspec.structs.replace(level(1, 128), output_tokens_per_s=5417.0, turn_cycle_s=12.0, window_s=4.0)


def test_its_throughput_stands_in_brackets_with_a_note() -> None:
    """The other one's does not, and without such a level there is no note."""
    _ = words("en")
    rows = level_rows(altered(levels=(HELD, LEFT)))

    assert ["2,046" in outline.cells(row, False, _, str) for row in rows] == [True, False]
    assert ["(5,417)" in outline.cells(row, False, _, str) for row in rows] == [False, True]
    assert [row.throughput_tokens_per_s for row in rows] == [2046.0, None]
    assert outline.footnote(rows, _) == "(tokens/s): left before a turn was over, mostly too high"
    assert outline.footnote(rows[:1], _) is None


def test_nothing_is_reckoned_with_it() -> None:
    """Neither the first estimate nor what each person more brought."""
    assert first_estimate([HELD, LEFT]) == first_estimate([HELD])
    assert statements([HELD, LEFT], []) == ()


def test_unknown_turns_are_long() -> None:
    """Other tools tell no turn cycle, and do not cut levels short."""
    told = msgspec.structs.replace(LEFT, turn_cycle_s=None)

    assert [row.throughput_tokens_per_s for row in level_rows(altered(levels=(told,)))] == [5417.0]
