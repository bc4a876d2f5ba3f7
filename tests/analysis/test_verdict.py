"""From summaries to an answer: published tables, headroom, formulas, accounts, causes."""

from __future__ import annotations

import pytest
from scipy import stats

from headcount.analysis.accounts import accounts
from headcount.analysis.cause import find_cause
from headcount.analysis.conclusions import Caution, LevelSummary, Limits, Quantiles
from headcount.analysis.verdict import judge
from headcount.records import EngineFacts
from tests.analysis.crowd import SLO
from tests.analysis.invented import summary

PUBLISHED = {
    # table: (clause, allowed, bound, [(users, value)], passes, fails)
    "nim-llama-3.3-70b-fp8-2xh100": (
        "ttft_p95 <= 2 s",
        0.05,
        2.0,
        [(1, 0.41), (5, 0.55), (25, 0.69), (50, 0.83), (100, 8.0), (150, 34.8), (200, 61.7), (250, 88.6)],
        50,
        100,
    ),
    "vllm-qwen2.5-7b-awq-rtx3060": (
        "ttft_p95 <= 0.5 s",
        0.05,
        0.5,
        [(1, 0.04), (8, 0.14), (32, 0.28), (64, 0.57), (96, 0.77)],
        32,
        64,
    ),
    "vllm-mistral-7b-rtx4090": (
        "ttft_p99 <= 1 s",
        0.01,
        1.0,
        [(4, 0.157), (8, 0.268), (16, 0.503), (32, 0.938), (48, 1.483)],
        32,
        48,
    ),
    "vllm-qwen3-4b-fp8-l4-multi-turn": ("ttft_p99 <= 5 s", 0.01, 5.0, [(12, 2.6), (14, 39.0)], 12, 14),
}
"""Published measurements of real servers; a quantile below its bound is told as a few misses, above as many."""


def table(rows: list[tuple[int, float]], clause: str, allowed: float, bound: float) -> list[LevelSummary]:
    """A published table as summaries."""
    return [
        summary(
            users,
            missing(value / bound, allowed),
            index=index,
            purpose="fixed",
            n=1000,
            clause=clause,
            allowed=allowed,
            value=value,
        )
        for index, (users, value) in enumerate(rows)
    ]


def missing(strain: float, allowed: float) -> float:
    """The share that misses when the quantile lies at ``strain`` of its bound."""
    return 0.0 if strain <= 0.5 else 0.2 * allowed if strain <= 1.0 else 0.5 if strain <= 2.0 else 1.0


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tables_give_their_passes_and_failures(name: str) -> None:
    """Fed in as fixed levels: the last that passes is the limit, the next one fails, the interval lies about there."""
    clause, allowed, bound, rows, passes, fails = PUBLISHED[name]
    limits = Limits(levels=tuple(users for users, _ in rows))
    verdict = judge(table(rows, clause, allowed, bound), limits, SLO)

    assert verdict.limit_users == passes
    assert verdict.fails_at_users == fails
    assert verdict.limit_interval_users is not None
    assert 0.8 * passes <= verdict.limit_interval_users[0] <= verdict.limit_interval_users[1] <= 1.1 * fails
    assert not verdict.at_least


def test_a_table_that_never_fails_is_at_least() -> None:
    """With a bound of 1 s the RTX 3060's answer is "at least 96", not 96."""
    clause, allowed, _, rows, *_ = PUBLISHED["vllm-qwen2.5-7b-awq-rtx3060"]
    verdict = judge(table(rows, clause, allowed, 1.0), Limits(levels=tuple(u for u, _ in rows)), SLO)

    assert verdict.limit_users == 96
    assert verdict.at_least
    assert verdict.sentence.startswith("At least 96 people")


def test_a_load_that_was_never_reached_is_refused() -> None:
    """The MI325X's 1,000 users: 21.9 answers a second of 15.4 s are 338 people. Above 100 nothing counts."""
    refused = Caution("load-not-as-said", "338 people were active", "look at client limits", fatal=True)
    rows = table([(10, 9.24), (50, 12.5), (100, 15.46)], "e2e_p99 <= 20 s", 0.01, 20.0)
    rows += [summary(users, 0.0, index=9, cautions=(refused,)) for users in (200, 1000)]
    verdict = judge(rows, Limits(levels=(10, 50, 100, 200, 1000)), SLO)

    assert verdict.limit_users == 100
    assert "load-not-as-said" in [caution.code for caution in verdict.cautions]


def test_headroom_is_kept_by_throughput() -> None:
    """A quarter of the throughput at the lower end of the interval stays free."""
    rows = [summary(users, 0.9 if users > 40 else 0.0, index=i) for i, users in enumerate((10, 20, 40, 44))]
    verdict = judge(rows, Limits(levels=(10, 20, 40, 44)), SLO)

    assert verdict.recommended_users == 30
    assert judge(rows, Limits(levels=(10, 20, 40, 44)), SLO, headroom=0.5).recommended_users == 20


def test_the_first_estimate_is_the_formula() -> None:
    """1,000 tokens/s sustained over 200 tokens every 10 s of one person: 50."""
    rows = [
        summary(1, 0.0, output_tokens_per_s=20.0, output_tokens_mean=200.0, turn_cycle_s=10.0),
        summary(60, 0.9, output_tokens_per_s=1000.0, output_tokens_mean=200.0, turn_cycle_s=12.0),
    ]

    assert judge(rows, Limits(), SLO).first_estimate_users == pytest.approx(50.0)
    assert judge([summary(1, 0.0)], Limits(), SLO).first_estimate_users is None


def test_the_knee_and_a_throughput_that_falls() -> None:
    """Told beside the limit, which uses neither."""
    rows = [
        summary(users, share, index=i, requests_per_s=rate, e2e_s=Quantiles(100, wait, wait, wait))
        for i, (users, share, rate, wait) in enumerate(
            [(10, 0.0, 4.0, 1.0), (20, 0.0, 8.0, 1.1), (40, 0.5, 8.1, 3.0), (80, 0.9, 5.0, 14.0)]
        )
    ]
    verdict = judge(rows, Limits(levels=(10, 20, 40, 80)), SLO)

    assert verdict.knee_users == 20
    assert "throughput-falls" in [caution.code for caution in verdict.cautions]


@pytest.mark.parametrize(
    ("users", "n_requests", "told"),
    [
        ((20, 40, 80), 200, True),
        ((20, 40, 80), 8, False),  # a short visit's rate is none
        ((5, 10, 20), 200, False),  # within the limit nothing falls past it
    ],
)
def test_throughput_falls_only_past_the_limit_and_only_where_it_was_measured(
    users: tuple[int, ...], n_requests: int, told: bool
) -> None:
    """8 answers a second at the first number, 4 at the last."""
    shares = (0.0, 0.5, 0.9) if users[-1] > 20 else (0.0, 0.0, 0.0)
    rows = [
        summary(u, share, index=i, requests_per_s=rate, n_requests=n_requests)
        for i, (u, share, rate) in enumerate(zip(users, shares, (8.0, 7.5, 4.0), strict=True))
    ]
    verdict = judge(rows, Limits(levels=users), SLO)

    assert ("throughput-falls" in [caution.code for caution in verdict.cautions]) is told


@pytest.mark.parametrize(("users", "share"), [(30, 0.1), (5, 0.3), (200, 0.05), (0, 0.1)])
def test_accounts_are_the_binomial_bound(users: int, share: float) -> None:
    """The largest number of which more than ``users`` are active at most once in a hundred busy hours."""
    found = accounts(users, share)

    assert stats.binom.sf(users, found, share) <= 0.01 < stats.binom.sf(users, found + 1, share)


# --- what gives out first ---------------------------------------------------------------------


def broken(clause: str = "ttft_p95 <= 2 s", **more: object) -> list[LevelSummary]:
    """A level that held and one that broke."""
    tpot = Quantiles(100, 0.02, 0.03, 0.04)
    good = summary(8, 0.0, clause=clause, tpot_s=tpot)
    return [good, summary(16, 0.5, index=1, clause=clause, **{"tpot_s": tpot, **more})]  # type: ignore[arg-type]


def caution(code: str) -> tuple[Caution, ...]:
    """One caution of a code."""
    return (Caution(code, "as seen", "as can be done"),)


VLLM = EngineFacts("vllm", slots=8)


@pytest.mark.parametrize(
    ("expected", "levels", "engine"),
    [
        ("client", broken(cautions=caution("client-lag")), None),
        ("proxy", broken(cautions=caution("capped-before-gpu")), None),
        ("heat-or-power", broken(cautions=caution("throttled")), None),
        ("kv-memory", broken(kv_used_max_fraction=0.99), VLLM),
        ("kv-memory", broken(cautions=caution("preemptions")), VLLM),
        ("slots", broken(server_running_max=8.0, server_waiting_mean=4.0), VLLM),
        ("slots", broken(in_flight_mean=12.0), VLLM),
        ("decode-bandwidth", broken("tpot_p95 <= 0.1 s", tpot_s=Quantiles(100, 0.09, 0.11, 0.2)), None),
        ("prefill-compute", broken(server_running_max=16.0, server_waiting_mean=0.3), None),
        ("not-seen", broken(), None),
        ("not-seen", [summary(8, 0.0)], None),
    ],
)
def test_the_cause_follows_from_the_evidence(
    expected: str, levels: list[LevelSummary], engine: EngineFacts | None
) -> None:
    """One of the names, with figures; "not seen" where nothing tells."""
    found = find_cause(levels, 8, engine)

    assert found.name == expected
    assert found.sentence.endswith(".")


def test_advice_names_the_engines_own_setting() -> None:
    """Where it is known."""
    levels = broken(server_running_max=8.0, server_waiting_mean=4.0)

    assert "--max-num-seqs" in find_cause(levels, 8, VLLM).advice[0]
    assert "--parallel" in find_cause(levels, 8, EngineFacts("llamacpp", slots=8)).advice[0]
    assert "--" not in find_cause(levels, 8, EngineFacts("openai", slots=8)).advice[0]
