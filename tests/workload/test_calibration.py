"""Calibration, history and preview: pure rules with known answers."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.records import Turn
from headcount.workload import make_workload, settle
from headcount.workload.calibration import calibration_texts, token_cost
from headcount.workload.history import fits
from headcount.workload.preview import preview


@settings(max_examples=20)
@given(per_word=st.floats(0.8, 9), overhead=st.integers(0, 300), seed=st.integers(0, 99))
def test_the_cost_of_a_word_is_found(per_word: float, overhead: int, seed: int) -> None:
    """Counts that are proportional to words, rounded, give the cost back within 2 %."""
    words = [len(one.text.split()) for one in calibration_texts(make_workload({}, seed))]
    cost = token_cost(overhead + 1, [(w, overhead + round(per_word * w)) for w in words])

    assert cost is not None
    assert cost.tokens_per_word == pytest.approx(per_word, rel=0.02)
    assert cost.overhead_tokens == overhead
    assert cost.error_fraction < 0.01


@pytest.mark.parametrize("counted", [[], [(20, 30)], [(20, 31), (200, 31)], [(20, 0), (40, 0)]])
def test_what_tells_nothing_gives_none(counted: list[tuple[int, int]]) -> None:
    """No text, or counts that are the template's alone: no cost is invented."""
    assert token_cost(31, counted) is None


def test_calibration_fits_a_small_context() -> None:
    """Even a vocabulary that spells every Korean letter in bytes takes the longest text into 1,024 tokens."""
    texts = calibration_texts(make_workload({"kind": "document", "languages": "korean"}, 1), 1024)

    assert max(len(one.text.split()) for one in texts) * 9 < 1024


def test_every_language_and_model_is_calibrated() -> None:
    """As many texts of each as asked for, under the key that a calibrated table uses."""
    table = {"languages": {"english": 1, "korean": 1}, "models": ["small", "large"]}
    texts = calibration_texts(make_workload(table, 1), each=12)

    assert Counter(one.key for one in texts) == dict.fromkeys(
        ["english@small", "english@large", "korean@small", "korean@large"], 12
    )
    assert {one.model for one in texts if one.key == "korean@large"} == {"large"}


def test_a_second_round_speaks_as_long_as_planned() -> None:
    """With a cost of 9 tokens a word the texts become as short as they will be."""
    table: dict[str, object] = {"languages": "korean"}
    texts = calibration_texts(make_workload(settle(table, tokens_per_word={"korean": 9.0}), 1))

    assert max(len(one.text.split()) for one in texts) <= 28


def test_a_conversation_ends_before_the_context_does() -> None:
    """The next turn must fit with its answer; unknown limits and counts let it pass."""
    turn = Turn("x", 100, 0.0, planned_prompt_tokens=50)

    assert fits(800, 50, turn, 1000)
    assert not fits(801, 50, turn, 1000)
    assert fits(801, 50, turn, None)
    assert fits(None, 50, turn, 1000)
    assert not fits(0, 0, Turn("x" * 3000, 1, 0.0), 1000)


def test_a_preview_foretells_a_minute() -> None:
    """People, shares and tokens of one minute, and three sample conversations of different personas."""
    table = {"kind": "mix", "streamed": 0.5, "personas": {"chat": {"output_tokens": 100}, "question": {}, "rag": {}}}
    seen = preview(make_workload(table, 1), 30)

    assert seen.personas == {"chat": 10, "question": 10, "rag": 10}
    assert seen.styles == {"streamed": 15, "whole": 15}
    assert seen.requests == len(seen.prompt_tokens) == len(seen.output_tokens)
    assert 0.5 < seen.requests / 30 / 6 < 2
    assert seen.output_tokens_per_s == pytest.approx(sum(seen.output_tokens) / 60)
    assert seen.prompt_tokens[-1] > 2000
    assert {sample.persona for sample in seen.samples} == {"chat", "question", "rag"}


def test_a_preview_of_one_kind_shows_three_people() -> None:
    """Samples are filled up with other people of the same persona."""
    assert len(preview(make_workload({}, 1), 10).samples) == 3
    assert len(preview(make_workload({}, 1), 1).samples) == 1
