"""Comparing runs: published ratios come out, an unchanged server is no different, a slower one is told apart."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from headcount.analysis.compare import Comparison, Ratio, compare, compare_conditions, unlike
from headcount.analysis.conclusions import LevelSummary, Quantiles
from tests.analysis.published import LARGE, SMALL, published
from tests.report.invented import level


def of(comparison: Comparison, measure: str, users: int) -> Ratio:
    """One ratio; 0 people for all levels together."""
    return next(r for r in (*comparison.levels, *comparison.overall) if (r.measure, r.users) == (measure, users))


def test_the_reference_load_tests_give_the_published_ratios() -> None:
    """The 32B is 3.0 to 3.1 times slower at every level, gives 0.41 to 0.37 of the tokens, and takes 1.03 times the
    memory, 13 degrees and 74 W more at 200 people."""
    (small, also_small), (large, also_large) = published(SMALL, 82.3e9), published(LARGE, 84.5e9)
    comparison = compare(small, large, also_small, also_large)

    medians = [of(comparison, "e2e_p50_s", users).ratio for users in SMALL]
    assert medians == pytest.approx([2.97, 3.11, 3.09, 3.09], abs=0.01)
    assert of(comparison, "e2e_p50_s", 0).ratio == pytest.approx(3.07, abs=0.03)
    assert of(comparison, "output_tokens_per_s", 20).ratio == pytest.approx(0.41, abs=0.005)
    assert of(comparison, "output_tokens_per_s", 200).ratio == pytest.approx(0.37, abs=0.005)
    assert of(comparison, "gpu_memory_used_bytes", 50).ratio == pytest.approx(1.03, abs=0.005)
    hotter, thirstier = (of(comparison, name, 200) for name in ("gpu_temperature_c", "gpu_power_w"))
    assert (hotter.second or 0) - (hotter.first or 0) == 13
    assert (thirstier.second or 0) - (thirstier.first or 0) == 74
    assert comparison.statement == "worse"
    assert compare(large, small).statement == "better"


def drawn(seed: int, slower: float = 1.0) -> list[LevelSummary]:
    """Six levels of 300 requests each, from log-normal waits."""
    random = np.random.default_rng(seed)
    levels = []
    for index, users in enumerate((4, 8, 16, 24, 28, 32)):
        answer_s = random.lognormal(np.log(4.0 * slower), 0.35, 300)
        first_s = random.lognormal(np.log(0.02 * users * slower), 0.6, 300)
        one = level(index, users, n=300)
        clauses = tuple(msgspec.structs.replace(clause, n_effective=300.0) for clause in one.clauses)
        levels.append(
            msgspec.structs.replace(
                one,
                clauses=clauses,
                e2e_s=quantiles(answer_s),
                ttft_s=quantiles(first_s),
                tpot_s=quantiles(answer_s / 100),
                output_tokens_per_s=users * 100 / float(np.mean(answer_s)),
            )
        )
    return levels


def quantiles(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Quantiles:
    """Of a sample."""
    p50, p95 = (float(np.quantile(values, q)) for q in (0.5, 0.95))
    return Quantiles(len(values), p50, p95, float(np.max(values)), p95_reliable=True)


def test_an_unchanged_server_is_no_different() -> None:
    """In at least 94 % of pairs of runs."""
    said = [compare(drawn(2 * seed), drawn(2 * seed + 1)).statement for seed in range(150)]

    assert said.count("no-difference") >= 0.94 * len(said)


def test_a_tenth_slower_is_told_apart() -> None:
    """In at least 90 % of pairs of runs."""
    said = [compare(drawn(2 * seed), drawn(2 * seed + 1, slower=1.1)).statement for seed in range(60)]

    assert said.count("worse") >= 0.90 * len(said)


def test_an_interval_covers_the_truth() -> None:
    """The 95 % interval of the pooled ratio holds the true 1.1 in at least 93 % of pairs."""
    pooled = [
        of(compare(drawn(2 * seed), drawn(2 * seed + 1, slower=1.1)), measure, 0)
        for seed in range(100)
        for measure in ("ttft_p95_s", "e2e_p50_s")
    ]
    covered = [ratio for ratio in pooled if (ratio.low_ratio or 9) <= 1.1 <= (ratio.high_ratio or 0)]

    assert len(covered) >= 0.93 * len(pooled)


def test_without_a_spread_nothing_is_claimed() -> None:
    """A figure of unknown spread has a ratio and no statement."""
    bare = [msgspec.structs.replace(level(0, 8), e2e_s=Quantiles(1, 4.0, None, None))]
    ratio = of(compare(bare, bare), "e2e_p50_s", 8)

    assert (ratio.ratio, ratio.low_ratio, ratio.statement) == (1.0, None, "cannot-tell")


def test_a_level_of_few_answers_hides_nothing_and_claims_nothing() -> None:
    """A search begins with one answer of one person: it has no spread of its own, and the other levels decide."""
    first, slower = drawn(1), drawn(2, slower=1.1)
    alone = level(9, 1, n=9)
    comparison = compare([alone, *first], [alone, *slower])

    assert of(comparison, "e2e_p50_s", 1).low_ratio is None
    assert comparison.statement == "worse"
    assert compare([alone], [alone]).statement == "cannot-tell"


def test_a_level_left_after_a_moment_is_not_held_against_one_that_was_held() -> None:
    """Its window ended with the first answers, so its tokens per second are not those of a steady load; against another
    search, which errs as much, it tells."""
    held = [msgspec.structs.replace(one, turn_cycle_s=6.0, window_s=60.0) for one in drawn(1)]
    left = [msgspec.structs.replace(one, window_s=5.0) for one in held]

    assert compare(held, left).statement == "cannot-tell"
    assert compare(left, left).statement == "no-difference"
    assert compare(held, held).statement == "no-difference"


def test_only_like_is_compared_with_like() -> None:
    """Other people, other conditions and voided levels have nothing in common."""
    assert compare([level(0, 8)], [level(0, 9)]).statement == "nothing-common"
    assert compare([level(0, 8, condition="a")], [level(0, 8, condition="b")]).statement == "nothing-common"
    assert compare([level(0, 8)], [level(0, 8, "void")]).statement == "nothing-common"


def test_two_conditions_of_one_run() -> None:
    """Held against each other in one run, they are compared where both held the same people."""
    levels = [level(0, 8, condition="streamed"), level(1, 8, condition="whole"), level(2, 9, condition="whole")]

    assert {ratio.users for ratio in compare_conditions(levels, "streamed", "whole").levels} == {8}


def test_repeats_of_a_level_are_taken_together() -> None:
    """Three visits are one comparison, as sure as they agree."""
    thrice = [level(n, 8, p95_s=0.5 + n / 100) for n in range(3)]
    comparison = compare(thrice, thrice)

    assert [ratio.users for ratio in comparison.levels if ratio.measure == "ttft_p95_s"] == [8]
    once = of(compare(thrice[:1], thrice[:1]), "ttft_p95_s", 8)
    all_three = of(comparison, "ttft_p95_s", 8)
    assert (all_three.high_ratio or 9) < (once.high_ratio or 0)


def test_other_lengths_are_named() -> None:
    """Answers twice as long are another question."""
    longer = [msgspec.structs.replace(level(0, 8), output_tokens_mean=424.0)]

    assert unlike([level(0, 8)], longer) == [("output_tokens_mean", 212.0, 424.0)]
    assert unlike([level(0, 8)], [level(0, 8)]) == []
