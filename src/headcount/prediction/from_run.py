"""Calibrating from a stored run: no server is asked; two of its levels are left out of the fit and predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from statistics import median

import msgspec

from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.errors import NotTrustedError, ScenarioError
from headcount.prediction.calibration import CALIBRATION_VERSION, Calibration, Check, Told
from headcount.prediction.fitted import drawn_columns, fitted
from headcount.prediction.observing import observations
from headcount.prediction.served import Change, Hardware, Measured, Served, Start, quantile_shares
from headcount.prediction.settings import policy_of
from headcount.prediction.whatif import predict
from headcount.records import Request, RunFacts
from headcount.review import review, scenario_of
from headcount.simulator.policy import Policy
from headcount.slo import parse_slo
from headcount.store import Run

__all__ = ["calibrate_run", "told_of"]

_FEWEST_ANSWERS = 40
"""A level with fewer says little of a steady state."""
_MOST_REQUESTS = 1500
"""Of one level; more tell no more."""


def calibrate_run(run: Run, told: Told | None = None) -> Calibration:
    """Fit what the run's requests tell. Raises ``NotTrustedError`` when that is too little; whether the fit may be
    believed is for ``check_trust`` to say."""
    hardware = told.hardware() if told is not None else None
    verdict = review(run)
    requests = _by_level(run)
    if not requests:
        raise NotTrustedError(
            f"{run.path} holds no streamed requests to calibrate from", "give a run that headcount measured"
        )
    scenario = scenario_of(run)
    policy = _policy(run, verdict, requests, hardware)
    held_out = _held_out(verdict)
    left_out = {level.index for level in verdict.levels if level.users in {one.users for one in held_out}}
    prefills, decodes = observations(each for index, each in requests.items() if index not in left_out)
    if len({seen.sequences for seen in decodes}) < 2 or len(prefills) < 2:
        held_out = []
        prefills, decodes = observations(requests.values())
    found = fitted(prefills, decodes, policy, hardware)
    calibration = Calibration(
        format_version=CALIBRATION_VERSION,
        headcount_version=version("headcount"),
        calibrated_utc=run.facts.started_utc,
        method="run",
        source=run.path.name,
        simulated=run.facts.simulated,
        residual_fraction=found.residual,
        request_s=found.request_s,
        tail_s=_tail_s(requests),
        template_tokens=run.facts.template_tokens,
        seed=scenario.seed,
        limit_users=verdict.limit_users if verdict.trusted else None,
        slo=run.facts.slo,
        answer_share=_answer_shares(requests),
        engine=run.facts.engine,
        told=told,
        cost=found.cost,
        spread=found.spreads,
        draws=drawn_columns(found),
        policy=policy,
        prefills=tuple(prefills),
        decodes=tuple(decodes),
        each_residual_fraction=found.residuals,
        measured=_measured(verdict),
        workload=scenario.workload,
    )
    return msgspec.structs.replace(calibration, checks=_checks(calibration, hardware, held_out))


def told_of(facts: RunFacts) -> Told | None:
    """What the run's own facts tell of the hardware, where the catalogue knows both; None otherwise."""
    details = facts.engine.details
    gpu = str(details.get("gpu") or "") or (facts.gpus[0].name if facts.gpus else "")
    if not gpu or not facts.engine.model or len({one.name for one in facts.gpus}) > 1:
        return None
    told = Told(gpu=gpu, gpus=int(details.get("gpus") or 0) or max(1, len(facts.gpus)), model=facts.engine.model)
    try:
        told.hardware()
    except ScenarioError:
        return None
    return told


def _by_level(run: Run) -> dict[int, list[Request]]:
    """Every level's requests with the times of their tokens, the first ones of each."""
    found: dict[int, list[Request]] = defaultdict(list)
    for request in run.requests():
        if request.streamed and len(found[request.level]) < _MOST_REQUESTS:
            found[request.level].append(request)
    return {index: requests for index, requests in found.items() if requests}


def _policy(run: Run, verdict: Verdict, requests: dict[int, list[Request]], hardware: Hardware | None) -> Policy:
    """From the run's facts; slots that the server does not tell are seen where requests waited."""
    waited = [
        level for level in verdict.levels if (level.server_waiting_mean or 0.0) > 0.5 and level.server_running_max
    ]
    slots = round(max(level.server_running_max or 0.0 for level in waited)) if waited else None
    told = [request.cached_tokens for each in requests.values() for request in each if request.turn > 1]
    known = [cached for cached in told if cached is not None]
    prefix_cache = sum(cached > 0 for cached in known) * 2 > len(known) if known else True
    return policy_of(run.facts.engine, slots=slots, prefix_cache=prefix_cache, hardware=hardware)


def _held_out(verdict: Verdict) -> list[LevelSummary]:
    """A level near half of the limit and one near it, where two others remain to fit."""
    users = sorted({level.users for level in verdict.levels})
    good = [level for level in verdict.levels if level.decision != "void" and level.n_requests >= _FEWEST_ANSWERS]
    known = sorted({level.users for level in good} - {users[0]}) if users else []
    limit = verdict.limit_users or users[-1]
    chosen: list[int] = []
    for wanted in (limit, limit / 2):
        left = [n for n in known if n not in chosen]
        if left and len(users) - len(chosen) > 2:
            chosen.append(min(left, key=lambda n: abs(n - wanted)))
    return [max((one for one in good if one.users == n), key=lambda one: one.n_requests) for n in sorted(chosen)]


def _checks(calibration: Calibration, hardware: Hardware | None, held_out: Sequence[LevelSummary]) -> tuple[Check, ...]:
    """The levels that were left out, beside their prediction from the people of the run."""
    start = Start(
        served=Served(
            calibration.cost,
            calibration.policy,
            request_s=calibration.request_s,
            tail_s=calibration.tail_s,
            hardware=hardware,
        ),
        workload=calibration.workload,
        slo=parse_slo(calibration.slo),
        basis="calibrated",
        seed=calibration.seed,
        answer_share=calibration.answer_share or (1.0,),
        template_tokens=calibration.template_tokens,
    )
    checks = []
    for level in held_out:
        figures = predict(start, Change(), level.users, draws=0).figures
        checks.append(
            Check(
                level=f"{level.users} people",
                n_requests=level.n_requests,
                e2e_p50_s=level.e2e_s.p50,
                predicted_e2e_p50_s=figures.e2e_p50_s,
                ttft_p95_s=level.ttft_s.p95,
                predicted_ttft_p95_s=figures.ttft_p95_s,
                output_tokens_per_s=level.output_tokens_per_s,
                predicted_output_tokens_per_s=figures.output_tokens_per_s,
            )
        )
    return tuple(checks)


def _tail_s(requests: dict[int, list[Request]]) -> float:
    """The usual time from the last token to the end of the answer."""
    good = [one for each in requests.values() for one in each if one.error is None and one.chunk_at_s]
    return median(max(0.0, one.ended_at_s - one.chunk_at_s[-1]) for one in good) if good else 0.0


def _answer_shares(requests: dict[int, list[Request]]) -> tuple[float, ...]:
    shares = [
        request.output_tokens / request.max_output_tokens
        for each in requests.values()
        for request in each
        if request.error is None and request.output_tokens and request.max_output_tokens
    ]
    return quantile_shares(shares)


def _measured(verdict: Verdict) -> tuple[Measured, ...]:
    """One for each number of people: the level with the most answers."""
    best: dict[int, LevelSummary] = {}
    for level in verdict.levels:
        if level.decision != "void" and level.n_requests > best.get(level.users, level).n_requests - 1:
            best[level.users] = level
    return tuple(
        Measured(
            users=level.users,
            e2e_p50_s=level.e2e_s.p50,
            ttft_p95_s=level.ttft_s.p95,
            output_tokens_per_s=level.output_tokens_per_s,
            decision=level.decision,
        )
        for _, level in sorted(best.items())
    )
