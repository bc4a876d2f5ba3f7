"""Verbs that read stored runs: one answer, one exit code, damage said, no server needed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from headcount.cli import main
from headcount.records import Level
from headcount.store import RunWriter, open_run
from tests.report.invented import FACTS, stored


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two stored runs of one server."""
    return stored(tmp_path / "a", each=70).path, stored(tmp_path / "b", each=70).path


def test_two_runs_are_compared(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """One statement; the names are those that tell them apart."""
    assert main(["compare", *map(str, runs), "--lang", "en"]) == 0
    assert "a/2026-12-01T10-14-03-invented and b/2026-12-01T10-14-03-invented" in capsys.readouterr().out

    assert main(["compare", *map(str, runs), "--names", "before, after", "--format", "json"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert pair["names"] == ["before", "after"]
    assert pair["statement"] == "cannot-tell"  # a minute of requests that resemble each other says little


def test_a_comparison_can_be_written_to_a_file(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """As a page, for instance."""
    out = tmp_path / "both.html"

    assert main(["compare", *map(str, runs), "--format", "html", "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_two_conditions_of_one_run_are_compared(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was held under two conditions needs no second one; with one condition it says so."""
    run = open_run(runs[0])
    with RunWriter.resume(run.path)[0] as writer:
        for level in run.levels():
            writer.level(msgspec.structs.replace(level, users=8, condition=("whole", "streamed")[level.index % 2]))

    assert main(["compare", str(run.path), "--lang", "en"]) == 0
    assert "whole" in capsys.readouterr().out.splitlines()[0]
    assert main(["compare", str(runs[1])]) == 4
    assert "no two conditions" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "words"), [(["--names", "only-one"], "2 runs"), (["--format", "pdf"], "markdown")])
def test_wrong_flags_of_a_comparison(
    flags: list[str], words: str, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and what would be right."""
    assert main(["compare", *map(str, runs), *flags]) == 2
    assert words in capsys.readouterr().err


def test_damage_is_said_after_a_report(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with its place; the report itself is whole."""
    with (runs[0] / "requests.jsonl").open("ab") as file:
        file.write(b"this is no request\n")

    assert main(["report", str(runs[0]), "--lang", "en"]) in (0, 5)
    captured = capsys.readouterr()
    assert "1 damaged line left out: requests.jsonl line" in captured.err
    assert captured.out


def test_reports_speak_the_language_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plan, progress and answer of a measurement too."""
    flags = ["--engine", "simulated", "--workload", "short", "--max-users", "2", "--max-time", "10m", "--yes"]

    assert main(["find", *flags, "--lang", "ko", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "한계" in captured.out
    assert "서비스 기준" in captured.err
    assert "people" not in captured.err


def test_an_empty_run_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Levels without any request: exit 5, and a sentence."""
    with RunWriter.create(tmp_path, "empty", FACTS, "") as writer:
        writer.level(Level(index=0, users=1, began_at_s=0.0))

    assert main(["report", str(writer.path)]) == 5
    assert capsys.readouterr().out
