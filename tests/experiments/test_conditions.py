"""Conditions of one run: whose turn it is, the same words for the same people, searches side by side, real servers."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headcount.cli import main
from headcount.engine.simulated import Simulated
from headcount.errors import RunError, ScenarioError, ServerError
from headcount.experiments.interleave import next_in_turn
from headcount.measure import measure
from headcount.records import Level, Prompt, Reply
from headcount.review import review
from headcount.scenario import encode_scenario, make_scenario, parse_scenario, under
from headcount.store import open_run
from headcount.workload import make_workload
from tests.experiments.held import agreed, held
from tests.test_whole_runs import Quiet

TWO: dict[str, Any] = {
    "slo": ["ttft_p95 <= 2 s"],
    "workload": {"kind": "short", "turns": 2},
    "search": {"levels": [2, 3], "level_time_s": 30},
    "condition": [{"name": "streamed"}, {"name": "whole", "slo": "whole", "workload": {"streamed": False}}],
}


def test_levels_go_a_b_b_a(tmp_path: Path) -> None:
    """Each number of people once under each condition, then once more the other way round."""
    _, run = held(tmp_path, TWO)

    assert [(level.users, level.condition) for level in run.levels()] == [
        (users, condition) for users in (2, 3) for condition in ("streamed", "whole", "whole", "streamed")
    ]


def test_three_conditions_go_there_and_back() -> None:
    """A B C C B A cancels whatever drifts evenly; who is done is left out."""
    held_so_far: list[int | None] = [0, 0, 0]
    turns = []
    while (place := next_in_turn(held_so_far)) is not None:
        turns.append("ABC"[place])
        held_so_far[place] = (held_so_far[place] or 0) + 1
        if held_so_far[place] == 2:
            held_so_far[place] = None

    assert "".join(turns) == "ABCCBA"


def _asked(run_folder: Path, condition: str) -> dict[tuple[object, ...], tuple[object, ...]]:
    """What was asked under a condition: by words, person, conversation and turn, the length planned and the pause."""
    run = open_run(run_folder)
    words = {level.index: level.words.partition("|")[0] for level in run.levels() if level.condition == condition}
    return {
        (words[r.level], r.person, r.conversation, r.turn): (r.planned_prompt_tokens, r.max_output_tokens, r.think_s)
        for r in run.requests()
        if r.level in words
    }


def test_the_same_people_ask_the_same(tmp_path: Path) -> None:
    """Question by question: as long, with as long an answer asked for and as long a pause after it."""
    _, run = held(tmp_path, TWO)
    streamed, whole = _asked(run.path, "streamed"), _asked(run.path, "whole")
    both = streamed.keys() & whole.keys()

    assert len(both) > 0.9 * len(streamed)
    assert {question: streamed[question] for question in both} == {question: whole[question] for question in both}
    assert len({words for words, *_ in both}) == 4


def test_the_words_are_the_same_after_the_first_sentence() -> None:
    """On one server; but for it, the second condition's prompts would lie in the cache already."""
    workload = make_workload({"kind": "chat", "turns": 3, "prompt_tokens": 120}, 1)
    first, second = (
        [next(workload.conversations(person, f"level 1, visit 1|{condition}")) for condition in ("a", "b")]
        for person in (0, 1)
    )
    for one, other in (first, second):
        assert [turn.text for turn in one.turns[1:]] == [turn.text for turn in other.turns[1:]]
        begun, others = one.turns[0].text.split(), other.turns[0].text.split()
        assert begun[0:8] != others[0:8]
        assert len(begun) == len(others)
        assert len(set(begun) & set(others)) > 0.5 * len(set(begun))


def test_no_condition_finds_the_other_ones_prompts_in_the_cache(tmp_path: Path) -> None:
    """First turns are new to the server under every condition."""
    _, run = held(tmp_path, TWO)
    first_turns = [r for r in run.requests() if r.turn == 1 and r.cached_tokens is not None]

    assert len(first_turns) > 20
    assert max(r.cached_tokens or 0 for r in first_turns) < 16


def test_other_servers_are_asked_word_for_word_the_same(tmp_path: Path) -> None:
    """There is no cache that both could share."""
    table = {**TWO, "condition": [{"name": "a"}, {"name": "b", "engine": {"options": {"speed": 0.5}}}]}
    _, run = held(tmp_path, table)

    assert {level.words for level in run.levels()} == {f"level {n}, visit {v}" for n in (1, 2) for v in (1, 2)}


def test_each_condition_is_judged_by_its_own_service_level(tmp_path: Path) -> None:
    """A first token is no matter of whole answers."""
    verdict, run = held(tmp_path, TWO)
    clauses: dict[str, set[str]] = defaultdict(set)
    for level in verdict.levels:
        clauses[level.condition] |= {clause.clause.split("_")[0] for clause in level.clauses}

    assert {name: sorted(one) for name, one in clauses.items()} == {
        "streamed": ["errors <= 1 %", "ttft"],
        "whole": ["e2e", "errors <= 1 %"],
    }
    assert review(run, "whole").levels[0].comfort == "comfortable"
    with pytest.raises(RunError, match="has no condition 'halved'"):
        review(run, "halved")


def test_conditions_without_levels_are_searched_side_by_side(tmp_path: Path) -> None:
    """A limit each, found by turns; the statement names both."""
    table = {
        "slo": ["ttft_p95 <= 2 s"],
        "workload": {"kind": "short"},
        "search": {"max_users": 64, "resolution": 0.2, "confirmations": 1},
        "condition": [{"name": "fast"}, {"name": "slow", "engine": {"options": {"server": "laptop", "speed": 0.5}}}],
    }
    verdict, run = held(tmp_path, table, server="laptop")
    fast, slow = verdict.conditions

    assert fast.limit_users is not None
    assert slow.limit_users is not None
    assert fast.limit_users > slow.limit_users
    assert verdict.findings[0].startswith(f"fast: {fast.limit_users} people")
    conditions = [level.condition for level in run.levels()]
    changes = sum(one != other for one, other in itertools.pairwise(conditions))
    assert changes > 0.4 * min(conditions.count("fast"), conditions.count("slow"))


def test_a_command_brings_a_condition_about(tmp_path: Path) -> None:
    """Before each of its levels, and no others."""
    log = tmp_path / "log"
    table = {**TWO, "condition": [{"name": "plain"}, {"name": "told", "before": f"echo told >> {log}"}]}
    held(tmp_path, table)

    assert log.read_text().split() == ["told"] * 4


def test_a_command_that_fails_is_told_and_ends_the_run(tmp_path: Path) -> None:
    """With what it said; what was measured before stays."""
    broken = {"name": "broken", "before": "echo no such limit >&2; exit 3"}
    with pytest.raises(ServerError, match=r"'broken': the command .* ended with status 3: no such limit") as failed:
        held(tmp_path, {**TWO, "condition": [{"name": "plain"}, broken]})

    assert failed.value.hint.startswith("run it by hand: echo")
    assert len(open_run(next(tmp_path.iterdir())).levels()) == 1


def test_a_scenario_with_conditions_is_stored_as_it_was() -> None:
    """Written and read, it is the same; what a condition does not say comes from the rest."""
    scenario = make_scenario(TWO)
    again = parse_scenario(encode_scenario(scenario))

    assert again == scenario
    whole = under(scenario, scenario.condition[1])
    assert whole.workload == {"kind": "short", "turns": 2, "streamed": False}
    assert (whole.slo, whole.search.levels, whole.condition) == ("whole", (2, 3), ())


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ([{"name": "a"}, {"name": "a"}], "two conditions are called 'a'"),
        ([{"name": "a", "workload": {"streemed": False}}], "condition 'a': workload.streemed is not a known key"),
        ([{"name": "a", "engine": {"modle": "x"}}], "condition 'a': engine.modle is not a known key"),
        ([{"name": ""}], "condition"),
    ],
)
def test_mistakes_name_their_condition(condition: list[dict[str, Any]], message: str) -> None:
    """And the key."""
    with pytest.raises(ScenarioError, match=message):
        make_scenario({**TWO, "condition": condition})


class _Stop(Exception):  # noqa: N818 it is no error
    """Somebody pulled the plug."""


def test_a_run_that_was_cut_short_goes_on_in_turn(tmp_path: Path) -> None:
    """Levels that were held stay, and those that were not follow in the same order."""

    def on_level(level: Level) -> None:
        if level.index == 4:
            raise _Stop

    scenario = make_scenario({**TWO, "engine": {"kind": "simulated"}})
    asked: dict[str, Any] = {"verb": "experiment", "out": tmp_path, "api_key": None, "agree": agreed}
    with pytest.raises(_Stop):
        measure(scenario, watcher=Quiet(on_level), **asked)
    (folder,) = tmp_path.iterdir()
    outcome = measure(scenario, watcher=Quiet(), resume=folder, **asked)

    assert outcome is not None
    assert outcome.verdict.complete
    held_levels = [(level.users, level.condition) for level in open_run(folder).levels() if level.ended == "time"]
    assert held_levels == [(u, c) for u in (2, 3) for c in ("streamed", "whole", "whole", "streamed")]


def test_the_plan_and_the_progress_name_the_conditions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is sent, and level by level."""
    flags = ["--users", "2", "--visits", "1", "--level-time", "20s", "--lang", "en", "--out", str(tmp_path)]

    assert main(["experiment", "streaming", "--engine", "simulated", *flags]) == 0
    said = capsys.readouterr().err
    assert "conditions, in turn: streamed, whole" in said
    assert "2 people  whole  fixed" in said


def test_an_experiment_can_be_shown_and_run_as_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ``--show`` prints is a scenario file."""
    assert main(["experiment", "burst", "--engine", "simulated", "--users", "3", "--show"]) == 0
    scenario = parse_scenario(capsys.readouterr().out)

    assert scenario.search.levels == (3,)
    assert [condition.name for condition in scenario.condition] == ["as they like", "all at once", "as agents"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["streeming"], "there is no experiment 'streeming'"),
        (["models", "http://127.0.0.1:1"], "models needs two to hold against each other"),
        (["models", "http://127.0.0.1:1", "Qwen3"], "an address and a model"),
        (["streaming", "http://127.0.0.1:1", "http://127.0.0.1:2"], "takes one address, not 2"),
        (["interference", "http://127.0.0.1:1", "--users", "4"], "the numbers of people of interference are its own"),
        (["burst", "--engine", "simulated", "--before", "true"], "--before is for cold-start"),
        (["burst", "--engine", "simulated", "--adapters", "a"], "--adapters is for adapters, not burst"),
        (["burst", "http://127.0.0.1:1", "--url", "http://x"], "--url is for models, not burst"),
        (["burst", "--engine", "simulated", "--loss", "0"], "--loss is for power, not burst"),
        (["adapters", "--engine", "simulated", "--adapters", " ,"], "names none"),
        (
            ["power", "--engine", "simulated", "--limits", "2,1", "--power-by-hand", "--power-command", "true"],
            "--power-command and --power-by-hand are both given",
        ),
        (["adapters", "--engine", "simulated"], "this server has no LoRA adapters"),
    ],
)
def test_mistakes_of_the_command_line_are_told(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence with a remedy; nothing is measured."""
    assert main(["experiment", *arguments, "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err

    assert said in told
    assert "hint:" in told
    assert list(tmp_path.iterdir()) == []


@contextmanager
def mocked(*options: str) -> Iterator[str]:
    """The mock server in a process of its own; gives its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "headcount", "mock", "--port", "0", *options], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.kill()


def test_two_real_addresses_are_held_against_each_other(tmp_path: Path) -> None:
    """Load processes are started anew at each switch, and every condition's requests went to its own server."""
    with mocked("server=workstation") as first, mocked("server=workstation", "speed=0.5") as second:
        flags = ["--users", "2", "--visits", "1", "--level-time", "6s", "--yes", "--lang", "en"]
        code = main(["experiment", "models", first, second, *flags, "--out", str(tmp_path)])

    run = open_run(next(tmp_path.iterdir()))
    assert code in (0, 5)
    assert [level.condition for level in run.levels()] == [url.split("//")[1] for url in (first, second)]
    assert {request.level for request in run.requests()} == {0, 1}


def test_the_simulated_engine_loads_its_model_once() -> None:
    """Whoever comes meanwhile waits as well; nobody does later."""
    from headcount.virtual import clock, run

    async def main_() -> list[float]:
        engine, waits_s = Simulated(load_s=5.0), []
        for _ in range(2):
            began_s, reply = clock()(), Reply()
            await engine.send(Prompt(({"role": "user", "content": "Hi"},), 4), reply)
            waits_s.append((reply.first_byte_at_s or 0.0) - began_s)
        return waits_s

    first_s, second_s = run(main_())
    assert first_s > 5.0
    assert second_s < 1.0
