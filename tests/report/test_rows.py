"""The table of levels folds repeats without hiding a failure."""

from __future__ import annotations

from headcount.report.rows import level_rows, near_limit, worst_clause
from tests.report.invented import PLAIN, altered, level


def test_repeats_become_one_row_that_shows_the_worst() -> None:
    """Three confirmations of 48 people are one row, with the figures of the one that missed most."""
    row = next(row for row in level_rows(PLAIN) if row.users == 48)

    assert (row.decision, row.agreeing, row.repeats) == ("holds", 3, 3)
    assert row.level.index == 6


def test_one_failed_repeat_decides_the_row() -> None:
    """A level that failed once has not held."""
    (row,) = level_rows(altered(levels=(level(0, 8), level(1, 8, "fails", miss_fraction=0.2), level(2, 8))))

    assert (row.decision, row.agreeing, row.repeats) == ("fails", 1, 3)


def test_a_repeat_too_short_to_tell_takes_no_hold_away() -> None:
    """Undecided is no evidence; how many held of how many stays visible."""
    (row,) = level_rows(altered(levels=(level(0, 8, "undecided"), level(1, 8), level(2, 8))))

    assert (row.decision, row.agreeing, row.repeats) == ("holds", 2, 3)


def test_a_void_repeat_counts_only_when_all_are_void() -> None:
    """A voided level says nothing about its people."""
    (row,) = level_rows(altered(levels=(level(0, 8, "void"), level(1, 8))))
    assert (row.decision, row.repeats) == ("holds", 1)

    (row,) = level_rows(altered(levels=(level(0, 8, "void"),)))
    assert row.decision == "void"


def test_conditions_have_rows_of_their_own() -> None:
    """The same people under another condition are another row."""
    rows = level_rows(altered(levels=(level(0, 8, condition="whole", whole=True), level(1, 8, condition="streamed"))))

    assert [(row.condition, row.whole) for row in rows] == [("streamed", False), ("whole", True)]


def test_few_rows_stand_around_the_limit() -> None:
    """The first row stays, the others are the nearest to the limit."""
    rows = level_rows(altered(levels=tuple(level(n, n) for n in range(1, 21))))

    assert [row.users for row in near_limit(rows, 12, 5)] == [1, 10, 11, 12, 13]
    assert near_limit(rows, None, 30) == rows


def test_the_worst_clause_is_the_failed_one() -> None:
    """Even when another is nearer to its own bound."""
    failed = worst_clause(level(0, 8, "fails", miss_fraction=0.2))

    assert failed is not None
    assert failed.clause == "ttft_p95 <= 2 s"
