"""Real conversations and traces: every published form is read, every bad row is named, nothing crashes."""

import contextlib
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headcount.errors import ScenarioError
from headcount.workload import make_workload
from headcount.workload.rows import read_conversations, read_trace
from headcount.workload.trace import Trace

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:17:00.0000000,0,7
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,Conversation log
"""
BURSTGPT_SESSIONS = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5.5,a,1.2,ChatGPT,472,18,490,Conversation log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 1100, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3052, "input_length": 1200, "output_length": 490, "hash_ids": [0, 1, 3]}
"""
OURS = """{"at_s": 9.5, "prompt_tokens": 100, "output_tokens": 50}
{"at_s": 7.5, "prompt_tokens": 200, "output_tokens": 60}
"""


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("azure.csv", AZURE_2023, [(0.0, 374, 44), (4.314579, 396, 109)]),
        ("azure24.csv", AZURE_2024, [(0.0, 2162, 5), (0.99007, 2399, 6)]),
        ("burst.csv", BURSTGPT, [(0.0, 472, 18), (113.0, 417, 276)]),
        ("burst3.csv", BURSTGPT_SESSIONS, [(0.0, 472, 18)]),
        ("mooncake.jsonl", MOONCAKE, [(0.0, 1100, 500), (3.052, 1200, 490)]),
        ("ours.jsonl", OURS, [(0.0, 200, 60), (2.0, 100, 50)]),
        ("ours.csv", "at_s,prompt_tokens,output_tokens\n1,2,3\n", [(0.0, 2, 3)]),
    ],
)
def test_every_form_of_trace_is_read(tmp_path: Path, name: str, text: str, rows: list[tuple[float, int, int]]) -> None:
    """Azure's, BurstGPT's, Mooncake's and our own, the first request at 0, in order of time."""
    path = tmp_path / name
    path.write_text(text)
    found = read_trace(str(path)).good

    assert [(r.prompt_tokens, r.output_tokens) for r in found] == [row[1:] for row in rows]
    assert [r.at_s for r in found] == pytest.approx([row[0] for row in rows], abs=1e-5)


def test_bad_rows_are_named_and_counted(tmp_path: Path) -> None:
    """Rows left out are told by line; ``strict`` makes the first of them an error."""
    path = tmp_path / "azure.csv"
    path.write_text(AZURE_2023 + "yesterday,1,1\n2023-11-16 18:18:00,many,1\n2023-11-16 18:18:01\n")
    rows = read_trace(str(path))

    assert [line for line, _ in rows.bad] == [4, 5, 6, 7]
    assert "4 of 6 rows left out (line 4: 0 prompt and 7 output tokens" in rows.note("azure.csv")
    with pytest.raises(ScenarioError, match=r"azure\.csv, line 4: 0 prompt"):
        read_trace(str(path), strict=True)


CONVERSATIONS: list[tuple[Any, list[tuple[str, int | None]]]] = [
    (
        {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
                      {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}]},
        [("Hi", 6), ("Bye", None)],
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image_url"}]}]},
        [("What?", None)],
    ),
    ([{"role": "user", "content": "Bare"}], [("Bare", None)]),
    ({"id": "x", "conversations": [{"from": "human", "value": "안녕"}, {"from": "gpt", "value": "네"}]}, [("안녕", 1)]),
    ({"conversations": [{"from": "gpt", "value": "early"}, {"from": "user", "value": "Q"}]}, [("Q", None)]),
    ({"prompt": "Only this"}, [("Only this", None)]),
    ("a plain text", [("a plain text", None)]),
]  # fmt: skip


@pytest.mark.parametrize(("row", "turns"), CONVERSATIONS)
@pytest.mark.parametrize("as_list", [False, True])
def test_every_form_of_conversation_is_read(tmp_path: Path, row: Any, turns: list[Any], as_list: bool) -> None:
    """OpenAI messages, ShareGPT and prompts, as JSON lines or as one JSON list."""
    path = tmp_path / ("talks.json" if as_list else "talks.jsonl")
    path.write_text(json.dumps([row, row]) if as_list else json.dumps(row) + "\n\n" + json.dumps(row))
    found = read_conversations(str(path)).good

    assert [list(spoken.turns) for spoken in found] == [turns, turns]


def test_other_files_are_a_prompt_a_line(tmp_path: Path) -> None:
    """A text file needs no form at all."""
    path = tmp_path / "questions.txt"
    path.write_text("How?\n\n  Why? \n")

    assert [s.turns for s in read_conversations(str(path)).good] == [(("How?", None),), (("Why?", None),)]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("{", "no JSON"),
        ("3", "neither a conversation nor a prompt"),
        ('{"messages": []}', "nobody asks anything"),
        ('{"messages": [{"role": "user", "content": " "}]}', "an empty user message"),
        ('{"messages": [{"role": "user", "content": null}]}', "an empty user message"),
        ('{"messages": [{"content": "x"}]}', "a message without role"),
        ('{"messages": ["x"]}', "a message that is no table"),
        ('{"prompt": ""}', "an empty prompt"),
        ('{"answer": "x"}', "no messages, conversations or prompt"),
    ],
)
def test_bad_conversations_say_why(tmp_path: Path, row: str, why: str) -> None:
    """Each kind of bad row has its sentence, beside a good row that is kept."""
    path = tmp_path / "talks.jsonl"
    path.write_text(f'{row}\n{{"prompt": "good"}}\n')
    rows = read_conversations(str(path))

    assert len(rows.good) == 1
    assert rows.bad[0][0] == 1
    assert why in rows.bad[0][1]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("none.csv", None, "no such file"),
        ("empty.csv", "", "no trace known here"),
        ("other.csv", "a,b\n1,2\n", "its columns are a, b"),
        ("head.csv", "at_s,prompt_tokens,output_tokens\n", "holds no row"),
        ("empty.jsonl", "", "holds no row"),
        ("bad.jsonl", "{}\n", "line 1: no at_s and no timestamp"),
        ("number.jsonl", '{"at_s": "x", "prompt_tokens": 1, "output_tokens": 1}', "'x' is no number"),
        ("huge.jsonl", '{"at_s": 1e300, "prompt_tokens": 1, "output_tokens": 1}', "no sensible number"),
        ("ids.jsonl", '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 3}', "hash_ids"),
    ],
)
def test_useless_traces_are_explained(tmp_path: Path, name: str, text: str | None, why: str) -> None:
    """No file, no row, no known column: one sentence that names the file."""
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ScenarioError, match=name) as caught:
        read_trace(str(path))

    assert why in caught.value.message


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.json", "x.txt"])
@given(
    seed=st.sampled_from([AZURE_2023, BURSTGPT, MOONCAKE, OURS, "", "[", '[{"role":"user","content":"x"}]']),
    cut=st.integers(0, 400),
    junk=st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_any_bytes_give_rows_or_a_sentence(tmp_path: Path, name: str, seed: str, cut: int, junk: bytes) -> None:
    """Readers of outside data never fail in any other way than with ``ScenarioError``."""
    path = tmp_path / name
    path.write_bytes(seed.encode()[:cut] + junk + seed.encode()[cut:])
    for read in (read_trace, read_conversations):
        with contextlib.suppress(ScenarioError):
            rows = read(str(path))
            assert rows.good
            assert all(why for _, why in rows.bad)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["messages", "conversations", "role", "from", "content", "value", "prompt", "at_s", "timestamp",
                         "input_length", "output_length", "prompt_tokens", "output_tokens", "hash_ids"]), inner),
    max_leaves=8,
)  # fmt: skip


@given(values=st.lists(json_values, min_size=2, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_any_json_gives_rows_or_a_sentence(tmp_path: Path, values: list[Any]) -> None:
    """The same for well-formed JSON with everything in the wrong place."""
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    for read in (read_trace, read_conversations):
        with contextlib.suppress(ScenarioError):
            rows = read(str(path))
            assert len(rows.good) + len(rows.bad) == len(values)


# --- workloads made of them --------------------------------------------------------------------


def test_recorded_people_say_what_the_file_says(tmp_path: Path) -> None:
    """Every turn is in the data, answers are as long as the recorded ones, each person begins elsewhere, and a fresh
    first sentence keeps data said twice apart."""
    path = tmp_path / "talks.jsonl"
    talk = {"messages": [{"role": "user", "content": "Q0"}, {"role": "assistant", "content": "x" * 400}]}
    path.write_text("".join(json.dumps(talk).replace("Q0", f"Question {i}?") + "\n" for i in range(50)) + "{}\n")
    workload = make_workload({"kind": "data", "file": str(path), "think_s": 1}, 1)
    firsts = [next(workload.conversations(person, "level 0")).turns[0] for person in range(50)]
    long = list(islice(workload.conversations(3, "level 0"), 100))

    assert len({turn.text.split("Question")[1] for turn in firsts}) > 40
    assert {turn.max_output_tokens for turn in firsts} == {100}
    assert len({conversation.turns[0].text for conversation in long}) == 100
    assert {conversation.turns[0].text.split("Question")[1] for conversation in long} == {f" {i}?" for i in range(50)}
    assert workload.expected().output_tokens == 100
    assert "1 of 51 rows left out" in workload.notes[0]  # type: ignore[attr-defined]


def test_trace_people_ask_the_recorded_lengths(tmp_path: Path) -> None:
    """Person k asks what row k asked; rows that name the same blocks share exactly their text."""
    path = tmp_path / "mooncake.jsonl"
    path.write_text(MOONCAKE)
    workload = make_workload({"kind": "trace", "file": str(path), "tokens_per_word": {"english": 1.0}}, 1)
    one, other = (next(workload.conversations(person, "level 0")).turns[0] for person in range(2))

    assert (one.planned_prompt_tokens, one.max_output_tokens) == (1100, 500)
    assert (other.planned_prompt_tokens, other.max_output_tokens) == (1200, 490)
    assert one.text.split()[:1024] == other.text.split()[:1024]
    assert one.text.split()[1024:1040] != other.text.split()[1024:1040]
    assert isinstance(workload, Trace)
    assert list(workload.instants_s()) == [0.0, 3.052]


def test_trace_people_without_blocks_share_nothing(tmp_path: Path) -> None:
    """Text made for lengths alone is unique from the first words on, also when rows are used again."""
    path = tmp_path / "ours.jsonl"
    path.write_text(OURS)
    workload = make_workload({"kind": "trace", "file": str(path)}, 1)
    texts = [c.turns[0].text for p in range(20) for c in islice(workload.conversations(p, "level 0"), 20)]

    assert len({" ".join(text.split()[:8]) for text in texts}) == 400
