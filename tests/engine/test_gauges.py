"""A server's figures by our names, whatever its page looks like."""

from __future__ import annotations

import asyncio

import pytest

from headcount.engine.gauges import Gauge, Meter, Page, figures, largest, mean, total
from headcount.http import Client, Target
from tests.pages import MISSING, Pages, json_page, page, recorded

METER = Meter({"running": total("new:run", "old:run"), "kv": largest("new:kv")}, turn_on="start it with --metrics")


def look(answer: bytes | None) -> tuple[Page, tuple[str, ...]]:
    """The page as it is taken, and what is said about it."""

    async def main() -> tuple[Page, tuple[str, ...]]:
        async with Pages({} if answer is None else {"/metrics": answer}) as server:
            client = Client(Target(url=server.url))
            found = await METER.page(client), await METER.notes(client)
            await client.close()
            return found

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("old:run 3\n", {"running": 3.0}),
        ("new:run 4\n", {"running": 4.0}),
        ("old:run 3\nnew:run 4\n", {"running": 4.0}),
        ("other:run 3\n", {}),
        ("new:run NaN\nold:run 3\n", {"running": 3.0}),
    ],
)
def test_the_newest_name_on_the_page_counts(text: str, expected: dict[str, float]) -> None:
    """A renamed metric is found under either name; one that is not there is absent, never 0."""
    assert figures(text, METER.table) == expected


def test_data_parallel_engines_are_summed_and_their_fullest_is_known() -> None:
    """Requests summed; the KV cache's use as maximum and as mean."""
    text = 'r{engine="0"} 3\nr{engine="1"} 5\nk{engine="0"} 0.2\nk{engine="1"} 0.8\n'
    table = {"r": total("r"), "most": largest("k"), "mean": mean("k")}

    assert figures(text, table) == {"r": 8.0, "most": 0.8, "mean": 0.5}


def test_workers_of_one_engine_are_counted_once() -> None:
    """Series that differ in their tensor-parallel rank alone are the same requests; other labels are others."""
    text = (
        'r{dp_rank="0",tp_rank="0"} 3\nr{dp_rank="0",tp_rank="1"} 3\n'
        'r{dp_rank="1",tp_rank="2"} 4\nr{dp_rank="1",tp_rank="3"} 4\n'
    )

    assert figures(text, {"r": Gauge(("r",))}) == {"r": 7.0}


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (MISSING, "absent", "start it with --metrics"),
        (None, "absent", "start it with --metrics"),
        (page("no", status=501), "absent", "start it with --metrics"),
        (page("no", status=401), "protected", "API key"),
        (page("no", status=403), "protected", "API key"),
        (page("<html><body>Welcome</body></html>"), "malformed", "something in between"),
        (json_page([{"iter": 1}]), "malformed", "something in between"),
        (page(b"\xff\xfe\0\0garbage"), "malformed", "something in between"),
        (page("quite:another 1\n"), "prometheus", "none of the names"),
        (page(""), "prometheus", "none of the names"),
    ],
)
def test_a_page_that_cannot_be_read_is_named(answer: bytes | None, state: str, said: str) -> None:
    """The run goes on without figures; one sentence says why, and what turns them on."""
    found, notes = look(answer)

    assert (found.state, found.figures) == (state, {})
    assert len(notes) == 1
    assert said in notes[0]


def test_a_good_page_needs_no_note() -> None:
    """Figures are there."""
    found, notes = look(page("# TYPE new:run gauge\nnew:run 2\n"))

    assert (found.state, found.figures, notes) == ("prometheus", {"running": 2.0}, ())


def test_a_page_cut_in_the_middle_keeps_what_came() -> None:
    """Half a line at its end costs that line alone."""
    text = recorded("vllm/idle_metrics").partition(b"\r\n\r\n")[2]
    whole = figures(text.decode(), {"r": total("vllm:num_requests_running")})

    half = figures(text.decode()[: len(text) // 3], {"r": total("vllm:num_requests_running")})

    assert whole == half == {"r": 0.0}


def test_nobody_there_is_absent() -> None:
    """A refused connection in mid-run raises nothing."""

    async def main() -> Page:
        client = Client(Target(url="http://127.0.0.1:1"))
        return await METER.page(client)

    assert asyncio.run(main()) == Page("absent")
