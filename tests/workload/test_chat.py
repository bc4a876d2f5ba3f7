"""Chat: the right lengths, the same words again, and no two beginnings alike."""

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.records import Conversation
from headcount.workload import Workload, make_workload

languages = st.sampled_from(["english", "korean"])


def first(workload: Workload, person: int = 0, stream: str = "level 0", n: int = 5) -> list[Conversation]:
    return list(islice(workload.conversations(person, stream), n))


@given(seed=st.integers(0, 2**63 - 1), person=st.integers(0, 2**20 - 1), language=languages)
def test_the_same_names_say_the_same(seed: int, person: int, language: str) -> None:
    """Seed, stream and person fix every byte, in a fresh process as in a used one."""
    table = {"languages": language}
    used = make_workload(table, seed)
    first(used, person + 1)

    assert first(used, person) == first(make_workload(table, seed), person)


def test_other_names_say_something_else() -> None:
    """Another seed, stream or person has other words from the first sentence on."""
    here = first(make_workload({}, 1))
    others = [first(make_workload({}, 2)), first(make_workload({}, 1), 1), first(make_workload({}, 1), 0, "level 1")]

    assert all(other[0].turns[0].text.split()[:6] != here[0].turns[0].text.split()[:6] for other in others)


@given(
    turns=st.tuples(st.integers(1, 4), st.integers(0, 4)),
    prompt=st.tuples(st.integers(8, 200), st.integers(0, 200)),
    language=languages,
    seed=st.integers(0, 1000),
)
def test_lengths_are_as_asked(turns: tuple[int, int], prompt: tuple[int, int], language: str, seed: int) -> None:
    """Turns, prompt lengths, output lengths and pauses lie within their bounds; the plan counts the words there are."""
    table: dict[str, Any] = {
        "turns": [turns[0], sum(turns)],
        "prompt_tokens": [prompt[0], sum(prompt)],
        "output_tokens": [5, 9],
        "languages": language,
        "tokens_per_word": {language: 1.5},
    }
    for conversation in first(make_workload(table, seed), n=3):
        assert turns[0] <= len(conversation.turns) <= sum(turns)
        for turn in conversation.turns:
            assert prompt[0] - 1 <= 1.5 * len(turn.text.split()) <= sum(prompt) + 1
            assert turn.planned_prompt_tokens == round(1.5 * len(turn.text.split()))
            assert 5 <= turn.max_output_tokens <= 9
            assert 0.3 <= turn.think_s <= 1.0


@pytest.mark.parametrize("language", ["english", "korean"])
def test_no_two_conversations_begin_alike(language: str) -> None:
    """Among 10,000 conversations of 4 levels no two share their first 8 words, and among the people of one level the
    first word is as varied as the language's words allow."""
    workload = make_workload({"languages": language, "turns": 1, "prompt_tokens": 30}, 7)
    openings = set()
    for level in range(4):
        texts = [
            conversation.turns[0].text.split()
            for person in range(250)
            for conversation in first(workload, person, f"level {level}", 10)
        ]
        openings |= {" ".join(words[:8]) for words in texts}
        firsts = [words[0] for words in texts[::10]]
        assert max(map(firsts.count, set(firsts))) <= 3

    assert len(openings) == 10_000


def test_expected_means_are_the_means() -> None:
    """What the planner is told agrees with what people then ask."""
    workload = make_workload({"first_prompt_tokens": [300, 500]}, 3)
    expected = workload.expected()
    talks = [c for person in range(40) for c in first(workload, person, n=20)]
    turns = [t for c in talks for t in c.turns]

    assert len(turns) / len(talks) == pytest.approx(expected.turns, rel=0.05)
    assert sum(t.think_s for t in turns) / len(turns) == pytest.approx(expected.think_s, rel=0.05)
    assert sum(t.planned_prompt_tokens or 0 for t in turns) / len(turns) == pytest.approx(
        expected.prompt_tokens, rel=0.05
    )


def test_a_pause_setting_moves_no_words() -> None:
    """Lengths, pauses and words are drawn apart."""
    slow = first(make_workload({"think_s": [5, 9]}, 1))
    quick = first(make_workload({}, 1))

    assert [t.text for c in slow for t in c.turns] == [t.text for c in quick for t in c.turns]


def test_a_made_up_system_prompt_is_shared() -> None:
    """Everybody of a persona declares the same system prompt, of the wanted length."""
    workload = make_workload({"system_tokens": 125, "tokens_per_word": {"english": 1.25}}, 1)
    systems = {c.system for person in range(5) for c in first(workload, person)}

    assert [len(system.split()) for system in systems] == [100]


def test_both_languages_are_spoken() -> None:
    """A mix of languages gives each person one of them, in proportion."""
    workload = make_workload({"languages": {"korean": 3, "english": 1}}, 1)
    korean = 0
    for person in range(40):
        spoken = {any("가" <= letter <= "힣" for letter in t.text) for c in first(workload, person) for t in c.turns}
        assert len(spoken) == 1
        korean += spoken.pop()

    assert korean == 30
