"""How levels feel, and which run is for how many: the published load test's own conclusions come out."""

from __future__ import annotations

import msgspec
import pytest

from headcount.analysis.choice import Carries, choose
from headcount.analysis.comfort import BANDS, band, felt, needs_streaming, streaming_advice
from headcount.analysis.conclusions import Quantiles
from headcount.slo import Comfort
from tests.analysis.published import LARGE, SMALL, published
from tests.report.invented import NOTHING, level

USUAL = Comfort()
EIGHT, THIRTY_TWO = published(SMALL, 82.3e9)[0], published(LARGE, 84.5e9)[0]


def test_the_published_load_test_is_judged_as_it_judged_itself() -> None:
    """The 8B: comfortable with 20, borderline with 50, frustrating with 100, unusable with 200; the 32B frustrating
    with 20 and unusable from 50 on."""
    assert [one.comfort for one in felt(EIGHT, USUAL)] == list(BANDS)
    assert [one.comfort for one in felt(THIRTY_TWO, USUAL)] == ["frustrating", "unusable", "unusable", "unusable"]


def test_streaming_is_mandatory_for_the_large_model_at_20() -> None:
    """10.4 s are too long to wait for, but not at 32 tokens/s to read along; 16.8 s are too long for either."""
    assert [needs_streaming(one, USUAL) for one in THIRTY_TWO] == [True, False, False, False]
    (advice,) = streaming_advice(THIRTY_TWO, USUAL)
    assert "from 20 people on a whole answer takes 10.4 s" in advice
    assert streaming_advice(EIGHT[:2], USUAL) == ()


def test_the_choice_guide_says_what_the_load_test_concluded() -> None:
    """For 50 people and more the 8B; the 32B up to 20, streamed."""
    assert choose({"8B": EIGHT, "32B": THIRTY_TWO}, USUAL) == (
        Carries("8B", 50, streamed=False, from_users=50),
        Carries("32B", 20, streamed=True, from_users=20),
    )


@pytest.mark.parametrize(
    ("ttft_p95_s", "speed", "expected"),
    [(0.9, 12.0, 0), (2.0, 12.0, 1), (0.9, 6.0, 1), (5.0, 12.0, 2), (0.9, 3.0, 2), (11.0, 50.0, 3)],
)
def test_streamed_answers_are_felt_by_first_token_and_speed(ttft_p95_s: float, speed: float, expected: int) -> None:
    """The worse of both."""
    streamed = msgspec.structs.replace(level(0, 4, p95_s=ttft_p95_s), user_tokens_per_s=speed)

    assert band(streamed, USUAL) == BANDS[expected]


def test_bands_can_be_moved() -> None:
    """By the scenario's ``[comfort]``."""
    patient = Comfort(whole_s=(10.0, 20.0, 60.0))

    assert [one.comfort for one in felt(EIGHT, patient)] == [
        "comfortable",
        "comfortable",
        "comfortable",
        "slightly slow",
    ]


def test_what_is_not_known_has_no_band() -> None:
    """A level without answers is not called comfortable."""
    empty = msgspec.structs.replace(level(0, 4), ttft_s=NOTHING, e2e_s=NOTHING)

    assert band(empty, USUAL) == ""
    assert band(msgspec.structs.replace(empty, e2e_s=Quantiles(1, 3.0, None, 3.0)), USUAL) == "comfortable"


def test_nothing_is_chosen_where_nothing_is_carried() -> None:
    """Unusable from the first level on."""
    assert choose({"A": THIRTY_TWO[1:]}, USUAL) == (Carries("A", None, streamed=False, from_users=None),)
