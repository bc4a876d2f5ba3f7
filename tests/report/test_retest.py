"""What a recheck found, in every format: one headline, JUnit that parses, nothing hostile active."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import msgspec
import pytest

from headcount.analysis.recheck import judge_recheck, parse_fail_on
from headcount.errors import ScenarioError
from headcount.report.history import HISTORIES, Past, write_history
from headcount.report.retest import RETESTS, Retest, write_retest
from tests.report.invented import ALL, FACTS, HOSTILE, HOSTILE_FACTS, PLAIN, altered, level

WORSE = judge_recheck(
    PLAIN, altered(levels=(level(0, 48, "fails"),)), ["its version changed from 0.11 to 0.12", HOSTILE]
)


def test_a_person_reads_what_happened() -> None:
    """Headline, each question, what changed."""
    text = write_retest("terminal", Retest(WORSE, FACTS, FACTS))

    assert text.startswith("The server is worse than it was.\n")
    assert "✗ The old limit of 48 people no longer holds." in text
    assert "its version changed from 0.11 to 0.12" in text


def test_ci_reads_junit() -> None:
    """A test case each question, failed ones with their sentence."""
    conditions = [parse_fail_on("limit<-5%"), parse_fail_on("e2e_p50>+10%")]
    found = judge_recheck(PLAIN, altered(levels=(level(0, 46, "fails"), level(1, 48, "fails"))), fail_on=conditions)
    (suite,) = ElementTree.fromstring(write_retest("junit", Retest(found, FACTS, FACTS)))

    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    failed = [case for case in suite if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["limit<-5%"]


def test_programs_read_json() -> None:
    """Statement and exit code."""
    document = json.loads(write_retest("json", Retest(WORSE, FACTS, FACTS)))

    assert (document["statement"], document["limit"], document["exit_code"]) == ("worse", "refuted", 1)


@pytest.mark.parametrize("form", list(RETESTS))
@pytest.mark.parametrize("language", ["en", "ko"])
def test_hostile_changes_stay_text(form: str, language: str) -> None:
    """Names of models and versions are the server's."""
    text = write_retest(form, Retest(WORSE, FACTS, HOSTILE_FACTS, language))

    assert "\x1b" not in text
    assert "<script>" not in text or form in ("terminal", "json")
    assert form != "markdown" or "![i]" not in text


def test_a_summary_says_at_once_whether_it_is_fine() -> None:
    """Its headline carries the mark."""
    assert write_retest("markdown", Retest(WORSE, FACTS, FACTS)).startswith("## ❌ The server is worse")


def past(day: int, limit: int, version: str = "0.11.2", verb: str = "find") -> Past:
    """A run of some day."""
    engine = msgspec.structs.replace(FACTS.engine, version=version)
    facts = msgspec.structs.replace(FACTS, started_utc=f"2026-12-{day:02}T10:00:00Z", engine=engine, verb=verb)
    return Past(f"run-{day}", facts, altered(limit_users=limit, at_least=False, limit_interval_users=None))


def test_a_history_shows_the_trend_and_what_changed() -> None:
    """Oldest first; a recheck is no point of the trend."""
    text = write_history("terminal", [past(3, 36, "0.12.0"), past(1, 48), past(2, 1, verb="recheck")])
    lines = text.splitlines()

    assert [line.split()[0] for line in lines[2:5]] == ["2026-12-01", "2026-12-02", "2026-12-03"]
    assert "-25 %" in lines[4]
    assert "its version changed from 0.11.2 to 0.12.0" in lines[4]
    assert lines[5] == "limit █▁"


def test_bounds_and_guesses_are_no_points_of_a_trend() -> None:
    """They are shown as what they are, change nothing by some per cent, and have no height."""
    runs = [past(1, 48), past(2, 8), past(3, 36), past(4, 90)]
    runs[1] = msgspec.structs.replace(runs[1], verdict=msgspec.structs.replace(runs[1].verdict, at_least=True))
    runs[3] = msgspec.structs.replace(runs[3], verdict=msgspec.structs.replace(runs[3].verdict, confirmations=0))
    lines = write_history("terminal", runs).splitlines()

    assert "≥ 8" in lines[3]
    assert "%" not in lines[3]
    assert "-25 %" in lines[4]
    assert "≈ 90" in lines[5]
    assert lines[6] == "limit █≥▁≈"


def test_what_cannot_be_told_is_no_success() -> None:
    """Neither limit nor waits were decided: exit 5, an error for JUnit, no tick."""
    told = Retest(msgspec.structs.replace(WORSE, statement="cannot-tell", results=()), FACTS, FACTS)

    assert told.result.exit_code == 5
    assert write_retest("markdown", told).startswith("## ❔ Whether the server is as it was cannot be told")
    assert 'failures="0" errors="1"' in write_retest("junit", told)


@pytest.mark.parametrize("form", list(HISTORIES))
@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_verdict_has_a_place_in_a_history(form: str, language: str) -> None:
    """Unknown limits, hostile models, servers apart."""
    runs = [Past(name, HOSTILE_FACTS if name == "hostile" else FACTS, verdict) for name, verdict in ALL.items()]
    text = write_history(form, runs, language)

    assert "\x1b" not in text
    assert form != "json" or len(json.loads(text)["runs"]) == len(ALL)


def test_unknown_formats_name_the_known_ones() -> None:
    """Of both."""
    with pytest.raises(ScenarioError):
        write_retest("pdf", Retest(WORSE, FACTS, FACTS))
    with pytest.raises(ScenarioError):
        write_history("pdf", [])
