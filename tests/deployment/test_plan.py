"""The whole verb on the published load test: what it says, in which words, and with which exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headcount.cli import main
from headcount.store import open_run
from tests.deployment.reference import LARGE, SMALL, reference_paths

Plan = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The 8B's run and the 32B's."""
    return reference_paths(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def plan(paths: list[Path], capsys: pytest.CaptureFixture[str]) -> Plan:
    """Exit code and output of a plan for them."""

    def planned(*flags: str) -> tuple[int, str]:
        code = main(["plan", *map(str, paths), "--lang", "en", *flags])
        return code, capsys.readouterr().out

    return planned


def test_it_says_who_is_served_with_what(plan: Plan) -> None:
    """For 100 people: the table, streaming, caps, when to buy, and that it was checked."""
    code, said = plan("--people", "100")

    assert code == 0
    assert said.startswith(
        "Plan for 100 people, so that it feels slightly slow at worst.\nChecked by simulation: it holds."
    )
    assert re.search(rf"{LARGE}\s+complex questions\s+20\s+20 %\s+1\s+20\s+20\s+mandatory", said)
    assert "Streaming is mandatory: a whole answer takes 10.4 s with 20 people." in said
    assert "From 101 people in all on, a further GPU is needed for this model." in said
    assert "Without streaming it is needed from 63 people on." in said


def test_every_sentence_stands_on_figures_of_a_run(plan: Plan, paths: list[Path]) -> None:
    """Each figure names a level that is in a run, and what that level showed is in the run too."""
    document: dict[str, Any] = json.loads(plan("--people", "100", "--format", "json")[1])
    levels = {SMALL: {20: "3.5", 50: "5.4", 100: "8.6", 200: "16.9"}, LARGE: {20: "10.4", 50: "16.8"}}

    assert len(document["statements"]) > 15
    for statement in document["statements"]:
        assert statement["figures"], statement
        for figure in statement["figures"]:
            found = re.fullmatch(r"(\S+): level (\d+), (.*)", figure)
            assert found is not None, figure
            name, users, what = found[1], int(found[2]), found[3]
            assert users in levels[name]
            if told := re.match(r"p50 ([\d.]+) s", what):
                assert told[1] == levels[name][users]
    assert {open_run(path).facts.engine.model for path in paths} == set(levels)


def test_json_is_for_programs(plan: Plan) -> None:
    """Base units, the plan's numbers and what the simulation said."""
    document = json.loads(plan("--people", "100", "--format", "json")[1])
    small, large = document["models"]

    assert (document["people"], document["carried"], document["checked_holds"]) == (100, True, True)
    assert (small["name"], small["users"], small["streamed"], small["whole_users"]) == (SMALL, 80, True, 50)
    assert (large["cap_requests"], large["further_from_users"]) == (20, 101)
    assert all(abs(part["error_fraction"]) < 0.15 for part in document["rehearsed"])


def test_two_cards_are_simulated_where_the_card_is_known(plan: Plan) -> None:
    """With an interval; nothing is said of hardware nobody named."""
    assert "tensor parallelism" not in plan("--people", "50")[1]

    said = plan("--people", "50", "--gpu", "RTX PRO 6000")[1]
    found = re.findall(r"would carry (\d+) people as well as now \(simulated, 90 % interval (\d+) to (\d+)\)", said)
    assert len(found) == 2
    for users, low, high in (tuple(map(int, each)) for each in found):
        assert low <= users <= high
    assert int(found[1][0]) > 20


def test_markdown_and_korean(plan: Plan) -> None:
    """A table for a forum post; the other language has every sentence."""
    assert f"| {SMALL.replace('-', '-')} | simple questions | 40 |" in plan("--people", "50", "--format", "markdown")[1]

    said = plan("--people", "50", "--lang", "ko")[1]
    assert "50명을 위한 계획" in said
    assert re.findall(r"(?m)^  [A-Z][a-z]+ .*", said) == []


def test_too_many_people_are_not_met(plan: Plan) -> None:
    """Exit 1, and how many servers it would take."""
    code, said = plan("--people", "200", "--growth", "2x")

    assert code == 1
    assert "The servers measured do not carry them." in said
    assert "Too little: 180 people come, 100 are carried." in said
    assert "For 400 people it takes 4 servers of this model." in said
    assert "20 people more have complex questions: the smaller model answers them." in said


def test_accounts_become_people(plan: Plan) -> None:
    """As many as are exceeded in one busy hour of a hundred; one flag alone says too little."""
    assert plan("--accounts", "200", "--active-share", "0.1")[1].startswith("Plan for 30 people")
    assert plan("--accounts", "200")[0] == 2
    assert plan("--active-share", "0.1")[0] == 2


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--format", "html"], 2),
        (["--comfort", "comfortable"], 5),
        (["--server", "70B=http://10.0.0.5:8000"], 2),
        (["--complex", "70B"], 2),
        (["--gpu", "RTX 9999"], 2),
    ],
)
def test_what_cannot_be_planned_is_refused(plan: Plan, flags: list[str], code: int) -> None:
    """In one sentence, with the designed exit code."""
    assert plan(*flags)[0] == code


def test_it_writes_what_enforces_it(plan: Plan, tmp_path: Path) -> None:
    """One file for each gateway, and how to start the servers."""
    assert plan("--people", "100", "--write", str(tmp_path / "plan"))[0] == 0
    written = {path.name for path in (tmp_path / "plan").iterdir()}

    assert written == {"config.yaml", "nginx.conf", "haproxy.cfg", "launch.sh", "keys.env", "mix.toml"}
