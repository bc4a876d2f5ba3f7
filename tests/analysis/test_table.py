"""The packed table: what it keeps, how little it weighs."""

from __future__ import annotations

import time
import tracemalloc

import msgspec
import numpy as np
import pytest

from headcount.analysis.conclusions import Plan
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.metrics import e2e_s, max_chunk_gap_s, tpot_s, ttft_s
from headcount.records import Level
from headcount.slo import meets
from tests.analysis.crowd import SLO, Slots, held, request

REQUESTS = (
    request(0, 1.0, 1.25, 3.0),
    request(1, 1.5, 1.6, 1.6, output_tokens=1),
    request(2, 1.0, 4.5, 9.5, think_s=None),
    msgspec.structs.replace(request(3, 1.0, 1.5, 2.0), error="http_503", chunk_at_s=[], output_tokens=None),
    msgspec.structs.replace(request(4, 1.0, 1.5, 9.0), error="cut", chunk_at_s=[], output_tokens=None),
    msgspec.structs.replace(request(5, 1.0, 1.5, 9.0), streamed=False, chunk_at_s=[]),
    msgspec.structs.replace(request(6, 1.0, 1.5, 9.0), token_source="client", coalesced=True, output_tokens=None),
)


def table() -> RequestTable:
    """All of them, in the order of their ends."""
    made = RequestTable(SLO)
    for each in sorted(REQUESTS, key=lambda r: r.ended_at_s):
        made.add(each)
    return made


def test_columns_are_the_metrics_of_the_requests() -> None:
    """To the precision of their 32 bits; not-a-number where a metric does not exist."""
    rows = table().rows()
    by_person = {r.person: r for r in REQUESTS}

    for metric, column in (
        (ttft_s, rows.ttft_s),
        (e2e_s, rows.e2e_s),
        (tpot_s, rows.tpot_s),
        (max_chunk_gap_s, rows.max_gap_s),
    ):
        expected = [metric(by_person[int(person)]) for person in rows.person]
        assert column.tolist() == pytest.approx([np.nan if v is None else v for v in expected], rel=1e-5, nan_ok=True)


def test_misses_are_those_of_the_service_level() -> None:
    """As ``slo.meets`` says, one clause at a time; who says nothing is neither judged nor missed."""
    rows = table().rows()
    by_person = {r.person: r for r in REQUESTS}

    for place, clause in enumerate(SLO):
        expected = [meets(by_person[int(person)], clause) for person in rows.person]
        assert rows.judged(place).tolist() == [met is not None for met in expected]
        assert rows.missed(place).tolist() == [met is False for met in expected]


def test_flags_and_kinds() -> None:
    """How each ended, and how it was counted."""
    rows = table().rows()

    assert rows.good.sum() == 5
    assert rows.cut.sum() == 1
    assert rows.of_kind("http_503").sum() == 1
    assert rows.of_kind("timeout").sum() == 0
    assert rows.estimated.sum() == 1
    assert rows.coalesced.sum() == 1
    assert (~rows.streamed).sum() == 1
    assert table().first_error == "http_503"


def test_rows_stay_as_they_were_while_the_table_grows() -> None:
    """A view that was handed out does not change."""
    made = table()
    before = made.rows()
    made.add(request(9, 1.0, 1.1, 1.2))

    assert len(before) == len(REQUESTS)
    assert len(before.ttft_s) == len(REQUESTS)
    assert len(made) == len(REQUESTS) + 1


@pytest.mark.parametrize("alike", [False, True])
def test_many_requests_read_back_as_they_were(alike: bool) -> None:
    """Over full blocks and an open one, where values of a block are all alike and where none is."""
    n = 9000
    prompts = [None if place % 7 == 0 else (100 if alike else 50 + place * 37 % 70000) for place in range(n)]
    made = RequestTable(SLO)
    for place, prompt_tokens in enumerate(prompts):
        at_s = 1.0 if alike else 1.0 + place / 64
        one = request(0 if alike else place, at_s, at_s + 0.25, at_s + 2.0, turn=1 + place % 3)
        made.add(msgspec.structs.replace(one, prompt_tokens=prompt_tokens))
    rows = made.rows()

    assert rows.prompt_tokens.tolist() == [-1 if value is None else value for value in prompts]
    assert rows.turn.tolist() == [1 + place % 3 for place in range(n)]
    assert rows.person.tolist() == [0 if alike else place for place in range(n)]
    assert rows.ttft_s == pytest.approx(0.25)
    assert rows.scheduled_at_s.tolist() == [1.0 if alike else 1.0 + place / 64 for place in range(n)]
    assert int(rows.prompt_tokens.sum()) == sum(-1 if value is None else value for value in prompts)
    few = rows.where(rows.turn == 2)
    assert (len(few), set(few.turn.tolist())) == (n // 3, {2})


def test_200_000_requests_weigh_little_and_summarise_quickly() -> None:
    """A tenth of what objects would take, and little more while they are looked at; the bound on time is wide, for busy
    machines."""
    samples = [request(n % 500, 1.0 + n / 100, 1.2 + n / 90, 3.0 + n / 80) for n in range(5000)]
    level = Level(0, 1, 0.0, started_at_s=0.0, stopped_at_s=100.0)
    tracemalloc.start()
    made = RequestTable(SLO)
    for n in range(200_000):
        made.add(samples[n % 5000])
    held_bytes, _ = tracemalloc.get_traced_memory()
    summarize(level, made, (), SLO)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    began_s = time.perf_counter()
    summarize(level, made, (), SLO)

    assert held_bytes < 9e6
    assert peak_bytes < 25e6
    assert time.perf_counter() - began_s < 5.0


def test_too_many_clauses_are_refused() -> None:
    """Sixteen fit."""
    with pytest.raises(ValueError, match="at most 16"):
        RequestTable(SLO * 6)


def test_a_level_of_a_healthy_server_has_no_cautions() -> None:
    """Nothing to say against it."""
    assert held(Slots(), Plan(12, "bracket", 120.0)).cautions == ()
