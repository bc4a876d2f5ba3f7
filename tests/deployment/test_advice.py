"""From capacities to a plan: the published architecture comes out of the published figures, and limits are kept."""

from __future__ import annotations

import msgspec
import pytest

from headcount.deployment.advice import Advice, Demand, advise
from headcount.deployment.capacity import Measured, capacity_of
from headcount.errors import NotTrustedError, ScenarioError
from tests.deployment.reference import LARGE, SMALL, reference_runs
from tests.report.invented import FACTS, PLAIN, altered, level


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Measured]:
    """The 8B and the 32B of the published load test."""
    return [each for _, each in reference_runs(tmp_path_factory.mktemp("reference"))]


def planned(measured: list[Measured], **wanted: object) -> Advice:
    """A plan of it."""
    return advise(measured, msgspec.convert(wanted, Demand))


def test_the_published_architecture_comes_out(measured: list[Measured]) -> None:
    """The 8B for most, at most 20 on the 32B, streamed always there, a further GPU from 50 to 100 people on."""
    small, large = planned(measured).parts

    assert (small.name, small.role) == (SMALL, "simple")
    assert (large.name, large.role) == (LARGE, "complex")
    assert small.share == pytest.approx(0.8)
    assert (large.carries_users, large.cap_requests) == (20, 20)
    assert large.streamed
    assert large.capacity.whole_users is None
    assert small.capacity.whole_users == 50
    # without streaming the 8B is full first; with it the 32B
    assert 50 <= small.whole_until_users <= 100
    assert large.further_from_users == 101


def test_fifty_people_get_whole_answers_from_the_small_model(measured: list[Measured]) -> None:
    """Streaming is mandatory only where whole answers miss the comfort wanted."""
    small, large = planned(measured, people=50).parts

    assert (small.users, small.streamed, small.carries_users) == (40, False, 50)
    assert (large.users, large.streamed) == (10, True)
    assert large.headroom_fraction == pytest.approx(0.5)


def test_whom_the_large_model_cannot_take_the_small_one_answers(measured: list[Measured]) -> None:
    """The cap holds whatever share of questions is complex; more servers are named, not wished for."""
    advice = planned(measured, people=200, growth_factor=2.0)
    small, large = advice.parts

    assert (large.users, small.users) == (20, 180)
    assert advice.overflow_users == 20
    assert not advice.carried
    assert (small.servers_needed, large.servers_needed) == (4, 4)


def test_nobody_said_how_many_come(measured: list[Measured]) -> None:
    """Then it is as many as the mix carries: whichever model is full first."""
    advice = planned(measured, complex_share=0.4)

    assert advice.people == 50
    assert advice.carried


def test_two_runs_of_a_model_are_two_servers(measured: list[Measured]) -> None:
    """They carry twice as many, each with its own cap."""
    small, large = planned([*measured, measured[1]], people=120).parts

    assert (large.servers, large.cap_requests, large.users) == (2, 20, 24)
    assert large.further_from_users == 201
    assert small.servers == 1


def test_comfortable_is_harder_to_promise(measured: list[Measured]) -> None:
    """The 32B was comfortable for nobody, so it is refused by name."""
    with pytest.raises(NotTrustedError, match=f"{LARGE} serves nobody who wants it comfortable"):
        planned(measured, comfort="comfortable")

    (small,) = planned(measured[:1], comfort="comfortable").parts
    assert small.capacity.whole_users == 20


def test_one_model_takes_everybody(measured: list[Measured]) -> None:
    """There is nothing to route."""
    (part,) = planned(measured[:1], people=30).parts

    assert (part.role, part.users, part.share) == ("all", 30, 1.0)


def test_an_unknown_complex_model_is_named(measured: list[Measured]) -> None:
    """With those there are."""
    with pytest.raises(ScenarioError, match="no run is of this model"):
        planned(measured, complex_model="70B")
    assert planned(measured, complex_model=SMALL).parts[-1].name == SMALL


def test_a_recommendation_below_comfort_counts() -> None:
    """A search that recommends 36 of 48 people, all comfortable, gives 36; the cap is what ran at its level."""
    found = capacity_of(Measured("8B", PLAIN, FACTS), "slightly slow")

    assert found.level is not None
    assert (found.level.users, found.users) == (48, 36)
    assert found.cap_requests is not None
    assert found.cap_requests <= 48


def test_a_void_level_carries_nobody() -> None:
    """And a level below it that was frustrating ends the count."""
    levels = (level(0, 8), level(1, 16, p95_s=5.0), level(2, 32), level(3, 4, "void"))
    verdict = altered(levels=levels, recommended_users=None)

    assert capacity_of(Measured("8B", verdict, FACTS), "slightly slow").users == 8
    nothing = altered(levels=(level(3, 4, "void"),))
    with pytest.raises(NotTrustedError, match="no level that says how its answers feel"):
        capacity_of(Measured("8B", nothing, FACTS), "slightly slow")


def test_streamed_runs_tell_of_whole_answers_too() -> None:
    """By the median of their answers: half a second more than four is slightly slow."""
    verdict = altered(levels=(level(0, 8), level(1, 16)), recommended_users=None)
    found = capacity_of(Measured("8B", verdict, FACTS), "comfortable")

    assert (found.users, found.whole_users) == (16, None)
    assert found.streamed_measured


def test_of_conditions_the_first_one_counts() -> None:
    """Whatever else the run tried, another power limit for instance, is another server."""
    levels = (
        level(0, 8, condition="600 W"),
        level(1, 8, condition="350 W", p95_s=5.0),
        level(2, 16, condition="600 W"),
    )
    verdict = altered(levels=levels, recommended_users=None)

    assert capacity_of(Measured("8B", verdict, FACTS), "slightly slow").users == 16
