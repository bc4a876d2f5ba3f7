"""Text costs what the rule says, and text made to measure costs exactly what was asked."""

import pytest

from headcount.simulator.words import text_of, text_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("  \n ", 0),
        ("river", 1),
        ("rivers bend", 2),
        ("constitution", 2),
        ("constitutional", 3),
        ("안녕하세요", 4),
    ],
)
def test_the_rule(text: str, tokens: int) -> None:
    """One for each 6 ASCII characters begun, two for each 3 others begun, word by word."""
    assert text_tokens(text) == tokens


@pytest.mark.parametrize("tokens", [0, 1, 59, 60, 500, 4000])
def test_text_to_measure(tokens: int) -> None:
    """Of any length."""
    assert text_tokens(text_of(tokens)) == tokens
