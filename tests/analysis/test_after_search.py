"""What is held after a search, and what a burst showed: invented summaries and rows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headcount.analysis.after_search import burst_of, burst_sentence, next_check, without_checks
from headcount.analysis.conclusions import Burst, Caution, LevelSummary, Limits, Soak
from headcount.analysis.soak import soak_sentence, soak_steps, soaked_users
from headcount.analysis.table import RequestTable
from headcount.analysis.verdict import judge
from headcount.records import Level
from tests.analysis.crowd import SLO, request
from tests.analysis.invented import answering, followed, summary

LIMITS = Limits(max_users=64, max_time_s=3600.0)
LATE = Caution("client-lag", "this client was late", "", fatal=True)


def searched(limits: Limits = LIMITS) -> list[LevelSummary]:
    """A finished search whose limit is 20."""
    return followed(answering(20.0), limits)[0]


def checked(purpose: str, users: int, share: float = 0.0, **more: Any) -> LevelSummary:
    """One check that was held."""
    return summary(users, share, index=90, purpose=purpose, **more)


def burst(recovered_after_s: float | None = 0.0, *, n_late: int = 0, spoiled: str = "") -> Burst:
    """Of fifteen people."""
    return Burst(15, n_late, 4.12, 1.0, recovered_after_s, 60.0, spoiled)


def soak(users: int, throttled: tuple[str, ...] = ()) -> Soak:
    """Of twenty minutes."""
    return Soak(users, 1200.0, (0.4, 1.6), (30.0, 20.0), (1.5e9, 1.0e9), (60.0, 83.0), 400.0, throttled)


def test_a_search_is_followed_by_one_burst_at_what_it_recommends() -> None:
    """Once, and not while no level of it was seen."""
    summaries = searched()
    plan = next_check(summaries, 15, LIMITS)

    assert plan is not None
    assert (plan.purpose, plan.users) == ("burst", 15)
    assert plan.time_s >= 12.0
    done = [*summaries, checked("burst", 15, burst=burst())]
    assert next_check(done, 15, LIMITS) is None
    assert without_checks(done) == summaries


@pytest.mark.parametrize(
    ("limits", "recommended", "arrivals"),
    [
        (msgspec.structs.replace(LIMITS, burst=False), 15, "closed"),
        (msgspec.structs.replace(LIMITS, levels=(4, 8)), 15, "closed"),
        (LIMITS, 1, "closed"),
        (LIMITS, None, "closed"),
        (LIMITS, 15, "finite"),
        (msgspec.structs.replace(LIMITS, max_time_s=1.0), 15, "closed"),
    ],
    ids=["unwanted", "fixed levels", "one person", "no answer", "people who leave", "no time"],
)
def test_there_is_no_burst(limits: Limits, recommended: int | None, arrivals: str) -> None:
    """Where nobody wants it, it says nothing, or its time is up."""
    summaries = [msgspec.structs.replace(s, arrivals=arrivals) for s in searched()]

    assert next_check(summaries, recommended, limits) is None


def test_why_there_was_no_burst_is_said() -> None:
    """By flag, or for want of time; nothing is said of fixed levels, and while it is still to come."""
    summaries = searched()
    short = msgspec.structs.replace(LIMITS, max_time_s=1.0)
    off = msgspec.structs.replace(LIMITS, burst=False)

    assert "the time was up" in burst_sentence(None, summaries, 15, short)
    assert "--no-burst" in burst_sentence(None, summaries, 15, off)
    assert burst_sentence(None, summaries, 15, LIMITS) == ""
    assert burst_sentence(None, summaries, 15, msgspec.structs.replace(LIMITS, levels=(1, 2))) == ""


def test_what_a_burst_showed_in_one_sentence() -> None:
    """Within the service level, over it and back, over it for good, or not the server's doing."""

    def said(one: Burst) -> str:
        return burst_sentence(one, searched(), 15, LIMITS)

    assert said(burst(9.2, n_late=6)) == (
        "When all 15 press enter at once the slowest waits 4.1 s, and it is normal again after 9.2 s."
    )
    assert said(burst()).endswith("4.1 s, which is within the service level.")
    assert said(burst(None, n_late=15)).endswith("it was not normal after 60 s.")
    assert said(burst(spoiled="this client was late")).endswith("could not be judged: this client was late.")


def pressed(waits_s: list[list[float]], *, stopped_at_s: float | None = None) -> Burst | None:
    """A burst at second 100: of each person the waits of their turns, one every ten seconds."""
    table = RequestTable(SLO)
    for person, of_turns in enumerate(waits_s):
        for turn, wait_s in enumerate(of_turns):
            at_s = 100.0 + 10.0 * turn
            table.add(request(person, at_s, at_s + wait_s, at_s + wait_s + 1.0))
    level = Level(0, len(waits_s), 100.0, purpose="burst", stopped_at_s=stopped_at_s)
    return burst_of(level, table.rows(), stopped_at_s or 150.0, ())


def test_a_burst_is_over_when_everybodys_next_turn_is_in_time() -> None:
    """Two are late at first and one in the second turn, who is answered 13.5 s after the instant."""
    found = pressed([[0.5, 0.5, 0.5], [2.5, 0.5, 0.5], [4.0, 3.5, 0.5]])

    assert found is not None
    assert (found.n_late, found.worst_wait_s, found.median_wait_s) == (2, 4.0, 2.5)
    assert found.recovered_after_s == pytest.approx(13.5)


def test_a_burst_that_nobody_felt_is_over_at_once() -> None:
    """All first answers are in time."""
    found = pressed([[0.5], [1.5]])

    assert found is not None
    assert (found.n_late, found.recovered_after_s) == (0, 0.0)


def test_a_burst_is_open_until_all_have_been_answered() -> None:
    """While somebody waits for a first answer nothing is told; while the next turn is out it is not over."""
    assert pressed([[0.5], []]) is None
    found = pressed([[3.0], [0.5]])
    assert found is not None
    assert found.recovered_after_s is None


def test_a_client_that_was_late_spoils_a_burst() -> None:
    """Then its waits are not the server's."""
    table = RequestTable(SLO)
    table.add(request(0, 100.0, 101.0, 102.0))
    found = burst_of(Level(0, 1, 100.0, purpose="burst"), table.rows(), 110.0, (LATE,))

    assert found is not None
    assert found.spoiled == "this client was late"


def test_a_soak_comes_first_and_a_broken_one_steps_down() -> None:
    """The whole time at the recommended number, then fewer people for shorter, then once between, then the burst."""
    limits = msgspec.structs.replace(LIMITS, soak_s=1200.0, level_time_s=100.0)
    held = searched()
    asked: list[tuple[str, int, float]] = []
    while (plan := next_check(held, 15, limits)) is not None:
        asked.append((plan.purpose, plan.users, plan.time_s))
        figures: dict[str, Any] = {"soak": soak(plan.users), "burst": burst() if plan.purpose == "burst" else None}
        held.append(checked(plan.purpose, plan.users, 0.0 if plan.users <= 11 else 0.5, **figures))

    assert asked[:4] == [("soak", 15, 1200.0), ("soak", 12, 100.0), ("soak", 9, 100.0), ("soak", 10, 100.0)]
    assert [one[:2] for one in asked[4:]] == [("soak", 11), ("burst", 11)]


def test_the_recommendation_is_what_the_soak_left() -> None:
    """As before where nothing broke; the most that was kept where something did; None when nothing was."""
    kept, broke = checked("soak", 12, soak=soak(12)), checked("soak", 15, 0.5, soak=soak(15))

    assert soaked_users([checked("soak", 15)], 15) == 15
    assert soaked_users([broke, kept], 15) == 12
    assert soaked_users([broke], 15) is None
    assert soaked_users([checked("soak", 15, 0.5, cautions=[LATE])], 15) == 15


def test_a_throttled_soak_lowers_the_answer_and_says_so() -> None:
    """The limit stays, what is recommended falls, and heat is what gives out first."""
    hot = checked("soak", 15, 0.5, soak=soak(15, ("sw_thermal_slowdown",)))
    less = checked("soak", 12, soak=soak(12, ("sw_thermal_slowdown",)))
    limits = msgspec.structs.replace(LIMITS, soak_s=1200.0)
    before = judge(searched(), limits, SLO)
    verdict = judge([*searched(), hot, less], limits, SLO)

    assert (before.limit_users, verdict.limit_users) == (before.limit_users, before.limit_users)
    assert before.recommended_users is not None
    assert verdict.recommended_users == 12 < before.recommended_users
    assert verdict.cause == "heat-or-power"
    assert "throttled by heat" in verdict.soak_sentence
    assert "12 did" in verdict.soak_sentence
    assert verdict.soak_changes == (
        "TTFT 0.40 s → 1.60 s",
        "tokens/s a person 30.0 → 20.0",
        "clock 1500 → 1000 MHz",
        "temperature 60 → 83 °C, steady after 7 min",
    )
    assert verdict.sentence.endswith("plan for 12.")


def test_a_soak_that_was_kept_says_so() -> None:
    """And changes nothing."""
    kept = checked("soak", 15, soak=soak(15))

    assert soak_sentence(soak_steps([kept]), [kept], 15) == "15 people stayed within the service level for 20 min."
