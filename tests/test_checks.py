"""After a search, from the command line to every report: the burst, accounts, the formula, and the open loop's rate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headcount.cli import main
from headcount.review import nothing_left, review, scenario_of, summaries_of
from headcount.slo import parse_slo
from headcount.store import Run, open_run

FLAGS = ["--engine", "simulated", "--workload", "short", "--max-users", "64", "--slo", "ttft_p95<=2s", "--yes"]


def found(out: Path, *flags: str) -> Run:
    """What ``headcount find`` left behind."""
    assert main(["find", *FLAGS, "--out", str(out), *flags]) == 0
    (folder,) = out.iterdir()
    return open_run(folder)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A search with its burst."""
    return found(tmp_path_factory.mktemp("runs"), "--max-time", "20m", "--active-share", "10%")


def shown(run: Run, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """What ``headcount report`` says."""
    assert main(["report", str(run.path), *flags]) == 0
    return capsys.readouterr().out


def test_everybody_presses_enter_at_once_at_the_recommended_number(searched: Run) -> None:
    """The last level: all start at the same instant; it is no part of the search, and nothing is left after it."""
    *others, last = searched.levels()
    verdict = review(searched)

    assert (last.purpose, last.spread_s) == ("burst", 0.0)
    assert last.users == verdict.recommended_users
    assert "burst" not in {level.purpose for level in others}
    firsts = [r.scheduled_at_s for r in searched.requests() if r.level == last.index and r.conversation == 0]
    assert sum(at_s == pytest.approx(last.began_at_s, abs=0.01) for at_s in firsts) == last.users
    assert "burst" not in {level.purpose for level in verdict.levels}
    assert verdict.burst is not None
    assert verdict.burst_sentence.startswith(f"When all {last.users} press enter at once")
    assert nothing_left(summaries_of(searched, parse_slo(searched.facts.slo)), scenario_of(searched))


@pytest.mark.parametrize(("form", "lang"), [("terminal", "en"), ("markdown", "en"), ("html", "en"), ("terminal", "ko")])
def test_every_report_tells_burst_formula_and_accounts(
    searched: Run, capsys: pytest.CaptureFixture[str], form: str, lang: str
) -> None:
    """In both languages; Korean without a word of English sentences."""
    said = " ".join(shown(searched, capsys, "--format", form, "--lang", lang).split())

    for english, korean in (
        ("press enter at once the slowest waits", "동시에 엔터를"),
        ("by formula", "계산식으로"),
        ("accounts when 10 % of them are active", "계정의 10 %가 활동한다면"),
    ):
        assert (english if lang == "en" else korean) in said.replace("By formula", "by formula")
        assert (korean if lang == "en" else english) not in said


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_long_reports_say_why_the_formula_differs(searched: Run, capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Beside the limit."""
    assert "tokens/s over what one person asks for gives" in shown(searched, capsys, "--format", form)


def test_json_tells_them_as_figures(searched: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """With their units."""
    report = json.loads(shown(searched, capsys, "--format", "json"))

    assert report["burst"]["users"] == report["recommended_users"]
    assert report["burst"]["worst_wait_s"] > 0
    assert report["accounts"] > report["recommended_users"]
    assert report["active_share"] == 0.1
    assert report["first_estimate_users"] > 0


def test_a_stored_run_is_told_for_another_share(searched: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Half as many are active: twice as many accounts, about."""
    report = json.loads(shown(searched, capsys, "--format", "json", "--active-share", "0.05"))

    assert report["active_share"] == 0.05
    assert report["accounts"] > 1.5 * json.loads(shown(searched, capsys, "--format", "json"))["accounts"]


def test_the_burst_can_be_left_out(tmp_path: Path) -> None:
    """And it is said that it was."""
    run = found(tmp_path, "--max-time", "5m", "--no-burst")

    assert "burst" not in {level.purpose for level in run.levels()}
    assert "--no-burst" in review(run).burst_sentence


SCENARIO = """
slo = ["ttft_p95 <= 2 s"]

[engine]
kind = "simulated"
options = { server = "laptop" }

[workload]
kind = "short"
turns = 2

[arrivals]
kind = "open"

[search]
max_time_s = 240
level_time_s = 40
confirmations = 1
"""


def test_the_open_loop_finds_a_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The highest that stays stable, the people inside at it, and where the queue grows; in every report."""
    file = tmp_path / "open.toml"
    file.write_text(SCENARIO)
    assert main(["run", str(file), "--yes", "--out", str(tmp_path / "runs")]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    run = open_run(folder)
    verdict = review(run)

    assert verdict.rate is not None
    assert verdict.rate.rate_per_s is not None
    assert 1.0 < verdict.rate.rate_per_s < 3.0  # four slots complete about 2.1 conversations a second
    assert verdict.limit_users
    assert {level.arrivals for level in run.levels()} == {"open"}
    capsys.readouterr()
    assert "new conversations a second stay stable" in shown(run, capsys)
    assert "초당 새 대화" in shown(run, capsys, "--lang", "ko")
    report = json.loads(shown(run, capsys, "--format", "json"))
    assert report["rate"]["rate_per_s"] == verdict.rate.rate_per_s
    assert main(["report", str(run.path), "--format", "html"]) == 0
