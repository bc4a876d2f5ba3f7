"""Power limits: the best one for a given loss, a null effect that is not ranked, a cold first visit that is dropped."""

from __future__ import annotations

from random import Random

import msgspec

from headcount.analysis.conclusions import ConditionResult, GpuFigures, LevelSummary
from headcount.analysis.findings import find
from headcount.analysis.findings.evidence import Evidence
from headcount.analysis.paired import Question, Said
from headcount.records import EngineFacts
from tests.report.invented import level

WATTS = {"600 W": 600.0, "450 W": 450.0, "350 W": 350.0}


def visit(index: int, condition: str, users: int, speed: float, power_w: float) -> LevelSummary:
    """A level that wrote ``speed`` times 1,000 tokens a second at full load."""
    one = level(index, users, "holds")
    rate = 1000.0 * speed * min(1.0, users / 16)
    return msgspec.structs.replace(
        one,
        condition=condition,
        output_tokens_per_s=rate,
        requests_per_s=rate / 200,
        window_s=80.0,
        n_requests=max(1, round(80 * rate / 200)),
        gpus=(GpuFigures("GPU-1", None, 60.0 + power_w / 50, power_w, None),),
    )


def evidence(speeds: dict[str, float], cold: float = 1.0, loss: float = 0.05) -> Evidence:
    """Three visits to 1 and 16 people under each limit, A B C C B A; the first of each runs ``cold`` times as fast."""
    noise = Random("power")
    levels: list[LevelSummary] = []
    for turn in range(3):
        names = list(speeds) if turn % 2 == 0 else list(reversed(speeds))
        for name in names:
            for users in (1, 16):
                speed = speeds[name] * (cold if turn == 0 else 1.0) * (1.0 + 0.004 * noise.uniform(-1, 1))
                levels.append(visit(len(levels), name, users, speed, 0.9 * WATTS[name]))
    results = tuple(ConditionResult(name, "m", None, False, None, None, 0, "not-seen", "", False) for name in speeds)
    return Evidence(
        results,
        tuple(levels),
        EngineFacts(engine="vllm", model="m", address="http://127.0.0.1:1"),
        power_limits_w=WATTS,
        loss_allowed_fraction=loss,
    )


PLANTED = {"600 W": 1.0, "450 W": 0.965, "350 W": 0.85}


def test_the_lowest_limit_within_the_allowed_loss_is_named() -> None:
    """450 W costs 3.5 %, 350 W costs 15 %; watts fell by a quarter, so a joule buys 1.29 times the tokens."""
    found = find("power", evidence(PLANTED))

    assert found.sentence == (
        "450 W is the limit to set: 4% fewer tokens per second than at 600 W, 1.29 times the tokens per joule."
    )
    assert find("power", evidence(PLANTED, loss=0.2)).sentence.startswith("350 W is the limit to set: 15% fewer")
    assert find("power", evidence({"600 W": 1.0, "350 W": 0.7})).sentence == (
        "Every lower limit costs more than 5% of the tokens per second."
    )


def test_limits_that_make_no_difference_are_not_ranked() -> None:
    """A null effect: the lowest is as good."""
    found = find("power", evidence(dict.fromkeys(WATTS, 1.0)))

    assert found.sentence == "No difference seen down to 350 W: it keeps the tokens per second of 600 W."
    assert [line for line in found.lines if "too close to rank" in line]


def test_the_first_visit_is_dropped() -> None:
    """A cold card's first levels, 30 % faster, change nothing."""
    warm, cold = find("power", evidence(PLANTED)), find("power", evidence(PLANTED, cold=1.3))

    assert warm.sentence == cold.sentence
    assert warm.lines == cold.lines


def test_answers_of_visits_that_are_dropped_make_no_pairs() -> None:
    """Answers to the same questions were given in every visit; those of the first one are left out with it."""
    one = evidence(PLANTED)
    spoken: dict[str, dict[Question, Said]] = {name: {} for name in WATTS}
    for held in one.levels:
        for turn in range(30):
            question = (f"visit {held.index // 6}, {held.users}", "", 0, 0, turn)
            spoken[held.condition][question] = Said(held.index, (5.0, 0.1, 0.02))

    assert find("power", msgspec.structs.replace(one, spoken=spoken)) == find("power", one)


def test_each_limit_tells_what_was_seen_with_few_and_with_many() -> None:
    """Tokens, watts, tokens per joule, degrees."""
    lines = find("power", evidence(PLANTED)).lines

    assert any(line.startswith("600 W at 16 people: ") and "540 W" in line and "71 °C" in line for line in lines)
    assert any(line.startswith("350 W at 1 person: ") for line in lines)
