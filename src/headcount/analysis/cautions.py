"""Reasons not to trust a level: one small pure function each, from its evidence to a ``Caution`` or None.

A fatal one voids the level. What server and GPUs contribute is in ``machine_cautions``. Knows nothing of other
levels and of the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from headcount.analysis.conclusions import Caution
from headcount.analysis.lengths import turn_cliff, turns_cut
from headcount.analysis.level_evidence import LevelEvidence
from headcount.analysis.level_test import turn_cycle_s
from headcount.analysis.table import Floats
from headcount.stats.proportion import smallest_telling_n
from headcount.stats.quantile import quantile
from headcount.stats.trend import trend

__all__ = ["CHECKS", "cautions_of"]

_ON_ITS_OWN = "use more load processes, or run headcount on a machine of its own"
_AT_ONCE_S = 0.001
"""From token to token: what comes faster was not written then, but held back before."""


def cautions_of(evidence: LevelEvidence) -> tuple[Caution, ...]:
    """All cautions that the evidence of one level gives, fatal ones first."""
    found = [caution for check in CHECKS if (caution := check(evidence)) is not None]
    found = [msgspec.structs.replace(caution, level=evidence.level.index) for caution in found]
    return tuple(sorted(found, key=lambda caution: not caution.fatal))


# --- our own side -----------------------------------------------------------------------------


def _client_lag(evidence: LevelEvidence) -> Caution | None:
    """Our own event loop was late: p99 of its lag above max(20 ms, 10 % of the TTFT bound)."""
    lag_s = quantile(np.asarray(evidence.values("client_loop_lag_s")), 0.99)
    if lag_s is None or lag_s <= evidence.tolerable_delay_s:
        return None
    return Caution(
        "client-lag",
        f"this client's own event loop was {lag_s * 1000:.0f} ms late (p99; "
        f"{evidence.tolerable_delay_s * 1000:.0f} ms are tolerable), so the waits shown are partly its own",
        _ON_ITS_OWN,
        fatal=True,
    )


def _send_delay(evidence: LevelEvidence) -> Caution | None:
    """Requests left late: p99 of scheduled-to-sent above max(20 ms, 10 % of the TTFT bound)."""
    delays_s = evidence.inside.send_delay_s
    delay_s = quantile(delays_s[~np.isnan(delays_s)], 0.99)
    if delay_s is None or delay_s <= evidence.tolerable_delay_s:
        return None
    return Caution(
        "send-delay", f"requests left this client {delay_s * 1000:.0f} ms after their time (p99)", _ON_ITS_OWN, True
    )


def _client_cpu(evidence: LevelEvidence) -> Caution | None:
    """A load process used more than 90 % of its core for half of the window or more."""
    by_process = evidence.by_place("client_cpu_fraction")
    busiest = max((float(np.median(values)) for values in by_process.values()), default=0.0)
    if busiest <= 0.90:
        return None
    return Caution("client-cpu", f"a load process used {busiest:.0%} of its processor core", _ON_ITS_OWN, fatal=True)


def _client_errors(evidence: LevelEvidence) -> Caution | None:
    """Requests that failed for want of our own resources: descriptors, ports, memory."""
    failed = int(evidence.inside.of_kind("client").sum())
    if failed == 0:
        return None
    return Caution(
        "client-errors",
        f"{failed} requests never left this client: {evidence.first_error or 'no reason was given'}",
        "raise the limit of open files (ulimit -n), or use fewer people on one machine",
        fatal=True,
    )


def _load_lost(evidence: LevelEvidence) -> Caution | None:
    """A load process died, or somebody's life ended by a fault of ours: from then on the load was another."""
    if evidence.level.ended != "error":
        return None
    return Caution(
        "load-lost",
        "part of the load was lost in the middle of this level",
        "measure again; if it happens again, report it with what was said on stderr",
        fatal=True,
    )


def _littles_law(evidence: LevelEvidence) -> Caution | None:
    """Requests/s x (mean E2E + think) must give the people within 10 %, or within what so short a window can show."""
    level, window, inside = evidence.level, evidence.window, evidence.inside
    cycle_s = turn_cycle_s(inside)
    # Who waits for others to press enter with does not come back after his pause; who leaves does not come back at all.
    closed = level.rate_per_s is None and level.conversations_each is None and level.arrivals != "synchronised"
    if cycle_s is None or level.users < 1 or window.blocks < 2 or not closed:
        return None
    seen = len(inside) / window.length_s * cycle_s
    # Each person's turns at both edges are counted whole or not at all: half a cycle of error, by chance.
    chance = 4.0 * cycle_s / window.length_s / math.sqrt(level.users)
    if abs(seen / level.users - 1.0) <= max(0.10, chance):
        return None
    return Caution(
        "load-not-as-said",
        f"by Little's law {seen:.0f} people were active, not the {level.users} of this level",
        "the load was capped or lost somewhere before the server: look at client limits and at a proxy between",
        fatal=True,
    )


def _in_flight_not_reached(evidence: LevelEvidence) -> Caution | None:
    """Of the time between pressing enter and the end of the answer, less than 98 % were spent with the server."""
    inside = evidence.inside
    known = ~np.isnan(inside.send_delay_s)
    wanted_s = float(inside.age_s[known].sum())
    share = 1.0 - float(inside.send_delay_s[known].sum()) / wanted_s if wanted_s > 0.0 else 1.0
    if share >= 0.98:
        return None
    return Caution(
        "in-flight-not-reached",
        f"only {share:.0%} of the requests that should have been in flight were",
        "something on this client holds requests back: connections, descriptors or processor time",
        fatal=True,
    )


# --- what came back ---------------------------------------------------------------------------


def _buffered_stream(evidence: LevelEvidence) -> Caution | None:
    """Streams that arrive all at once, for most answers: TTFT above 95 % of E2E, and the tokens after the first in less
    than a millisecond each. Long prompts with short answers have the first, no server the second."""
    inside = evidence.inside
    chosen = inside.good & inside.streamed & (inside.output_tokens > 1) & ~np.isnan(inside.ttft_s)
    if chosen.sum() < 5 or evidence.ttft_bound_s is None:
        return None
    share = inside.ttft_s[chosen] / np.maximum(inside.e2e_s[chosen], 1e-9)
    if float(np.median(share)) <= 0.95 or float(np.median(inside.tpot_s[chosen])) >= _AT_ONCE_S:
        return None
    return Caution(
        "buffered-stream",
        "answers arrive all at once at their end, so the time to the first token is not the server's",
        "suspect a buffering proxy between: switch its response buffering off, or go to the server directly",
        fatal=True,
    )


def _unmeasurable_clause(evidence: LevelEvidence) -> Caution | None:
    """A clause about which no answer said anything: TTFT of whole answers, speed without token counts."""
    good = evidence.inside.where(evidence.inside.good)
    if len(good) < 5:
        return None
    silent = [c.text for place, c in enumerate(evidence.slo) if c.metric != "errors" and not good.judged(place).any()]
    if not silent:
        return None
    return Caution(
        "clause-without-data",
        f"no answer said anything about {silent[0]}",
        "ask for streamed answers of several tokens and usage figures, or judge whole answers (--slo whole)",
        fatal=True,
    )


def _errors(evidence: LevelEvidence) -> Caution | None:
    """Any failed request, with the first message."""
    inside = evidence.inside
    failed = int((~inside.good).sum())
    if failed == 0:
        return None
    return Caution(
        "errors",
        f"{failed} of {len(inside)} requests failed; the first: {evidence.first_error or 'nothing was said'}",
        "read the server's log at that time",
    )


def _too_few(evidence: LevelEvidence) -> Caution | None:
    """Fewer requests than a percentile of the service level needs; the level decides nothing on them."""
    needed = max((smallest_telling_n(c.allowed_fraction) for c in evidence.slo if c.percentile is not None), default=1)
    n = len(evidence.inside)
    if n >= needed or evidence.level.stopped_at_s is None:
        return None
    return Caution(
        "too-few-requests",
        f"{n} requests were counted; the service level's percentile needs {needed}",
        "hold the level longer (--level-time)",
    )


def _drift(evidence: LevelEvidence) -> Caution | None:
    """Waits that rise or fall within the steady window, significantly and by more than 10 % of the bound."""
    inside, window = evidence.inside, evidence.window
    if window.blocks < 4:
        return None
    by_clause = {c.metric: c.bound for c in evidence.slo if c.metric != "errors"}
    for metric, bound_s in by_clause.items():
        values = inside.metric(metric)
        known = ~np.isnan(values)
        means = _means(values[known], inside.ended_at_s[known], window.began_at_s, window.length_s, 2 * window.blocks)
        found = trend(means)
        change_s = found.slope * len(means)
        if found.p_value < 0.01 and abs(change_s) > 0.10 * bound_s:
            return Caution(
                "drift",
                f"{metric} {'rose' if change_s > 0 else 'fell'} by {abs(change_s):.2g} s under an unchanged load",
                "something fills up or heats up: hold the level longer (--level-time) before believing it",
            )
    return None


def _people_pile_up(evidence: LevelEvidence) -> Caution | None:
    """In the open loop: more people inside in the last quarter than in the second, by more than chance brings."""
    inside = evidence.total("client_inside_users")
    if evidence.level.arrivals not in ("open", "trace") or len(inside) < 20:
        return None
    _, second, _, last = (float(quarter.mean()) for quarter in np.array_split(inside, 4))
    if last - second <= max(3.0, 3.0 * math.sqrt(second)):
        return None
    return Caution(
        "people-pile-up",
        f"people came faster than they were served: {second:.0f} were inside early on, {last:.0f} at the end",
        "at this rate the queue grows for ever: the server carries fewer arrivals",
    )


def _not_drained(evidence: LevelEvidence) -> Caution | None:
    """The server still had requests waiting when the level was left."""
    level = evidence.level
    if level.stopped_at_s is None or level.drained_at_s is not None or level.ended in ("interrupted", "error"):
        return None
    if not any(s.name == "server_waiting_requests" and s.value > 0 for s in evidence.samples):
        return None
    return Caution(
        "not-drained",
        "the server was still busy when the next level had to begin",
        "is somebody else using it? The next level carries this one's load",
    )


def _short_answers(evidence: LevelEvidence) -> Caution | None:
    """Answers shorter than 80 % of what was asked for: capacity then holds for answers of that length."""
    inside = evidence.inside
    chosen = inside.good & (inside.output_tokens >= 0) & (inside.max_output_tokens > 0)
    if not chosen.any():
        return None
    mean, planned = float(inside.output_tokens[chosen].mean()), float(inside.max_output_tokens[chosen].mean())
    if mean >= 0.8 * planned:
        return None
    return Caution(
        "short-answers",
        f"answers were {mean:.0f} tokens long on average, {planned:.0f} were asked for: "
        f"the result holds for answers of {mean:.0f} tokens",
        "ask for the lengths your people get, or let the engine ignore the end of text (ignore_eos)",
    )


def _prompts_stop_growing(evidence: LevelEvidence) -> Caution | None:
    """Later turns whose prompts did not grow with their conversation: the server drops its beginning."""
    cut, followed = turns_cut(evidence.inside)
    if cut < 2:  # one may be a server that counts oddly once
        return None
    return Caution(
        "history-cut",
        f"in {cut} of {followed} later turns the prompt had not grown with the conversation: "
        "the server seems to drop the beginning of conversations",
        "raise the server's context length, or plan shorter conversations",
    )


def _cliff(evidence: LevelEvidence) -> Caution | None:
    """A turn from which on the first token takes far longer than the turn before it, whatever the people."""
    cliff = turn_cliff(evidence.inside)
    if cliff is None:
        return None
    turn, before_s, after_s = cliff
    return Caution(
        "cliff-at-turn",
        f"from turn {turn} of a conversation on the first token takes {after_s:.1f} s instead of {before_s:.1f} s, "
        "far more than the longer prompt explains",
        "look at the server's prefix cache and its memory for it: longer conversations may be read anew each time",
    )


def _estimated_tokens(evidence: LevelEvidence) -> Caution | None:
    """Token counts that are this client's estimate."""
    if not bool(evidence.inside.estimated.any()):
        return None
    return Caution(
        "tokens-estimated",
        "the server reports no token counts: tokens and speeds are estimated from the text",
        "speeds may be off by a tenth or more; a server that reports usage gives exact ones",
    )


def _means(values: Floats, at_s: Floats, began_s: float, length_s: float, parts: int) -> Floats:
    """Means of values over equal parts of the window; parts without any are left out."""
    place = np.clip(((at_s - began_s) / length_s * parts).astype(np.intp), 0, parts - 1)
    n = np.bincount(place, minlength=parts)
    sums = np.bincount(place, weights=values, minlength=parts)
    return np.asarray(sums[n > 0] / n[n > 0])


CHECKS: tuple[Callable[[LevelEvidence], Caution | None], ...] = (
    _client_lag,
    _send_delay,
    _client_cpu,
    _client_errors,
    _load_lost,
    _littles_law,
    _in_flight_not_reached,
    _buffered_stream,
    _unmeasurable_clause,
    _errors,
    _too_few,
    _drift,
    _people_pile_up,
    _not_drained,
    _short_answers,
    _prompts_stop_growing,
    _cliff,
    _estimated_tokens,
)
"""In the order in which they are told."""
