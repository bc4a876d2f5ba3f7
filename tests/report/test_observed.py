"""What was seen beside the waits: groups by style, turns, steps, the server's own word, GPUs, and how people came."""

from __future__ import annotations

import msgspec

from headcount.analysis.conclusions import GpuFigures
from headcount.records import Request
from headcount.report import observed, tables, write
from headcount.report.traffic import Traffic, read_traffic
from headcount.report.words import words
from tests.report.invented import FACTS, altered, level, report

_ = words("en")
GIB = 2**30


def request(person: int, turn: int, *, streamed: bool = True, adapter: str | None = None, **more: object) -> Request:
    """One good turn of a second and a half."""
    at_s = 10.0 * turn
    return Request(
        level=0,
        person=person,
        conversation=0,
        turn=turn,
        scheduled_at_s=at_s,
        ended_at_s=at_s + 1.5,
        streamed=streamed,
        adapter=adapter,
        chunk_at_s=[at_s + 0.5, at_s + 1.5] if streamed else [],
        prompt_tokens=100 * turn,
        cached_tokens=0 if turn == 1 else 50 * turn,
        output_tokens=80,
        max_output_tokens=100,
        **more,  # type: ignore[arg-type]
    )


def seen(*requests: Request) -> Traffic:
    """As a report reads them."""
    return read_traffic(requests, None, 0.0)


def test_streamed_and_whole_people_are_told_apart() -> None:
    """With their numbers, and with the lengths that were asked for and came; one style alone needs no column."""
    mixed = seen(request(0, 1), request(0, 2), request(1, 1, streamed=False, adapter="sql"))

    (groups, *_others) = tables.tables(altered(levels=()), mixed, _)
    (plain, *_others) = tables.tables(altered(levels=()), seen(request(0, 1)), _)

    rows = [dict(zip(groups.headings, row, strict=True)) for row in groups.rows]
    assert [(row["answers"], row["adapter"], row["people"], row["n"]) for row in rows] == [
        ("streamed", "", "1", "2"),
        ("whole", "sql", "1", "1"),
    ]
    assert (rows[1]["TTFT p50"], rows[1]["output tokens"], rows[1]["asked for"]) == ("–", "80", "100")
    assert "answers" not in plain.headings


def test_turns_and_steps_have_tables_of_their_own() -> None:
    """A cliff at turn k and what was cached show; steps are no part of the waits."""
    traffic = seen(request(0, 1, stage_s={"retrieval": 0.2}), request(0, 2, stage_s={"retrieval": 0.4}))

    turns, steps = observed.tables(altered(levels=()), traffic, FACTS, _)

    assert [row[0] for row in turns.rows] == ["1", "2"]
    assert turns.rows[1][-2:] == ["200", "50 %"]
    assert steps.rows == [["retrieval", "2", "200 ms", "400 ms", "400 ms"]]
    assert observed.tables(altered(levels=()), seen(request(0, 1)), FACTS, _) == []


def test_the_servers_word_and_each_gpu_stand_at_each_level() -> None:
    """The gap is client minus server; what a card does not tell is a dash."""
    gpu = GpuFigures("GPU-1", 61.5 * GIB, 71.0, None, 0.93)
    one = msgspec.structs.replace(level(0, 16), ttft_mean_s=0.4, server_ttft_mean_s=0.3, gpus=(gpu,))

    truth, gpus = observed.tables(altered(levels=(one, level(1, 32))), None, FACTS, _)

    assert truth.rows == [["0", "16", "400 ms", "300 ms", "100 ms"]]
    assert gpus.rows == [["0", "16", "NVIDIA RTX PRO 6000", "61.5 GiB", "71 °C", "–", "93 %"]]


def test_what_the_levels_say_of_the_machine_stands_in_page_and_markdown() -> None:
    """In the reader's language."""
    for form in ("html", "markdown"):
        assert "What the machine did" in write(form, report())
        assert "Tokens/s gained for each person more" in write(form, report())
        assert "한 명 늘 때마다" in write(form, report(language="ko"))


def test_a_finite_test_is_said_to_understate() -> None:
    """In every text; a steady one is said in the page."""
    finite = altered(levels=(msgspec.structs.replace(level(0, 20), arrivals="finite"),))

    for form in ("terminal", "markdown", "html"):
        assert "understates" in " ".join(write(form, report(finite)).split())
    assert "(steady)" in write("html", report())
    assert "understates" not in write("html", report())
