"""Calibration, history and preview: pure rules with known answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.records import Turn
from headcount.workload import make_workload
from headcount.workload.calibration import calibration_texts, fit_token_cost
from headcount.workload.history import fits, stopped_growing
from headcount.workload.preview import preview


@given(per_word=st.floats(0.5, 5), overhead=st.floats(0, 300), seed=st.integers(0, 99))
def test_the_cost_of_a_word_is_found(per_word: float, overhead: float, seed: int) -> None:
    """Counts that are a line, rounded, give it back within 2 %."""
    words = [len(text.split()) for text in calibration_texts("korean", seed)]
    cost = fit_token_cost([(w, round(overhead + per_word * w)) for w in words])

    assert cost is not None
    assert cost.tokens_per_word == pytest.approx(per_word, rel=0.02)
    assert cost.overhead_tokens == pytest.approx(overhead, abs=1.5)
    assert cost.residual_fraction < 0.1


@pytest.mark.parametrize("counted", [[], [(20, 30)], [(20, 30), (20, 31)], [(20, 100), (200, 10)], [(20, 0), (40, 0)]])
def test_what_tells_nothing_gives_none(counted: list[tuple[int, int]]) -> None:
    """One length, or tokens that do not grow with the words: no cost is invented."""
    assert fit_token_cost(counted) is None


def test_a_conversation_ends_before_the_context_does() -> None:
    """The next turn must fit with its answer; unknown limits and counts let it pass."""
    turn = Turn("x", 100, 0.0, planned_prompt_tokens=50)

    assert fits(800, 50, turn, 1000)
    assert not fits(801, 50, turn, 1000)
    assert fits(801, 50, turn, None)
    assert fits(None, 50, turn, 1000)
    assert not fits(0, 0, Turn("x" * 3000, 1, 0.0), 1000)


def test_silent_truncation_is_noticed() -> None:
    """Prompts that stop growing betray a server that drops history."""
    turns = [Turn("x", 100, 0.0, planned_prompt_tokens=50)] * 4

    assert stopped_growing([60, 210, 360, 510], turns) is None
    assert stopped_growing([60, 210, 215, 218], turns) == 3
    assert stopped_growing([60], turns) is None


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
