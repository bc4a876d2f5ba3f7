"""Rechecks of a simulated server from end to end: exit codes, files for CI, the history of a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headcount.cli import main

FLAGS = ["--engine", "simulated", "--workload", "short", "--max-users", "8", "--max-time", "10m", "--yes"]


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose limit is at least 8 people."""
    out = tmp_path_factory.mktemp("runs")
    assert main(["find", *FLAGS, "--out", str(out)]) == 0
    (folder,) = out.iterdir()
    return folder


def as_if(baseline: Path, tmp_path: Path, speed: float) -> Path:
    """The baseline, as if its server were now faster or slower."""
    path = tmp_path / "baseline"
    shutil.copytree(baseline, path)
    scenario = path / "scenario.toml"
    text = scenario.read_text()
    assert "[engine.options]\n" in text
    scenario.write_text(text.replace("[engine.options]\n", f"[engine.options]\nspeed = {speed}\nseed = 5\n"))
    return path


@pytest.mark.parametrize(("speed", "code"), [(1.0, 0), (0.8, 1), (1.3, 6)])
def test_exit_codes(
    speed: float, code: int, baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 as it was, 1 slower, 6 faster; what changed is said."""
    path = as_if(baseline, tmp_path, speed)

    assert main(["recheck", str(path), "--out", str(tmp_path / "out"), "--lang", "en"]) == code
    captured = capsys.readouterr()
    headline = {0: "as it was", 1: "worse", 6: "better"}[code]
    assert headline in captured.out.splitlines()[0]
    assert ("speed changed from 1 to" in captured.out) == (speed != 1.0)


def test_ci_gets_its_files_and_its_condition(baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slower server whose limit holds is fine where only the limit matters; JUnit and the job's summary say so."""
    path, junit, summary = as_if(baseline, tmp_path, 0.8), tmp_path / "junit.xml", tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    flags = ["--fail-on", "limit<-5%", "--junit", str(junit), "--out", str(tmp_path / "out"), "--lang", "en"]

    assert main(["recheck", str(path), *flags]) == 0
    (suite,) = ElementTree.fromstring(junit.read_text())
    assert suite.get("failures") == "0"
    assert summary.read_text().startswith("## ✅ The server is worse than it was")


def test_a_history_lists_a_folder(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And leaves out, with a word, what is no run."""
    broken = baseline.parent / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")

    assert main(["history", str(baseline.parent), "--lang", "en"]) == 0
    captured = capsys.readouterr()
    assert "≥ 8" in captured.out
    assert "left out" in captured.err


def test_what_cannot_be_rechecked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty folder has no history, an import no server, a run without a limit nothing to check."""
    assert main(["history", str(tmp_path)]) == 4
    data = Path(__file__).parents[1] / "data"
    assert main(["import", str(data / "imports" / "vllm-plain.json"), "--out", str(tmp_path)]) == 0
    imported = capsys.readouterr().out.strip()
    assert main(["recheck", imported, "--out", str(tmp_path)]) == 2
    assert main(["recheck", str(data / "run-format-1"), "--out", str(tmp_path)]) == 2
    assert main(["recheck", imported, "--fail-on", "nonsense"]) == 2
    assert main(["recheck", imported, "--format", "pdf"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_files_for_ci_are_tried_before_measuring(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4 at once, with the file; nothing was measured, and a file that can be written is not left behind empty."""
    nowhere, fine = tmp_path / "none" / "junit.xml", tmp_path / "summary.md"
    flags = ["--summary", str(fine), "--junit", str(nowhere), "--out", str(tmp_path / "out")]

    assert main(["recheck", str(baseline), *flags]) == 4
    assert f"cannot write {nowhere}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_damage_is_told_in_every_report(baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of samples that cannot be read is a caution of the answer, in Korean too."""
    run = tmp_path / "damaged"
    shutil.copytree(baseline, run)
    with (run / "samples.jsonl").open("ab") as file:
        file.write(b"\x00\n")

    for form in ("terminal", "markdown", "json", "html"):
        main(["report", str(run), "--format", form, "--lang", "en"])
        assert "1 damaged line" in capsys.readouterr().out
    main(["report", str(run), "--lang", "ko"])
    assert "손상된" in capsys.readouterr().out


def test_histories_keep_questions_apart(baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of other people, or of a simulated and a real server, are series of their own."""
    runs = tmp_path / "runs"
    for name in ("a", "b", "c"):
        shutil.copytree(baseline, runs / name)
    scenario = runs / "b" / "scenario.toml"
    scenario.write_text(scenario.read_text().replace('kind = "short"', 'kind = "short"\noutput_tokens = 20'))
    facts = runs / "c" / "run.json"
    facts.write_text(facts.read_text().replace('"simulated": true', '"simulated": false'))

    main(["history", str(runs), "--lang", "en"])
    titles = [line for line in capsys.readouterr().out.splitlines() if " · " in line]
    assert len(titles) == 3
    assert sum(line.startswith("simulated · ") for line in titles) == 2
    assert any(line.endswith('short {"output_tokens":20}') for line in titles)
