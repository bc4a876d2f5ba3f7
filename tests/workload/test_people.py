"""Deals, mixes and what stays with a person: exact shares, stickiness, independence of what else there is."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headcount.errors import ScenarioError
from headcount.records import Conversation
from headcount.workload import PRESETS, make_workload, settle, without_stages
from headcount.workload.deal import Deal

weights = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0.05, 20), min_size=1, max_size=6)


def talks(table: dict[str, Any], person: int, n: int = 4, seed: int = 1) -> list[Conversation]:
    return list(islice(make_workload(table, seed).conversations(person, "level 0"), n))


def firsts(table: dict[str, Any], users: int, seed: int = 1) -> list[Conversation]:
    workload = make_workload(table, seed)
    return [next(workload.conversations(person, "level 0")) for person in range(users)]


@given(weights=weights, seed=st.integers(0, 2**32), users=st.integers(1, 300))
def test_shares_hold_for_every_number_of_people(weights: dict[str, float], seed: int, users: int) -> None:
    """The first N people hold N x weight of each option within less than two, and ordinals count without gaps."""
    deal = Deal(weights, seed, "x")
    dealt = [deal.of(person) for person in range(users)]
    shares = deal.shares()
    for option in weights:
        ordinals = [ordinal for name, ordinal in dealt if name == option]
        assert ordinals == list(range(len(ordinals)))
        assert abs(len(ordinals) - users * shares[option]) < 1 + len(weights) / 2


@given(options=st.integers(2, 6), rounds=st.integers(1, 8), seed=st.integers(0, 2**32))
def test_equal_weights_are_exactly_even(options: int, rounds: int, seed: int) -> None:
    """Each k people hold k different options."""
    deal = Deal(dict.fromkeys(map(str, range(options)), 1.0), seed, "x")
    for start in range(0, rounds * options, options):
        assert len({deal.of(start + i)[0] for i in range(options)}) == options


def test_deals_of_different_names_are_independent() -> None:
    """Two even deals do not always pair the same options."""
    one, other = Deal({"a": 1, "b": 1}, 1, "one"), Deal({"a": 1, "b": 1}, 1, "other")
    pairs = Counter((one.of(person)[0], other.of(person)[0]) for person in range(400))

    assert min(pairs.values()) > 60
    assert len(pairs) == 4


MIX: dict[str, Any] = {
    "kind": "mix",
    "streamed": 0.75,
    "adapters": ["sql", "law", "poems"],
    "languages": {"english": 1, "korean": 1},
    "personas": {"chat": {"weight": 3}, "question": {}, "rag": {"weight": 2, "prompt_tokens": [20, 60]}},
}


@given(person=st.integers(0, 200), seed=st.integers(0, 1000))
def test_people_stay_who_they_are(person: int, seed: int) -> None:
    """Persona, model, adapter, style and language are the same in every conversation and every level."""
    workload = make_workload(MIX | {"models": {"small": 4, "large": 1}}, seed)
    said = [c for level in range(3) for c in islice(workload.conversations(person, f"level {level}"), 4)]

    assert len({(c.persona, c.model, c.adapter, c.streamed, c.language) for c in said}) == 1


def test_a_mix_has_its_shares() -> None:
    """60 people of a mix: personas, adapters and styles in the proportions asked for."""
    people = firsts(MIX | {"models": {"small": 4, "large": 1}}, 60)

    assert Counter(c.persona for c in people) == {"chat": 30, "question": 10, "rag": 20}
    assert set(Counter(c.adapter for c in people).values()) == {20}
    assert Counter(c.streamed for c in people) == {True: 45, False: 15}
    assert Counter(c.model for c in people) == {"small": 48, "large": 12}


def test_another_persona_changes_nobody() -> None:
    """The k-th person of a persona says the same bytes whatever other personas there are."""
    more = {**MIX, "personas": {**MIX["personas"], "agent": {"weight": 5}}}

    def said(table: dict[str, Any]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for c in firsts({key: table[key] for key in ("kind", "languages", "personas")}, 60):
            found.setdefault(c.persona, []).append(c)
        return found

    few, many = said(MIX), said(more)
    for persona, conversations in few.items():
        n = min(len(conversations), len(many[persona]))
        assert n > 2
        assert conversations[:n] == many[persona][:n]


def test_zipf_and_weights_of_adapters() -> None:
    """A few popular adapters and a long tail; or weights as given; a share of people without any."""
    zipf = Counter(c.adapter for c in firsts({"adapters": ["a", "b", "c", "d"], "adapter_zipf": 1.0}, 250))
    given_weights = Counter(c.adapter for c in firsts({"adapters": {"a": 3, "b": 1}, "adapter_share": 0.8}, 100))

    assert [zipf[name] for name in "abcd"] == pytest.approx([120, 60, 40, 30], abs=2)
    assert given_weights == {"a": 60, "b": 20, None: 20}


def test_all_adapters_come_from_the_server() -> None:
    """``all`` is filled in once the server has told; before that nobody can speak."""
    table = {"kind": "mix", "personas": {"chat": {"adapters": "all"}, "question": {}}}
    made = make_workload(settle(table, ["x", "y"]), 1)

    assert {next(made.conversations(p, "s")).adapter for p in range(8)} == {"x", "y", None}
    with pytest.raises(ScenarioError, match="nobody told"):
        firsts(table, 8)


def test_words_cost_what_they_cost_each_model() -> None:
    """A calibration by language and model changes the number of words, never the tokens planned."""
    table = {"models": ["small", "large"], "prompt_tokens": 100, "turns": 1}
    made = make_workload(settle(table, tokens_per_word={"english": 1.0, "english@large": 2.0}), 1)
    people = [next(made.conversations(person, "s")) for person in range(6)]

    assert {(c.model, len(c.turns[0].text.split())) for c in people} == {("small", 100), ("large", 50)}
    assert {c.turns[0].planned_prompt_tokens for c in people} == {100}


def test_a_scenario_knows_better_than_calibration() -> None:
    """What a scenario says a word costs stays."""
    settled = settle({"tokens_per_word": {"korean": 9.0}}, tokens_per_word={"korean": 2.0, "english": 1.0})

    assert settled["tokens_per_word"] == {"korean": 9.0, "english": 1.0}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_speaks(name: str) -> None:
    """Each ready persona gives conversations under its own name, in both languages."""
    for language in ("english", "korean"):
        for c in talks({"kind": name, "languages": language}, 3):
            assert c.persona == name
            assert c.language == language
            assert all(turn.text and turn.max_output_tokens > 0 and turn.think_s >= 0 for turn in c.turns)


def test_presets_are_what_they_say() -> None:
    """Agents do not think, voices speak afterwards, passages come before, keys cancel, documents are long once."""
    agent, voice, rag = (talks({"kind": kind}, 0)[0].turns[0] for kind in ("agent", "voice", "rag"))
    slow, key = talks({"kind": "chat-slow"}, 0)[0].turns[0], talks({"kind": "autocomplete"}, 0)[0].turns[0]
    document = talks({"kind": "document"}, 0)[0].turns

    assert agent.think_s == 0
    assert agent.stages[0].after
    assert voice.stages[0].name == "speech"
    assert voice.stages[0].after
    assert not rag.stages[0].after
    assert slow.reading_s_per_token == pytest.approx(0.2)
    assert key.cancel_after_s is not None
    assert (document[0].planned_prompt_tokens or 0) > 2900
    assert (document[1].planned_prompt_tokens or 0) < 65


def test_expected_means_of_a_mix() -> None:
    """People count, each with the means of their persona."""
    table = {"kind": "mix", "personas": {"a": {"think_s": 1, "weight": 3}, "b": {"think_s": 5}}}

    assert make_workload(table, 1).expected().think_s == pytest.approx(2.0)


def test_stages_can_be_left_out_everywhere() -> None:
    """Those of ready personas and of a mix's personas too; nothing else that people say or wait changes."""
    mixed = {"rag": {"weight": 2}, "helper": {"kind": "voice"}, "own": {"stages": [{"name": "x"}]}}
    tables: list[dict[str, object]] = [
        {"kind": "agent"},
        {"stages": [{"name": "x", "delay_s": 1}]},
        {"kind": "mix", "personas": mixed},
    ]
    for table in tables:
        whole, bare = make_workload(table, 1), make_workload(without_stages(table), 1)
        for person in range(6):
            said, left = (next(workload.conversations(person, "level 0")) for workload in (whole, bare))
            assert any(turn.stages for turn in said.turns)
            assert [replace(turn, stages=()) for turn in said.turns] == list(left.turns)
    assert without_stages({"kind": "trace", "file": "x"}) == {"kind": "trace", "file": "x"}
