"""Other tools get flat tables: every level and request once, no formula for spreadsheets, any size."""

from __future__ import annotations

import csv
import io
import sqlite3
import sys
from pathlib import Path

import duckdb
import msgspec
import pytest

from headcount.errors import RunError, ScenarioError
from headcount.records import Request
from headcount.report import save_html, write, write_report
from headcount.report.export import export, in_spreadsheet, level_row, request_row
from tests.report.invented import FACTS, HOSTILE, HOSTILE_VERDICT, PLAIN, report, stored


def test_csv_holds_every_level_and_request(tmp_path: Path) -> None:
    """With headings that name the unit, and what is felt computed."""
    run = stored(tmp_path, each=10)
    levels_path, requests_path = export("csv", run, PLAIN, tmp_path / "out")

    with levels_path.open(newline="") as file:
        levels = list(csv.DictReader(file))
    with requests_path.open(newline="") as file:
        requests = list(csv.DictReader(file))

    assert [int(row["users"]) for row in levels] == [level.users for level in PLAIN.levels]
    assert levels[3]["ttft_p95_s"] == "5.4"
    assert levels[3]["ttft_p95_decision"] == "fails"
    assert len(requests) == len(PLAIN.levels) * 10
    good = next(row for row in requests if not row["error"])
    assert float(good["ttft_s"]) > 0
    assert good["chunks"] == "30"


def test_parquet_holds_the_same_with_types(tmp_path: Path) -> None:
    """Whole numbers, numbers, truths and texts are told apart; a column without any value is there."""
    run = stored(tmp_path, each=10)
    levels_path, requests_path = export("parquet", run, PLAIN, tmp_path / "out's")

    with duckdb.connect() as database:
        rows = database.from_parquet(str(levels_path)).project("users, ttft_p95_s, condition").fetchall()
        assert rows[3] == (64, 5.4, "")
        requests = database.from_parquet(str(requests_path))
        kinds = dict(zip(requests.columns, map(str, requests.types), strict=True))
        assert {kinds[name] for name in ("person", "ttft_s", "streamed", "error")} == {
            "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR",
        }  # fmt: skip
        assert requests.filter("ttft_s > 0").aggregate("count(*)").fetchall() == [(90,)]
    assert sorted(path.name for path in (tmp_path / "out's").iterdir()) == ["levels.parquet", "requests.parquet"]


def test_parquet_without_its_writer_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra, since it weighs half as much as all else together."""
    monkeypatch.setitem(sys.modules, "duckdb", None)

    with pytest.raises(ScenarioError) as caught:
        export("parquet", stored(tmp_path, each=1), PLAIN, tmp_path)
    assert "headcount[parquet]" in caught.value.hint


def test_sqlite_holds_the_same(tmp_path: Path) -> None:
    """And is written anew each time."""
    run = stored(tmp_path, each=10)
    for _ in range(2):
        (path,) = export("sqlite", run, PLAIN, tmp_path)

    database = sqlite3.connect(path)
    try:
        assert database.execute("SELECT count(*), sum(error IS NOT NULL) FROM requests").fetchone() == (90, 0)
        assert database.execute("SELECT ttft_p95_s FROM levels WHERE users = 64").fetchone() == (5.4,)
    finally:
        database.close()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", HOSTILE])
def test_no_text_is_a_formula(text: str) -> None:
    """Spreadsheets run texts that begin with these signs; numbers stay numbers."""
    assert str(in_spreadsheet(text))[0] not in "=+-@"
    assert in_spreadsheet(-1.5) == -1.5


def test_levels_as_csv_on_stdout() -> None:
    """One line a level, hostile names on one line too."""
    rows = list(csv.reader(io.StringIO(write("csv", report(HOSTILE_VERDICT)))))

    assert len(rows) == 2
    assert len(rows[0]) == len(rows[1])


def test_rows_are_flat() -> None:
    """Each cell is one value, whatever the level had."""
    for row in (level_row(PLAIN.levels[0]), request_row(Request(0, 1, 0, 1, 0.0, 1.0, server={"queue_s": 1.0}))):
        assert all(cell is None or isinstance(cell, str | int | float) for cell in row.values())


def test_faults_are_told(tmp_path: Path) -> None:
    """An unknown form names the known ones; a place that cannot be written is a RunError."""
    run = stored(tmp_path, each=1)
    with pytest.raises(ScenarioError) as caught:
        export("xls", run, PLAIN, tmp_path)
    assert "csv, sqlite" in caught.value.hint
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError):
        export("csv", run, PLAIN, tmp_path / "file")


def test_a_report_goes_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the page into the run folder, where a later one replaces it."""
    run = stored(tmp_path, each=5)
    write_report("terminal", PLAIN, FACTS, run.path, "en")
    assert capsys.readouterr().out.startswith(PLAIN.sentence)

    facts = msgspec.structs.replace(FACTS, simulated=True)
    for given in (FACTS, facts):
        page = save_html(PLAIN, given, run.path, "ko")
    assert "시뮬레이션" in page.read_text(encoding="utf-8")
