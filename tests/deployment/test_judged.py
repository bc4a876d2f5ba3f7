"""What a level through a gateway shows, from invented requests and counts: each kind of failure is told apart."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from headcount.deployment.advice import Advice, Demand, advise
from headcount.deployment.capacity import Measured
from headcount.deployment.places import Place, places_of, word
from headcount.deployment.proof import Finding, Held, judged
from headcount.deployment.watch import Inside
from headcount.records import Level, Request
from headcount.slo import Comfort
from tests.deployment.reference import SMALL, reference_runs
from tests.report.invented import LAG, level

PEOPLE, LENGTH_S = 40, 60.0


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> tuple[Advice, tuple[Place, ...]]:
    """40 people on the 8B alone, whole answers, cap 50."""
    measured: list[Measured] = [each for _, each in reference_runs(tmp_path_factory.mktemp("reference"))][:1]
    advice = advise(measured, Demand(people=PEOPLE))
    return advice, places_of(advice, measured)


def asked(error: str | None = None, *, e2e_s: float = 3.0, each: int = 15) -> list[Request]:
    """Each person asks every four seconds."""
    found = []
    for number in range(PEOPLE * each):
        at_s = (number // PEOPLE) * 4.0 + (number % PEOPLE) * 0.1
        found.append(
            Request(
                level=0,
                person=number % PEOPLE,
                conversation=0,
                turn=1,
                scheduled_at_s=at_s,
                sent_at_s=at_s,
                ended_at_s=at_s + e2e_s,
                persona=word(SMALL),
                first_answer_at_s=at_s + 0.2,
                chunk_at_s=[] if error else [at_s + 0.2, at_s + e2e_s],
                output_tokens=None if error else 60,
                error=error,
                error_text="slots are in use" if error else None,
                think_s=1.0,
            )
        )
    return found


def findings(
    plan: tuple[Advice, tuple[Place, ...]],
    requests: list[Request],
    *,
    peak: float = 30.0,
    mean: float = 29.0,
    is_overflow: bool = False,
    late: bool = False,
) -> dict[str, Finding]:
    """By name."""
    advice, places = plan
    inside: Mapping[str, Inside] = {places[0].label: Inside(peak, mean * 10, 10)} if peak else {}
    held = Level(index=0, users=PEOPLE, began_at_s=0.0, started_at_s=4.0, stopped_at_s=LENGTH_S, ended="time")
    summary = level(0, PEOPLE)
    if late:
        summary = msgspec.structs.replace(summary, cautions=(LAG,))
    found = judged(advice, places, Held(held, summary, requests, inside), {SMALL: Comfort()}, is_overflow=is_overflow)
    return {finding.name: finding for finding in found}


def test_all_is_well(plan: tuple[Advice, tuple[Place, ...]]) -> None:
    """Comfort and cap, each with its figures."""
    found = findings(plan, asked())

    assert {name: finding.holds for name, finding in found.items()} == {"comfort": True, "cap": True}
    assert "feels comfortable" in found["comfort"].sentence
    assert found["cap"].sentence == f"With 40 people {SMALL} had at most 30 requests in flight, cap 50."


def test_slow_answers_break_the_promise(plan: tuple[Advice, tuple[Place, ...]]) -> None:
    """Nine seconds is frustrating for a whole answer."""
    found = findings(plan, asked(e2e_s=9.0), peak=49, mean=80.0)

    assert not found["comfort"].holds
    assert "feels frustrating" in found["comfort"].sentence


def test_refusals_of_planned_people_are_failures(plan: tuple[Advice, tuple[Place, ...]]) -> None:
    """However cleanly they are refused; the gateway's words are quoted."""
    found = findings(plan, asked(each=12) + asked("http_429", each=3))

    assert not found["comfort"].holds
    assert "http_429" in found["comfort"].sentence
    assert "slots are in use" in found["comfort"].sentence


def test_requests_that_no_server_has_are_in_the_gateway(plan: tuple[Advice, tuple[Place, ...]]) -> None:
    """Of 30 in flight 5 were at the server: the gateway is the cap."""
    found = findings(plan, asked(), peak=8.0, mean=5.0)

    assert not found["overhead"].holds
    assert "It is the cap, not the GPU." in found["overhead"].sentence


def test_a_server_that_tells_nothing_proves_nothing(plan: tuple[Advice, tuple[Place, ...]]) -> None:
    """Its address is named."""
    found = findings(plan, asked(), peak=0.0)

    assert not found["cap"].holds
    assert "tells no requests in flight" in found["cap"].sentence


@pytest.mark.parametrize(
    ("requests", "peak", "cap", "overflow"),
    [
        (asked(each=9) + asked("http_429", each=6), 50.0, True, True),
        (asked(each=9) + asked("http_503", each=6), 48.0, True, True),
        (asked(), 50.0, True, True),
        (asked(), 30.0, False, True),
        (asked(), 61.0, False, True),
        (asked(each=9) + asked("timeout", each=6), 50.0, True, False),
        (asked(each=9) + asked("disconnect", each=6), 50.0, True, False),
        (asked("http_429"), 50.0, True, False),
    ],
)
def test_an_overflow_is_refused_or_queued(
    plan: tuple[Advice, tuple[Place, ...]], requests: list[Request], peak: float, cap: bool, overflow: bool
) -> None:
    """Refused with 429 or 503, or waiting; a cap counts as kept only when it was reached."""
    found = findings(plan, requests, peak=peak, is_overflow=True)

    assert (found["cap"].holds, found["overflow"].holds) == (cap, overflow)


def test_a_late_client_is_blamed_first(plan: tuple[Advice, tuple[Place, ...]]) -> None:
    """Where something failed and we were late ourselves; where all is well it does not matter."""
    assert not findings(plan, asked(e2e_s=9.0), late=True)["client"].holds
    assert "client" not in findings(plan, asked(), late=True)
