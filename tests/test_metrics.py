"""The metrics of single requests, and what becomes of those that have none."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from headcount.analysis.conclusions import LevelSummary
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.metrics import e2e_s, first_answer_s, max_chunk_gap_s, send_delay_s, tpot_s, ttft_s
from headcount.records import Level, Request
from headcount.slo import parse_slo
from headcount.stats.quantile import quantile
from tests.analysis.crowd import request

SLO = parse_slo(("ttft_p95 <= 1 s",))


def answered(*chunk_at_s: float, **more: object) -> Request:
    """One answer, asked for at 10 s."""
    made = request(0, 10.0, 10.1, chunk_at_s[-1] if chunk_at_s else 10.2)
    return msgspec.structs.replace(made, chunk_at_s=list(chunk_at_s), **more)


def level_of(requests: list[Request]) -> LevelSummary:
    """What a level of these shows, all of it steady."""
    table = RequestTable(SLO)
    for one in requests:
        table.add(one)
    return summarize(Level(0, 1, 0.0, started_at_s=0.0, stopped_at_s=60.0), table, (), SLO)


def test_gaps_hold_no_wait_for_the_first() -> None:
    """The largest gap is between two events, never from the question to the first (A41)."""
    one = answered(10.9, 10.91, 10.93)

    assert ttft_s(one) == pytest.approx(0.9)
    assert max_chunk_gap_s(one) == pytest.approx(0.02)


def test_answers_of_one_token_have_no_speed() -> None:
    """Nor a gap: neither 0 nor a division by it (A53)."""
    one = answered(10.9, output_tokens=1)

    assert tpot_s(one) is None
    assert max_chunk_gap_s(one) is None
    assert e2e_s(one) == pytest.approx(0.9)


def test_several_tokens_a_chunk_are_counted_by_usage() -> None:
    """The time per token comes from the server's count, the gaps from what was felt (A27, A65, A80)."""
    one = answered(10.1, 10.2, 10.3, output_tokens=9)

    assert tpot_s(one) == pytest.approx(0.025)
    assert max_chunk_gap_s(one) == pytest.approx(0.1)


def test_whole_answers_have_no_first_token() -> None:
    """Their end is all that is known (A76)."""
    one = answered(streamed=False, first_answer_at_s=10.2)

    assert (ttft_s(one), first_answer_s(one), tpot_s(one), max_chunk_gap_s(one)) == (None, None, None, None)
    assert e2e_s(one) == pytest.approx(0.2)


def test_a_thinking_model_answers_later_than_it_begins() -> None:
    """First output and first answer are two times (A19)."""
    one = answered(10.2, 10.9, first_answer_at_s=10.9)

    assert ttft_s(one) == pytest.approx(0.2)
    assert first_answer_s(one) == pytest.approx(0.9)


def test_our_own_delay_is_without_connecting() -> None:
    """From when it was due to when it left."""
    assert send_delay_s(answered(10.3, sent_at_s=10.2, connect_s=0.15)) == pytest.approx(0.05)
    assert send_delay_s(answered(10.3, sent_at_s=None)) is None


def test_failed_requests_are_no_zeros() -> None:
    """Six good at 100 ms and four refused: the median is 100 ms of six (A48)."""
    good = [request(n, 10.0 + n, 10.1 + n, 10.2 + n) for n in range(6)]
    failed = [answered(error="http_503", person=n, ended_at_s=20.0 + n, output_tokens=None) for n in range(4)]
    shown = level_of(good + failed)

    assert shown.ttft_s.p50 == pytest.approx(0.1)
    assert shown.ttft_s.n == 6
    assert (shown.n_requests, shown.n_errors) == (10, 4)


def test_the_mean_decides_nothing() -> None:
    """95 at 100 ms and 5 at 14 s: the mean is within a bound of 1 s, p96 is not and p95 is (A61)."""
    waits = [request(n, 10.0, 10.1, 10.2) for n in range(95)] + [request(n, 10.0, 24.0, 24.1) for n in range(95, 100)]
    shown = level_of(waits)

    assert shown.ttft_s.p95 == pytest.approx(0.1)
    assert shown.clauses[0].misses == 5
    assert shown.clauses[0].decision == "undecided"


def test_quantiles_are_values_that_were_seen() -> None:
    """None is invented between two; a time-out is longer than any, so that it cannot flatter (A42)."""
    assert quantile(np.array([1.0, 2.0, 3.0, np.inf]), 0.5) == 2.0
    assert quantile(np.array([1.0, 2.0, 3.0, np.inf]), 0.95) is None


def test_the_warm_up_is_left_out() -> None:
    """First requests that waited 5 s more are no part of what counts, and are shown apart (A55)."""
    cold = [request(n, 0.0, 5.1, 5.2) for n in range(20)]
    warm = [request(n % 20, 6.0 + n / 20, 6.1 + n / 20, 6.2 + n / 20) for n in range(400)]
    table = RequestTable(SLO)
    for one in cold + warm:
        table.add(one)
    shown = summarize(Level(0, 20, 0.0, started_at_s=0.0, stopped_at_s=30.0), table, (), SLO)

    assert shown.steady_at_s is not None
    assert shown.ttft_s.max == pytest.approx(0.1)
    assert shown.clauses[0].misses == 0
    assert shown.first_requests is not None
    assert shown.first_requests.max == pytest.approx(5.1)
