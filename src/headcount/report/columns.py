"""Texts in columns as wide as their widest cell, for terminals; Korean letters are two cells wide."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headcount.report.format import clean

__all__ = ["columns"]


def columns(table: Sequence[Sequence[str]], left: Collection[int] = (0, 1)) -> list[str]:
    """One line a row; columns whose places are not in ``left`` stand to the right.

    >>> columns([["a", "b", "c"], ["aa", "bb", "22"]])
    ['a   b    c', 'aa  bb  22']
    """
    from rich.cells import cell_len

    rows = [[clean(cell) for cell in row] for row in table]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(rows[0]))]

    def padded(text: str, place: int) -> str:
        space = " " * (widths[place] - cell_len(text))
        return text + space if place in left else space + text

    return ["  ".join(padded(cell, place) for place, cell in enumerate(row)).rstrip() for row in rows]
