"""What-ifs as people write them."""

from __future__ import annotations

import pytest

from headcount.errors import ScenarioError
from headcount.prediction.cases import parse_case


def test_a_case_is_read() -> None:
    """Keys as the flags are called, users with slashes."""
    case = parse_case("gpu=rtx 5090, gpus=2,context=16384,users=20/50,power-limit=350 W,with=Qwen3-4B-AWQ,share=30%")

    assert case.change.gpu is not None
    assert case.change.gpu.name == "RTX 5090"
    assert (case.change.gpus, case.change.context_tokens, case.change.power_limit_w) == (2, 16384, 350.0)
    assert case.users == (20, 50)
    assert case.change.beside is not None
    assert case.change.beside_share == pytest.approx(0.3)
    assert "users" not in case.name


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ("gpus", "'gpus' is not understood", "gpus=2"),
        ("gpuss=2", "'gpuss' cannot be changed", "'gpus'"),
        ("gpus=two", "gpus must be a whole number", "gpus=2"),
        ("power-limit=-5", "power-limit must be a number above 0", "350"),
        ("share=30%", "no", "with="),
        ("with=Qwen3-4B,share=130%", "share must lie between", "30%"),
        ("gpu=RTX 9999", "gpu 'RTX 9999' is not in the catalogue", "RTX"),
        ("model=Gwen3-8B", "is not in the catalogue", "Qwen3-8B"),
    ],
)
def test_mistakes_are_named(text: str, told: str, hint: str) -> None:
    """With the key at fault and what would do."""
    with pytest.raises(ScenarioError) as caught:
        parse_case(text)

    assert told in caught.value.message
    assert hint in caught.value.hint
