"""The levels as one CSV table on stdout; requests too are in ``headcount export``."""

from __future__ import annotations

import csv
import io

from headcount.report import Report
from headcount.report.export import in_spreadsheet, level_row

__all__ = ["write"]


def write(report: Report) -> str:
    """One line a level, in the order they were held."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, row in enumerate(map(level_row, report.verdict.levels)):
        if number == 0:
            writer.writerow(row)
        writer.writerow(map(in_spreadsheet, row.values()))
    return text.getvalue()
