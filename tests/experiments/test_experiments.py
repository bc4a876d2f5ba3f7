"""Every ready experiment on simulated servers: a planted effect is found and named, where there is none none is."""

from __future__ import annotations

import html
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from headcount.errors import ScenarioError
from headcount.experiments import EXPERIMENTS, ready_table, summary_line
from headcount.experiments.tailoring import mixed_adapters
from headcount.report import Report, write
from headcount.report.rows import level_rows
from headcount.report.words import words
from headcount.scenario import make_scenario
from tests.experiments.held import held, shorter

ADAPTERS = ["ants", "bees", "cats", "dogs", "eels"]


def test_every_experiment_is_a_scenario_with_a_line() -> None:
    """What is listed can be read, names itself, and says in a line what it is for."""
    for name in EXPERIMENTS:
        table = ready_table(name)
        assert (table["name"], table["experiment"]) == (name, name)
        assert summary_line(name).endswith((".", "?"))
        make_scenario(table)


def test_an_experiment_that_is_none_is_refused() -> None:
    """With the nearest one."""
    with pytest.raises(ScenarioError, match="no experiment 'streeming'") as refused:
        ready_table("streeming")

    assert "streaming" in refused.value.hint


def test_streaming_is_needed_where_answers_are_long(tmp_path: Path) -> None:
    """Half a minute of waiting for the whole becomes a moment for its first words."""
    table = shorter("streaming", 2, 8, level_time_s=90)
    table["workload"] = {"kind": "chat", "turns": 1, "output_tokens": 700}
    verdict, _ = held(tmp_path, table)

    assert verdict.sentence.startswith("Answers must be streamed: whole ones are frustrating already at 2 people")
    assert "stream the answers" in verdict.advice
    assert any("streamed ones begin within" in line and "(comfortable)" in line for line in verdict.findings)


def test_streaming_is_not_needed_where_answers_are_short(tmp_path: Path) -> None:
    """Twenty tokens come at once either way, and streaming costs nothing."""
    table = shorter("streaming", 2, 8, level_time_s=30)
    table["workload"] = {"kind": "short"}
    verdict, _ = held(tmp_path, table)

    assert verdict.sentence.startswith("Streaming is not needed here")
    assert verdict.findings[-1].endswith("no difference seen")
    assert verdict.advice == ()


def test_long_answers_feel_good_to_fewer_people(tmp_path: Path) -> None:
    """On four slots short answers carry eight people, longer ones four."""
    verdict, _ = held(tmp_path, shorter("lengths", 2, 4, 8, level_time_s=80), server="laptop")

    assert verdict.sentence == "Up to how many people answers feel good, by their length: short 8, medium 4, long 4."


def test_lengths_make_no_difference_to_a_fast_server(tmp_path: Path) -> None:
    """All of them feel good as far as was tried."""
    verdict, _ = held(tmp_path, shorter("lengths", 1, 4, level_time_s=40), server="workstation")

    assert verdict.sentence == "Answers of every length feel good up to 4 people, the most that were tried."


def test_pasted_documents_stall_short_answers(tmp_path: Path) -> None:
    """Reading thousands of tokens takes this server most of a second each time, and the others wait for it."""
    verdict, _ = held(tmp_path, shorter("interference", level_time_s=120, visits=2))

    assert verdict.sentence.startswith("Pasted documents make short answers stall: the longest pauses take")
    assert "chunked prefill" in verdict.advice[0]
    assert [level.users for level in verdict.levels] == [6, 8, 8, 6]


def test_two_more_who_ask_short_questions_do_not(tmp_path: Path) -> None:
    """The same two people, but what they paste is short."""
    table = shorter("interference", level_time_s=120, visits=2)
    table["condition"][1]["workload"]["personas"]["document"]["first_prompt_tokens"] = [40, 80]
    verdict, _ = held(tmp_path, table)

    assert verdict.sentence == "Pasted documents do nothing to short answers that could be seen."
    assert verdict.advice == ()


def test_people_who_come_all_at_once_wait_longer(tmp_path: Path) -> None:
    """Everybody's prompt is read before anybody's answer goes on."""
    verdict, _ = held(tmp_path, shorter("burst", 12, level_time_s=120))

    assert verdict.trusted
    assert verdict.sentence.startswith("As many people, but all at once: they wait ")
    assert verdict.advice


def test_people_who_come_alike_wait_alike(tmp_path: Path) -> None:
    """Three conditions that are the same under other names."""
    table = shorter("burst", 12, level_time_s=120)
    table["condition"] = [{"name": condition["name"]} for condition in table["condition"]]
    verdict, _ = held(tmp_path, table)

    assert verdict.sentence == "It makes no difference that could be seen how these people come."


def _contexts(first_tokens: int, second_tokens: int) -> dict[str, Any]:
    table = shorter("context", max_users=32, confirmations=1, resolution=0.2)
    lengths = {"1k": first_tokens, "4k": second_tokens}
    table["condition"] = [{"name": n, "workload": {"first_prompt_tokens": t}} for n, t in lengths.items()]
    return table


def test_the_limit_falls_with_the_context(tmp_path: Path) -> None:
    """Two searches, interleaved: four times the context, a fraction of the people, since the KV cache is small."""
    verdict, _ = held(tmp_path, _contexts(1000, 4000), kv_pool_tokens=16_000)
    short, long = verdict.conditions

    assert short.searched
    assert long.searched
    assert short.limit_users is not None
    assert long.limit_users is not None
    assert verdict.sentence == (
        f"From a context of 4k on fewer people are carried: {long.limit_users} instead of {short.limit_users}."
    )
    assert any("KV cache was up to" in line for line in verdict.findings)
    assert verdict.limit_users is None


def test_equal_contexts_carry_as_many(tmp_path: Path) -> None:
    """Nothing falls where nothing changes."""
    verdict, _ = held(tmp_path, _contexts(1000, 1001))

    assert verdict.sentence == "No fall of the limit was seen up to a context of 4k."


def _adapters(level_time_s: float) -> dict[str, Any]:
    table = shorter("adapters", 12, level_time_s=level_time_s)
    table["condition"] = mixed_adapters(ADAPTERS)
    return table


def test_the_step_beyond_the_adapter_slots_is_found(tmp_path: Path) -> None:
    """This server holds four adapters at once: from five on it swaps them, and people wait."""
    verdict, run = held(tmp_path, _adapters(60), adapters=ADAPTERS)

    assert verdict.sentence.startswith("With 5 adapters instead of 4 people wait ")
    assert "swap" in verdict.sentence
    assert any(line.startswith("eels under 5 adapters: TTFT p50") for line in verdict.findings)
    asked = {request.adapter for request in run.requests()}
    assert asked == {None, *ADAPTERS}


def test_adapters_that_cost_nothing_are_said_to_cost_nothing(tmp_path: Path) -> None:
    """A server that holds eight and computes them for nothing."""
    options: dict[str, Any] = {"adapter_fraction": 0.0, "adapter_load_s": 0.0, "policy": "sglang"}
    verdict, _ = held(tmp_path, _adapters(60), adapters=ADAPTERS, **options)

    assert verdict.sentence.startswith("Adapters cost nothing that could be seen: up to 5 adapters")


def test_many_adapters_are_not_all_held() -> None:
    """Doubling numbers, and those around what the server holds at once."""
    names = [one["name"] for one in mixed_adapters([f"a{n}" for n in range(20)], slots=5)]

    assert names == [
        *("base", "1 adapter", "2 adapters", "4 adapters", "5 adapters", "6 adapters", "8 adapters"),
        *("16 adapters", "20 adapters"),
    ]


def _models(**other: object) -> dict[str, Any]:
    table = shorter("models", 4, 12, level_time_s=60)
    table["workload"] = {"kind": "chat", "output_tokens": [40, 120]}
    table["condition"] = [{"name": "small"}, {"name": "large", "engine": {"options": {"seed": 7, **other}}}]
    return table


def test_a_slower_model_is_slower_by_as_much(tmp_path: Path) -> None:
    """Three times as slow, at every number of people."""
    verdict, run = held(tmp_path, _models(speed=1 / 3))

    ratio = float(verdict.sentence.split()[4])
    assert 2.8 < ratio < 3.2
    assert verdict.sentence.endswith("about the same at every number of people.")
    assert run.facts.engines["large"].details["speed"] == pytest.approx(1 / 3)


def test_the_same_model_twice_is_no_different(tmp_path: Path) -> None:
    """Chance alone differs."""
    verdict, _ = held(tmp_path, _models())

    assert verdict.sentence.startswith("No difference seen: answers of large take 1.0")


def test_a_cold_start_is_told_apart_from_what_follows(tmp_path: Path) -> None:
    """The model is unloaded after five minutes and takes eight seconds to load."""
    verdict, run = held(tmp_path, shorter("cold-start"), load_s=8.0, unload_after_s=300.0)

    assert verdict.sentence == ("The first request waits 8.0 s, those after it 0.02 s: about 8.0 s go into loading.")
    begins_s = [level.began_at_s for level in run.levels()]
    assert all(later - earlier > 330 for earlier, later in itertools.pairwise(begins_s))


def test_no_cold_start_is_seen_where_there_is_none(tmp_path: Path) -> None:
    """The model stays loaded."""
    verdict, _ = held(tmp_path, shorter("cold-start"))

    assert verdict.sentence.startswith("No cold start was seen")


def test_a_soak_is_a_search_with_a_long_hold(tmp_path: Path) -> None:
    """As ``find --soak``: a limit, and the recommended number held."""
    table = shorter("soak", soak_s=300.0, max_users=32)
    table["workload"] = {"kind": "short"}
    verdict, _ = held(tmp_path, table, server="laptop")

    assert verdict.limit_users
    assert verdict.soak[0].soak.held_s > 200
    assert verdict.conditions == ()


@pytest.mark.parametrize("form", ["terminal", "markdown", "html", "json"])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_format_tells_the_sentence_then_the_findings(measured: Report, form: str, language: str) -> None:
    """In the reader's language, but for the JSON, which programs read."""
    _ = words("en" if form == "json" else language)
    text = write(form, Report(measured.verdict, measured.facts, measured.run, language, width=400))
    verdict = measured.verdict
    sentence, finding = (_(said).replace("×", "x") for said in (verdict.sentence, verdict.findings[0]))
    told = re.sub(r"\\(.)", r"\1", html.unescape(text)).replace("×", "x").replace("\\u00d7", "x")

    assert told.find(sentence) < told.find(finding)
    assert told.find(sentence) >= 0
    if language == "ko" and form != "json":
        assert sentence != verdict.sentence
        assert finding != verdict.findings[0]


def test_the_table_of_levels_names_conditions_in_their_order(measured: Report) -> None:
    """Not by the alphabet: what the others are held against comes first."""
    rows = level_rows(measured.verdict)

    assert [(row.users, row.condition) for row in rows] == [
        (users, condition) for users in (4, 12) for condition in ("small", "large")
    ]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One experiment."""
    verdict, run = held(tmp_path_factory.mktemp("runs"), _models(speed=0.5))
    return Report(verdict, run.facts, run)
