"""The ready scenario files: each loads, and its people say sensible things."""

import tomllib
from itertools import islice
from pathlib import Path

import pytest

from headcount.scenario import encode_scenario, load_scenario, parse_scenario
from headcount.workload import PRESETS, WORKLOADS, make_workload, settle
from headcount.workload.arrivals import Finite, Replayed, Synchronised
from headcount.workload.preview import preview

FOLDER = Path(__file__).parents[2] / "scenarios"
FILES = sorted(FOLDER.glob("*.toml"))


def test_they_are_all_there() -> None:
    """Those that the documents name."""
    assert {path.stem for path in FILES} >= {
        "reference-chat", "reference-short", "home", "family", "office", "agents", "lora-tenants", "rag", "trace",
    }  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_gives_valid_conversations(path: Path) -> None:
    """It loads, is named as its file, survives being written, and 20 people speak."""
    scenario = load_scenario(path)
    workload = make_workload(settle(scenario.workload, ["sql", "law", "poems"]), scenario.seed)

    assert scenario.name == path.stem
    assert parse_scenario(encode_scenario(scenario)) == scenario
    for person in range(20):
        for conversation in islice(workload.conversations(person, "level 0"), 3):
            assert conversation.turns
            assert all(turn.text.strip() and turn.max_output_tokens >= 1 for turn in conversation.turns)
    assert preview(workload, 20).requests > 0


def test_the_reference_load_test_is_exact() -> None:
    """20, 50, 100, 200 people, 2-4 turns, at most 500 tokens, whole answers; all start, finish and leave."""
    scenario = load_scenario(FOLDER / "reference-chat.toml")
    workload = make_workload(scenario.workload, scenario.seed)
    talks = [next(workload.conversations(person, "level 0")) for person in range(200)]

    assert scenario.search.levels == (20, 50, 100, 200)
    assert scenario.arrivals == Finite(conversations_each=1)
    assert {len(c.turns) for c in talks} == {2, 3, 4}
    assert not any(c.streamed for c in talks)
    assert {t.max_output_tokens for c in talks for t in c.turns} == {500}
    assert all(0.3 <= t.think_s <= 1.0 for c in talks for t in c.turns)


def test_the_short_reference_has_its_requests() -> None:
    """5, 25, 50, 60, 100 and 100 requests at 1 to 100 people, at most 200 tokens."""
    scenario = load_scenario(FOLDER / "reference-short.toml")
    assert isinstance(scenario.arrivals, Finite)
    requests = [users * scenario.arrivals.conversations_at(i) for i, users in enumerate(scenario.search.levels)]

    assert requests == [5, 25, 50, 60, 100, 100]
    assert make_workload(scenario.workload, 1).expected().output_tokens == 200


def test_at_home_one_person_asks_for_all_lengths() -> None:
    """Short, medium and long answers, by fixed sampling, at 1, 2, 4 and 8 people."""
    scenario = load_scenario(FOLDER / "home.toml")
    talks = islice(make_workload(scenario.workload, scenario.seed).conversations(0, "level 0"), 60)
    lengths = [turn.max_output_tokens for talk in talks for turn in talk.turns]

    assert scenario.search.levels == (1, 2, 4, 8)
    assert scenario.engine.options == {"temperature": 0}
    assert all(lengths.count(length) > 0.1 * len(lengths) for length in (32, 128, 384))


def test_special_arrivals_are_what_they_say() -> None:
    """The office presses enter together, the trace is replayed from the file beside it."""
    trace = load_scenario(FOLDER / "trace.toml")

    assert isinstance(load_scenario(FOLDER / "office.toml").arrivals, Synchronised)
    assert trace.arrivals == Replayed(speed=2.0)
    assert Path(str(trace.workload["file"])) == FOLDER / "data" / "sample-trace.jsonl"
    assert tomllib.loads((FOLDER / "trace.toml").read_text())["workload"]["file"] == "data/sample-trace.jsonl"


def test_every_kind_is_explained() -> None:
    """The page on workloads names each ready persona, each kind and each way to arrive."""
    page = (FOLDER.parent / "docs" / "explanation" / "workloads.md").read_text()
    kinds = (*PRESETS, *WORKLOADS, "closed", "finite", "open", "synchronised", "trace")

    assert [kind for kind in kinds if f"`{kind}`" not in page and f'kind = "{kind}"' not in page] == []
