"""A recheck holds few levels and says what they mean: confirmed, refuted, raised; slower, faster; conditions of CI."""

from __future__ import annotations

import msgspec
import pytest

from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.analysis.recheck import judge_recheck, parse_fail_on, recheck_levels, recheck_time_s
from headcount.errors import ScenarioError
from tests.report.invented import AT_LEAST, NOT_TRUSTED, PLAIN, altered, level

ABOVE = 56
"""The number of people above the plain baseline's limit of 48 that is held."""


def now(at_limit: str = "holds", above: str = "fails", slower: float = 1.0) -> Verdict:
    """What a recheck of the plain baseline showed."""
    return altered(levels=(slowed(level(0, 48, at_limit, p95_s=1.46, n=900), slower), level(1, ABOVE, above)))


def slowed(one: LevelSummary, factor: float) -> LevelSummary:
    """With whole answers that take longer."""
    p50, p95 = (value * factor for value in (one.e2e_s.p50 or 0.0, one.e2e_s.p95 or 0.0))
    return msgspec.structs.replace(one, e2e_s=msgspec.structs.replace(one.e2e_s, p50=p50, p95=p95))


@pytest.mark.parametrize(
    ("what", "statement", "limit", "exit_code"),
    [
        (now(), "unchanged", "confirmed", 0),
        (now("fails"), "worse", "refuted", 1),
        (now("undecided"), "unchanged", "undecided", 0),
        (now(above="holds"), "better", "raised", 6),
        (now(above="undecided"), "unchanged", "confirmed", 0),
        (now(slower=1.2), "worse", "confirmed", 1),
        (now(slower=0.8), "better", "confirmed", 6),
        (now(above="holds", slower=1.2), "worse", "raised", 1),
        (now("void", "void"), "not-trusted", "undecided", 5),
    ],
)
def test_what_the_levels_say(what: Verdict, statement: str, limit: str, exit_code: int) -> None:
    """The limit first, then the waits; a fault weighs more than a gain."""
    found = judge_recheck(PLAIN, what)

    assert (found.statement, found.limit, found.exit_code) == (statement, limit, exit_code)


def test_only_the_levels_that_tell_are_held() -> None:
    """The limit and one well above it; of a lower bound the limit alone; what a condition names."""
    assert recheck_levels(PLAIN) == (48, ABOVE)
    assert recheck_levels(AT_LEAST) == (96,)
    assert recheck_levels(PLAIN, [parse_fail_on("limit<-10%")]) == (44, 48, ABOVE)
    assert recheck_levels(altered(limit_users=0)) == (1,)
    assert recheck_time_s(PLAIN) == pytest.approx(110.0)
    with pytest.raises(ScenarioError):
        recheck_levels(NOT_TRUSTED)


def test_a_condition_alone_says_what_fails() -> None:
    """The limit is refuted, but by less than what CI minds; or a figure rose by more than it may."""
    held = altered(levels=(level(0, 44), level(1, 48, "fails"), level(2, ABOVE, "fails")))
    mild = judge_recheck(PLAIN, held, fail_on=[parse_fail_on("limit<-10%")])
    assert (mild.statement, mild.exit_code) == ("worse", 0)

    lost = altered(levels=(level(0, 44, "fails"), level(1, 48, "fails")))
    assert judge_recheck(PLAIN, lost, fail_on=[parse_fail_on("limit<-10%")]).exit_code == 1

    slower = now(slower=1.2)
    assert judge_recheck(PLAIN, slower, fail_on=[parse_fail_on("e2e_p50>+10%")]).exit_code == 1
    assert judge_recheck(PLAIN, slower, fail_on=[parse_fail_on("e2e_p50_s>+30%")]).exit_code == 0


@pytest.mark.parametrize("text", ["", "limit", "limit>+5%", "limit<5%", "speed<-5%", "e2e_p50>-5%", "ttft_p95>+x%"])
def test_conditions_that_make_no_sense(text: str) -> None:
    """Are refused with what could be written."""
    with pytest.raises(ScenarioError) as caught:
        parse_fail_on(text)
    assert "limit<-5%" in caught.value.hint


def test_nothing_in_common_is_said() -> None:
    """Where the baseline has not held as many people."""
    found = judge_recheck(PLAIN, altered(levels=(level(0, 7),)))

    assert found.waits_ratio is None
    assert "cannot be compared" in found.results[1].sentence
