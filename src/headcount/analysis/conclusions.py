"""The types of what was concluded: summaries of levels, cautions and the verdict. Nothing here is stored."""

from __future__ import annotations

import msgspec

__all__ = [
    "AdapterFigures",
    "Burst",
    "Caution",
    "ClauseResult",
    "ConditionResult",
    "GpuFigures",
    "Growth",
    "LevelSummary",
    "Limits",
    "Plan",
    "Quantiles",
    "RateLimit",
    "Soak",
    "SoakStep",
    "Verdict",
]


class Quantiles(msgspec.Struct, frozen=True):
    """p50, p95 and max of n values; None where n is 0. ``p95_reliable`` needs n >= 59."""

    n: int
    p50: float | None
    p95: float | None
    max: float | None
    p95_reliable: bool = False


class Caution(msgspec.Struct, frozen=True):
    """A reason not to trust a number, with the remedy. A fatal one voids its level."""

    code: str
    """Stable, kebab-case: ``client-lag``, ``capped-before-gpu`` …"""
    sentence: str
    remedy: str
    fatal: bool = False
    level: int | None = None
    """The level's index; None for the whole run."""


class ClauseResult(msgspec.Struct, frozen=True):
    """One clause judged over one level's steady window."""

    clause: str
    n: int
    misses: int
    allowed_fraction: float
    miss_fraction: float | None
    low_fraction: float
    high_fraction: float
    """Interval of the miss fraction, made wide enough for the dependence between requests and for interim looks."""
    decision: str
    """``holds``, ``fails`` or ``undecided``."""
    n_effective: float | None = None
    """What n clustered outcomes are worth in independent ones; None when nothing is known of their dependence."""
    value: float | None = None
    """The metric at the clause's percentile, or the share of errors; None when nothing was judged."""
    bound: float | None = None
    """What it must not exceed."""


class GpuFigures(msgspec.Struct, frozen=True):
    """What one GPU showed in one level's steady window. None where it does not tell."""

    uuid: str
    memory_used_max_bytes: float | None
    temperature_max_c: float | None
    power_mean_w: float | None
    utilization_mean_fraction: float | None


class AdapterFigures(msgspec.Struct, frozen=True):
    """How requests of one adapter fared in one level's steady window."""

    adapter: str
    """Empty: the model without any."""
    n: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None


class Growth(msgspec.Struct, frozen=True):
    """Whether the requests that are unanswered grow ever more at one rate of the open loop."""

    decision: str
    """``stable``, ``grows`` or ``undecided``."""
    backlog_fraction: float
    """By how many the unanswered requests grew in the steady window, over those that arrived in it."""
    chance_fraction: float
    """Probability that chance alone makes such a trend."""


class Burst(msgspec.Struct, frozen=True):
    """What happened when all people of a level pressed enter at the same instant."""

    users: int
    n_late: int
    """How many of their answers missed a clause of the service level, or never came."""
    worst_wait_s: float | None
    """To the first token; of whole answers to their end. What was cut or failed counts with its age."""
    median_wait_s: float | None
    recovered_after_s: float | None
    """From that instant until the last one whose wait was beyond the service level was answered, after which
    everybody's next turn was within it; 0 when nobody was late; None when that did not come within ``watched_s``."""
    watched_s: float
    spoiled: str = ""
    """Why these figures are not the server's, in a sentence; empty when they are."""


class Soak(msgspec.Struct, frozen=True):
    """How a level changed while it was held for long. Pairs are its first and its last quarter; None where unknown."""

    users: int
    held_s: float
    ttft_p50_s: tuple[float | None, float | None]
    user_tokens_per_s: tuple[float | None, float | None]
    sm_clock_hz: tuple[float | None, float | None]
    temperature_c: tuple[float | None, float | None]
    steady_after_s: float | None
    """From when on temperatures and clocks stood still; None when they never did, or none are known."""
    throttled: tuple[str, ...] = ()
    """Why GPUs held their clocks down in more than one reading in a hundred, by the driver's names, the most frequent
    first."""


class SoakStep(msgspec.Struct, frozen=True):
    """One number of people of the soak, and whether it stayed within the service level to its end."""

    soak: Soak
    kept: bool


class LevelSummary(msgspec.Struct, frozen=True):
    """What one level showed in its steady window."""

    index: int
    users: int
    purpose: str
    condition: str
    decision: str
    """``holds``, ``fails``, ``undecided``, or ``void`` when a fatal caution stands."""
    clauses: tuple[ClauseResult, ...]
    cautions: tuple[Caution, ...]
    n_requests: int
    """Ended in the steady window, whichever way."""
    n_errors: int
    error_kinds: dict[str, int]
    first_error: str | None
    began_at_s: float
    steady_at_s: float | None
    """When the steady window began; None when it never did."""
    ended_at_s: float
    window_s: float
    ttft_s: Quantiles
    tpot_s: Quantiles
    e2e_s: Quantiles
    max_gap_s: Quantiles
    output_tokens_per_s: float | None
    requests_per_s: float | None
    user_tokens_per_s: float | None
    """Median over answers of 1 / TPOT."""
    in_flight_mean: float | None
    prompt_tokens_mean: float | None
    output_tokens_mean: float | None
    tokens_estimated: bool
    """Whether some token counts are the client's estimate."""
    goodput_per_s: float | None
    """Requests per second that meet every clause."""
    littles_users: float | None
    """requests/s x (mean E2E + mean think): must be the users."""
    send_delay_p99_s: float | None
    loop_lag_p99_s: float | None
    server_running_max: float | None = None
    server_waiting_mean: float | None = None
    kv_used_max_fraction: float | None = None
    ttft_by_turn_s: dict[int, float] = {}
    """Median TTFT by turn number."""
    arrivals: str = "closed"
    """As in ``records.Level``."""
    inside_users_mean: float | None = None
    """People who were there, those who read and think included: in the open loop nobody sets their number."""
    prompt_of_plan_fraction: float | None = None
    """First turns: prompt tokens as the server counts, without its template's, over those planned."""
    output_of_asked_fraction: float | None = None
    """Output tokens of complete answers over the most that was asked for."""
    cache_hit_fraction: float | None = None
    """Prompt tokens that the server found in its prefix cache, over those it looked for."""
    ttft_mean_s: float | None = None
    """As people felt it, to hold against the next one: the server tells no more than a mean."""
    server_ttft_mean_s: float | None = None
    """As the server tells it."""
    gpus: tuple[GpuFigures, ...] = ()
    turn_cycle_s: float | None = None
    """Mean time from one scheduled turn of a person to the next: answer and pause."""
    first_requests: Quantiles | None = None
    """TTFT (of whole answers: E2E) of what was scheduled before the steady window: start-up and warm-up, kept apart."""
    comfort: str = ""
    """How it is felt: ``comfortable``, ``slightly slow``, ``frustrating`` or ``unusable``; empty when not known.
    Decides nothing."""
    rate_per_s: float | None = None
    """Of the open loop: new conversations per second."""
    growth: Growth | None = None
    """Of a search for a rate; None where there was too little to see anything."""
    adapters: tuple[AdapterFigures, ...] = ()
    """Apart by adapter; empty where none was asked for."""
    adapters_in_use_max: float | None = None
    """The most adapters that ran at once, as the server tells it."""
    burst: Burst | None = None
    """Of a level of purpose ``burst``."""
    soak: Soak | None = None
    """Of a level of purpose ``soak``."""


class Limits(msgspec.Struct, frozen=True):
    """What the search may spend, and how fine its answer must be."""

    max_users: int = 4096
    max_time_s: float = 3600.0
    level_time_s: float = 180.0
    """The most one level may take, warm-up included."""
    resolution: float = 0.05
    """Relative; never finer than one person."""
    confirmations: int = 3
    start_users: int = 1
    """Where doubling begins; from the probe's first guess."""
    levels: tuple[int, ...] = ()
    """Fixed levels instead of a search."""
    burst: bool = True
    """Whether everybody presses enter at once at the recommended number, once a search has found it."""
    start_rate_per_s: float = 0.1
    """Where the open loop's search begins."""
    soak_s: float = 0.0
    """How long the recommended number is held after the search, on top of ``max_time_s``; 0: not at all."""


class Plan(msgspec.Struct, frozen=True):
    """The next level to hold."""

    users: int
    purpose: str
    time_s: float
    """The most it may take."""
    rate_per_s: float | None = None
    """Of an open loop: new conversations per second."""


class ConditionResult(msgspec.Struct, frozen=True):
    """What was found under one condition of a run that holds several against each other; as in ``Verdict``."""

    name: str
    model: str | None
    limit_users: int | None
    at_least: bool
    limit_interval_users: tuple[float, float] | None
    recommended_users: int | None
    confirmations: int
    cause: str
    cause_sentence: str
    searched: bool
    """False: fixed numbers of people were held, and no limit was looked for."""


class RateLimit(msgspec.Struct, frozen=True):
    """What a search in the open loop found: new conversations per second."""

    rate_per_s: float | None
    """The highest rate at which the queue stayed stable, each time it was held; None when there was none."""
    at_least: bool
    """True when nothing that was tried was too much."""
    grows_at_per_s: float | None
    """The lowest rate at which the queue grew."""
    interval_per_s: tuple[float, float] | None
    """Between which the limit lies; None when it cannot be given."""
    recommended_per_s: float | None
    """With headroom below the lower end."""
    inside_users: float | None
    """People inside at ``rate_per_s``, those who read and think included."""
    promised_rate_per_s: float | None
    """The highest rate at which the service level held as well; None when it held at none."""
    confirmations: int
    """How many separate times ``rate_per_s`` was stable."""


class Verdict(msgspec.Struct, frozen=True):
    """How many people, with what confidence, what gives out first, what to do."""

    limit_users: int | None
    """The largest level that held in every repeat; 0 when not even one person is served; None when unknown."""
    at_least: bool
    """True when the top of the tested range held: the limit is at least ``limit_users``."""
    limit_interval_users: tuple[float, float] | None
    """95 %; None when it cannot be given."""
    recommended_users: int | None
    fails_at_users: int | None
    confirmations: int
    """How many separate times the limit was held."""
    cause: str
    """``client``, ``proxy``, ``slots``, ``kv-memory``, ``decode-bandwidth``, ``prefill-compute``, ``adapters``,
    ``heat-or-power`` or ``not-seen``."""
    cause_sentence: str
    advice: tuple[str, ...]
    cautions: tuple[Caution, ...]
    trusted: bool
    """False: no level can be trusted; exit 5."""
    complete: bool
    """Whether the search had finished (False: interrupted, or out of time)."""
    sentence: str
    """The answer in one sentence."""
    first_estimate_users: float | None = None
    """By formula: sustained output tokens/s over tokens/s one active person demands."""
    estimate_sentence: str = ""
    """The estimate held against the limit, with the reason when they differ."""
    knee_users: float | None = None
    conditions: tuple[ConditionResult, ...] = ()
    """Of a run that holds conditions against each other; its own limit is None then."""
    findings: tuple[str, ...] = ()
    """What that shows besides ``sentence``, a sentence each."""
    levels: tuple[LevelSummary, ...] = ()
    """All but the burst."""
    rate: RateLimit | None = None
    """Of a search in the open loop; ``limit_users`` are then the people inside at that rate."""
    burst: Burst | None = None
    burst_sentence: str = ""
    """What the burst showed, or why there was none though it was wanted."""
    soak: tuple[SoakStep, ...] = ()
    """In the order in which they were held; more than one when the first did not stay within the service level."""
    soak_sentence: str = ""
    soak_changes: tuple[str, ...] = ()
    """What went up or down meanwhile, a few words each."""
    active_share: float | None = None
    """The share of registered accounts in use in the busy hour, as it was given."""
    accounts: int | None = None
    """The most accounts of which more than ``recommended_users`` are in use at once with a risk of at most 1 %."""
