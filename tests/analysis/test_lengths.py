"""Planned against actual lengths, and history that a server drops in silence."""

from __future__ import annotations

import pytest

from headcount.analysis.lengths import lengths_of, not_as_planned, turns_cut
from headcount.analysis.table import RequestTable, Rows
from headcount.records import Request


def rows(requests: list[Request]) -> Rows:
    """A level's requests as columns."""
    table = RequestTable()
    for request in requests:
        table.add(request)
    return table.rows()


def request(
    person: int,
    turn: int,
    prompt_tokens: int | None,
    planned: int | None,
    *,
    error: str | None = None,
    at_s: float = 0.0,
) -> Request:
    """One answered turn of 100 tokens, of 200 asked for."""
    return Request(
        level=0,
        person=person,
        conversation=0,
        turn=turn,
        scheduled_at_s=at_s or 10.0 * turn,
        ended_at_s=(at_s or 10.0 * turn) + 1.0,
        prompt_tokens=prompt_tokens,
        planned_prompt_tokens=planned,
        output_tokens=100,
        max_output_tokens=200,
        error=error,
    )


def test_the_templates_tokens_are_no_part_of_the_plan() -> None:
    """100 planned, 110 counted of which 10 are the template's: as planned. Later turns and failed ones do not count."""
    sent = [request(person, 1, 110, 100) for person in range(30)]
    others = [request(99, 2, 5000, 10), request(98, 1, 5000, 10, error="http_503"), request(97, 1, None, 100)]

    found = lengths_of(rows(sent + others), 10)

    assert (found.prompt_of_plan_fraction, found.planned_prompts) == (1.0, 30)
    assert found.output_of_asked_fraction == 0.5
    assert not_as_planned(found) is None


@pytest.mark.parametrize(("counted", "said"), [(117, "7% longer"), (103, "7% shorter"), (114, None), (106, None)])
def test_more_than_five_percent_is_said(counted: int, said: str | None) -> None:
    """With its direction; up to 5 % nothing is said."""
    caution = not_as_planned(lengths_of(rows([request(person, 1, counted, 100) for person in range(30)]), 10))

    assert (caution is not None) == (said is not None)
    assert said is None or (caution is not None and said in caution.sentence)


def test_text_that_does_not_reach_the_model_voids_the_level() -> None:
    """Less than half of what was planned is another test than was meant."""
    caution = not_as_planned(lengths_of(rows([request(person, 1, 30, 100) for person in range(30)]), 10))

    assert caution is not None
    assert caution.fatal


def test_few_requests_and_unknown_templates_say_nothing() -> None:
    """One short text may be off by 15 %; without the template's tokens there is nothing to compare."""
    few = [request(person, 1, 150, 100) for person in range(10)]

    assert not_as_planned(lengths_of(rows(few), 10)) is None
    assert lengths_of(rows(few * 3), None).prompt_of_plan_fraction is None
    assert lengths_of(rows([]), 10).output_of_asked_fraction is None


def test_history_that_is_cut_is_counted() -> None:
    """A prompt that grew by less than half of its own text lost history; one that grew by its text alone did not
    (a reasoning model's thoughts are not sent again)."""
    grown = [request(0, 1, 100, 90), request(0, 2, 290, 90), request(0, 3, 380, 90)]
    cut = [request(1, 1, 500, 490), request(1, 2, 512, 90), request(1, 3, 512, 90)]

    assert turns_cut(rows(grown)) == (0, 2)
    assert turns_cut(rows(grown + cut)) == (2, 4)


def test_a_conversation_begun_afresh_is_no_cut() -> None:
    """After an answer that failed in turn 2 the person starts with turn 1 again; a turn missing between is not
    followed either."""
    afresh = [
        request(0, 1, 1000, 90, at_s=1.0),
        request(0, 2, 1200, 90, at_s=2.0, error="timeout"),
        request(0, 1, 100, 90, at_s=3.0),
        request(0, 2, 300, 90, at_s=4.0),
    ]

    assert turns_cut(rows(afresh)) == (0, 1)
