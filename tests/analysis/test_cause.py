"""Adapters as a cause, what to turn on which server, the formula beside the limit, and accounts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headcount.analysis.accounts import accounts, in_accounts
from headcount.analysis.cause import find_cause
from headcount.analysis.conclusions import AdapterFigures, ClauseResult, LevelSummary, Limits
from headcount.analysis.flags import FLAGS, GENERAL, advice
from headcount.analysis.formula import estimate_sentence, first_estimate
from headcount.analysis.verdict import judge
from headcount.engine import ENGINES
from headcount.records import EngineFacts
from tests.analysis.crowd import SLO
from tests.analysis.invented import answering, followed, summary

VLLM = EngineFacts("vllm", slots=16)


def broken(*adapters: tuple[str, float], users: int = 8, **more: Any) -> LevelSummary:
    """A level whose first tokens came late, with the p95 of each adapter."""
    figures = tuple(AdapterFigures(name, 50, 0.5 * wait_s, wait_s) for name, wait_s in adapters)
    values: dict[str, Any] = {"server_running_max": 4.0, "server_waiting_mean": 2.0, **more}
    return summary(users, 0.3, value=3.0, adapters=figures, **values)


@pytest.mark.parametrize(
    ("level", "engine", "cause", "said"),
    [
        (broken(("", 0.4), ("law", 3.0), ("tax", 1.0)), VLLM, "adapters", "requests of law begin after 3.00 s"),
        (
            broken(("law", 3.0), ("tax", 3.0), ("art", 3.0), adapters_in_use_max=2.0),
            VLLM,
            "adapters",
            "3 were asked for, at most 2 ran at once while 2.0 requests waited",
        ),
        (
            broken(("law", 3.0), ("tax", 3.0), server_waiting_mean=0.0),
            EngineFacts("llamacpp", slots=8),
            "adapters",
            "this server never works on two of them at once",
        ),
        (broken(("law", 3.0), ("tax", 3.0), adapters_in_use_max=2.0), VLLM, "prefill-compute", ""),
        (broken(("", 0.4), ("law", 3.0), ("tax", 3.0), server_running_max=16.0), VLLM, "slots", ""),
        (broken(("", 0.4), ("law", 3.0)), VLLM, "prefill-compute", ""),
    ],
    ids=["the bare model is quick", "few at once", "one at a time", "all at once", "slots are full", "one adapter"],
)
def test_adapters_give_out(level: LevelSummary, engine: EngineFacts, cause: str, said: str) -> None:
    """Where their requests wait and slots are free; not where slots are full, or where they wait like all others."""
    found = find_cause([summary(1, 0.0), level], 4, engine)

    assert found.name == cause
    assert said in found.sentence


def test_every_flag_is_of_a_known_engine_and_cause() -> None:
    """What helps is told for each cause, with the flags of the server at hand where there are any."""
    assert set(FLAGS) == set(GENERAL)
    for cause, by_engine in FLAGS.items():
        assert by_engine.keys() <= ENGINES.keys()
        for kind, flags in by_engine.items():
            assert advice(cause, EngineFacts(kind)) == (f"{GENERAL[cause]}: {flags}",)
        assert advice(cause, EngineFacts("openai")) == (GENERAL[cause],)
        assert advice(cause, None) == (GENERAL[cause],)


def test_a_simulated_server_is_advised_like_the_one_it_simulates() -> None:
    """By its scheduler."""
    simulated = EngineFacts("simulated", details={"policy": "sglang"})

    assert advice("slots", simulated)[0].endswith("--max-running-requests")


def measured(users: int, tokens_per_s: float, cycle_s: float) -> LevelSummary:
    """A level of which the formula needs no more."""
    return summary(users, 0.0, output_tokens_per_s=tokens_per_s, output_tokens_mean=100.0, turn_cycle_s=cycle_s)


@pytest.mark.parametrize(
    ("limit", "cause", "said"),
    [
        (30, "slots", "gives 60, more than was measured: it leaves out the queue for slots"),
        (30, "kv-memory", "memory that runs full"),
        (30, "prefill-compute", "the time that prompts take"),
        (30, "not-seen", "waits that grow before tokens/s do"),
        (58, "slots", "gives 60, about what was measured"),
        (90, "slots", "who waits asks less often (a turn with its pause took 9.0 s at the limit, 6.0 s before)"),
        (80, "slots", "throughput was not full yet"),
    ],
)
def test_the_formula_differs_for_a_reason(limit: int, cause: str, said: str) -> None:
    """Lower than it: what it leaves out. Higher: people who wait, or a server that was not full."""
    levels = [measured(1, 17.0, 6.0), measured(90, 1000.0, 9.0), measured(80, 900.0, 6.0)]
    estimate = first_estimate(levels)

    assert estimate == pytest.approx(60.0)
    assert said in estimate_sentence(estimate, limit, levels, cause)


def test_no_limit_no_comparison() -> None:
    """Neither where the limit nor where the estimate is unknown."""
    assert estimate_sentence(None, 10, [], "slots") == ""
    assert estimate_sentence(10.0, None, [], "slots") == ""


def test_the_answer_is_told_in_accounts() -> None:
    """As many as the recommended people are enough for, when so many of them are active; nothing without a share."""
    limits = Limits(max_users=64, max_time_s=3600.0)
    levels = followed(answering(20.0), limits)[0]
    verdict = judge(levels, limits, SLO, active_share=0.1)

    assert verdict.recommended_users
    assert verdict.accounts == accounts(verdict.recommended_users, 0.1) > 5 * verdict.recommended_users
    assert judge(levels, limits, SLO).accounts is None
    unknown = msgspec.structs.replace(verdict, recommended_users=None)
    assert in_accounts(unknown, 0.1).accounts is None


@pytest.mark.parametrize(
    ("kinds", "late_share", "cause", "said"),
    [
        ({"http_503": 488, "server_error": 7}, 0.85, "slots", "The server refuses people at 24: 85% of requests"),
        ({"server_error": 495}, 0.85, "not-seen", "Requests fail at 24 people: 85% of them, the first with: busy."),
        ({"http_503": 10}, 0.85, "prefill-compute", ""),
    ],
    ids=["a full queue", "errors", "late above all"],
)
def test_failures_give_out_where_they_are_most_of_what_missed(
    kinds: dict[str, int], late_share: float, cause: str, said: str
) -> None:
    """A server with a bounded queue refuses long before anybody waits."""
    failed = sum(kinds.values())
    level = summary(24, late_share, value=3.0, error_kinds=kinds, n_errors=failed, first_error="busy")
    level = msgspec.structs.replace(level, server_running_max=4.0, server_waiting_mean=2.0)
    error = ClauseResult("errors <= 1 %", 584, failed, 0.01, failed / 584, 0.0, 1.0, "fails")
    level = msgspec.structs.replace(level, clauses=(*level.clauses, error))

    found = find_cause([summary(1, 0.0), level], 4, VLLM)

    assert found.name == cause
    assert said in found.sentence
