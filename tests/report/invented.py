"""Invented verdicts for the tests of reports: a plain one, and everything that can be missing, odd or hostile."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec

from headcount.analysis.comfort import band
from headcount.analysis.conclusions import Caution, ClauseResult, LevelSummary, Quantiles, Verdict
from headcount.records import EngineFacts, Gpu, Level, Request, RunFacts, Sample
from headcount.report import Report
from headcount.slo import Comfort
from headcount.store import Run, RunWriter, open_run

NOTHING = Quantiles(0, None, None, None)

FACTS = RunFacts(
    format_version=1,
    headcount_version="0.1.0",
    verb="find",
    started_utc="2026-12-01T10:14:03Z",
    seed=7,
    engine=EngineFacts(engine="vllm", version="0.11.2", model="Qwen/Qwen3-8B-AWQ", address="http://127.0.0.1:8000"),
    slo=("ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s", "errors <= 1 %"),
    gpus=(Gpu(uuid="GPU-1", name="NVIDIA RTX PRO 6000", power_limit_w=600.0, temperature_slowdown_c=85.0),),
)

CUT_OFF = Caution(
    code="truncated-prompts",
    sentence="Prompts stopped growing at 4,096 tokens: the server cuts long conversations.",
    remedy="Start it with a larger context, or take the limit for short conversations only.",
)
LAG = Caution(
    code="client-lag",
    sentence="Our own event loop was late by 64 ms (p99), so times at this level are partly ours.",
    remedy="Run headcount on another machine or with --processes 2.",
    fatal=True,
    level=5,
)

HOSTILE = (
    "\x1b[2J\x1b]0;pwned\x07[red]x[/red] <script>alert(1)</script> ![i](http://evil/) | `a` {{7*7}} \u202eabc @all"
)
"""Terminal escapes, rich markup, HTML, Markdown, a template, a bidi override and a mention."""


def level(
    index: int,
    users: int,
    decision: str = "holds",
    *,
    p95_s: float = 0.5,
    miss_fraction: float = 0.0,
    n: int = 120,
    purpose: str = "bracket",
    condition: str = "",
    whole: bool = False,
) -> LevelSummary:
    """One level whose figures follow from a few."""
    latency = Quantiles(n, p95_s * 0.4, p95_s, p95_s * 1.3, p95_reliable=n >= 59)
    ttft = ClauseResult(
        "ttft_p95 <= 2 s", n, round(n * miss_fraction), 0.05, miss_fraction, miss_fraction * 0.6,
        min(1.0, miss_fraction * 1.5 + 0.01), decision if decision != "void" else "undecided",
    )  # fmt: skip
    summary = LevelSummary(
        index=index,
        users=users,
        purpose=purpose,
        condition=condition,
        decision=decision,
        clauses=(ttft, ClauseResult("errors <= 1 %", n, 0, 0.01, 0.0, 0.0, 0.02, "holds")),
        cautions=(),
        n_requests=n,
        n_errors=0,
        error_kinds={},
        first_error=None,
        began_at_s=index * 60.0,
        steady_at_s=index * 60.0 + 12.0,
        ended_at_s=index * 60.0 + 55.0,
        window_s=43.0,
        ttft_s=NOTHING if whole else latency,
        tpot_s=NOTHING if whole else Quantiles(n, 0.03, 0.03 + users / 4000, 0.12, n >= 59),
        e2e_s=Quantiles(n, 4.0 + p95_s, 6.0 + p95_s, 9.0 + p95_s, n >= 59),
        max_gap_s=Quantiles(n, 0.05, 0.2, 0.9, n >= 59),
        output_tokens_per_s=3000 * users / (users + 30),
        requests_per_s=n / 43.0,
        user_tokens_per_s=1 / (0.03 + users / 8000),
        in_flight_mean=users * 0.46,
        prompt_tokens_mean=810.0,
        output_tokens_mean=212.0,
        tokens_estimated=False,
        goodput_per_s=n / 43.0 * (1 - miss_fraction),
        littles_users=users * 1.01,
        send_delay_p99_s=0.0008,
        loop_lag_p99_s=0.002,
        server_running_max=users * 0.6,
        server_waiting_mean=0.0 if decision == "holds" else 3.2,
        kv_used_max_fraction=min(1.0, users / 60),
        ttft_by_turn_s={1: p95_s * 0.3, 2: p95_s * 0.4, 3: p95_s * 0.5},
    )
    return msgspec.structs.replace(summary, comfort=band(summary, Comfort()))


PLAIN = Verdict(
    limit_users=48,
    at_least=False,
    limit_interval_users=(44.2, 51.6),
    recommended_users=36,
    fails_at_users=52,
    confirmations=3,
    cause="slots",
    cause_sentence="The server runs 24 requests at once and lets the others wait.",
    advice=("Raise --max-num-seqs: the GPU has memory for about 40 sequences.", "Then measure again."),
    cautions=(CUT_OFF,),
    trusted=True,
    complete=True,
    sentence="48 people can use Qwen/Qwen3-8B-AWQ at once.",
    first_estimate_users=55.0,
    knee_users=41.0,
    levels=(
        level(0, 1, p95_s=0.12, n=40, purpose="probe"),
        level(1, 16, p95_s=0.31),
        level(2, 32, p95_s=0.62),
        level(3, 64, "fails", p95_s=5.4, miss_fraction=0.31),
        level(4, 48, p95_s=1.41, miss_fraction=0.012, n=900, purpose="confirm"),
        level(5, 52, "fails", p95_s=2.6, miss_fraction=0.083, n=640, purpose="refine"),
        level(6, 48, p95_s=1.52, miss_fraction=0.019, n=860, purpose="confirm"),
        level(7, 36, p95_s=0.71, n=400, purpose="burst"),
        level(8, 48, p95_s=1.46, miss_fraction=0.015, n=890, purpose="confirm"),
    ),
)


def report(verdict: Verdict = PLAIN, facts: RunFacts = FACTS, width: int = 100, language: str = "en") -> Report:
    """A report of a verdict, without requests and samples."""
    return Report(verdict=verdict, facts=facts, width=width, language=language)


def altered(**changes: object) -> Verdict:
    """The plain verdict but for ``changes``."""
    return msgspec.structs.replace(PLAIN, **changes)


WHOLE = altered(levels=tuple(level(n, users, p95_s=0.4 * users, whole=True) for n, users in enumerate((5, 10, 20))))
"""Answers came whole: there is no TTFT."""

AT_LEAST = altered(
    at_least=True,
    limit_users=96,
    limit_interval_users=None,
    fails_at_users=None,
    cause="not-seen",
    cause_sentence="",
    recommended_users=72,
    advice=("Measure with --max-users 200 to find the limit.",),
    cautions=(),
    sentence="At least 96 people can use Qwen/Qwen3-8B-AWQ at once.",
    levels=tuple(level(n, users) for n, users in enumerate((24, 48, 96))),
)

NOT_TRUSTED = altered(
    limit_users=None,
    limit_interval_users=None,
    recommended_users=None,
    fails_at_users=None,
    confirmations=0,
    cause="client",
    cause_sentence="This client gave out first, at 8 people.",
    advice=(),
    cautions=(LAG,),
    trusted=False,
    sentence="No level can be trusted.",
    levels=(level(0, 8, "void"),),
)

EMPTY = altered(
    limit_users=None,
    limit_interval_users=None,
    recommended_users=None,
    fails_at_users=None,
    confirmations=0,
    cause="not-seen",
    cause_sentence="",
    advice=(),
    cautions=(),
    trusted=False,
    complete=False,
    sentence="Nothing was measured yet.",
    levels=(),
)

HOSTILE_VERDICT = altered(
    sentence=f"48 people can use {HOSTILE} at once.",
    cause_sentence=HOSTILE,
    advice=(HOSTILE,),
    cautions=(Caution(code="errors", sentence=f"The server said: {HOSTILE}", remedy=HOSTILE),),
    levels=(
        msgspec.structs.replace(
            level(0, 4, condition=HOSTILE), first_error=HOSTILE, error_kinds={HOSTILE: 1}, n_errors=1
        ),
    ),
)
HOSTILE_FACTS = msgspec.structs.replace(
    FACTS, engine=EngineFacts(engine="openai", version=HOSTILE, model=HOSTILE), gpus=(Gpu(uuid="1", name=HOSTILE),)
)

ALL: dict[str, Verdict] = {
    "plain": PLAIN,
    "whole": WHOLE,
    "at-least": AT_LEAST,
    "not-trusted": NOT_TRUSTED,
    "empty": EMPTY,
    "hostile": HOSTILE_VERDICT,
}


def stored(parent: Path, verdict: Verdict = PLAIN, facts: RunFacts = FACTS, *, each: int = 60) -> Run:
    """A run folder whose requests and samples fit the verdict's levels: ``each`` requests a level, a sample of each
    kind every second."""
    random = Random(5)
    with RunWriter.create(parent, "invented", facts, SCENARIO) as writer:
        for one in verdict.levels:
            writer.level(
                Level(index=one.index, users=one.users, began_at_s=one.began_at_s, stopped_at_s=one.ended_at_s)
            )
            for number in range(each):
                writer.request(_request(one, number, each, random))
            for second in range(int(one.began_at_s), int(one.ended_at_s)):
                writer.samples(_samples(one, float(second), random))
    return open_run(writer.path)


def _request(one: LevelSummary, number: int, each: int, random: Random) -> Request:
    scheduled_at_s = one.began_at_s + (one.ended_at_s - one.began_at_s) * number / each
    wait_s = (one.ttft_s.p50 or 0.5) * random.uniform(0.4, 1.8)
    first_at_s = scheduled_at_s + wait_s
    error = "http_503" if number % 97 == 13 else None
    return Request(
        level=one.index,
        person=number % min(one.users, 24) + 1,
        conversation=number // 50,
        turn=number % 3 + 1,
        scheduled_at_s=scheduled_at_s,
        sent_at_s=scheduled_at_s + 0.0004,
        ended_at_s=first_at_s + 3.0,
        chunk_at_s=[] if error else [first_at_s + 0.1 * n for n in range(30)],
        output_tokens=None if error else 30,
        persona=("student", "agent <b>")[number % 5 == 0],
        adapter="legal-ko" if number % 7 == 0 else None,
        server={"queue_s": wait_s * 0.6} if number % 2 else None,
        error=error,
        error_text=HOSTILE if error else None,
    )


def _samples(one: LevelSummary, at_s: float, random: Random) -> list[Sample]:
    load = min(1.0, one.users / 52)
    noise = random.uniform(-1, 1)
    values = {
        "server_running_requests": min(24.0, one.users * 0.46),
        "server_waiting_requests": max(0.0, one.users * 0.5 - 24 + noise),
        "server_kv_used_fraction": 0.1 + 0.6 * load + 0.02 * noise,
    }
    on_gpu = {
        "gpu_temperature_c": 40 + 42 * load + noise,
        "gpu_power_w": 120 + 470 * load + 8 * noise,
        "gpu_sm_clock_hz": 2.6e9 - 3e8 * load + 1e7 * noise,
        "gpu_utilization_fraction": min(1.0, 0.3 + load),
    }
    return [Sample(at_s, name, value) for name, value in values.items()] + [
        Sample(at_s, name, value, "GPU-1") for name, value in on_gpu.items()
    ]


SCENARIO = """name = "invented"
slo = "chat"

[engine]
url = "http://somebody:hunter2@127.0.0.1:8000"

[engine.headers]
X-Api-Key = "sk-very-secret"
Authorization = 'Bearer abc'

[workload]
kind = "chat"
output_tokens = 212
"""
