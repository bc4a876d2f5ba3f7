"""Reasons not to trust a level that lie in the server or its machine; here those of the server: queues, memory, caps.

One small pure function each, from what was sampled in the steady window to cautions. Knows nothing of requests:
those are ``cautions``' business.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from headcount.analysis import gpu_cautions
from headcount.analysis.conclusions import Caution
from headcount.analysis.machine import Machine, counted
from headcount.records import EngineFacts

__all__ = ["CHECKS", "Machine", "machine_cautions", "metrics_not_visible"]

_FULL_KV_FRACTION = 0.95
_FEW_READINGS = 5
"""Below these a window says nothing about what held throughout it."""


def machine_cautions(machine: Machine) -> tuple[Caution, ...]:
    """All cautions the window gives, fatal ones first."""
    found = [caution for check in (*gpu_cautions.CHECKS, *CHECKS) for caution in check(machine)]
    found = [msgspec.structs.replace(caution, level=machine.level) for caution in found]
    return tuple(sorted(found, key=lambda caution: not caution.fatal))


def _kv_full(machine: Machine) -> list[Caution]:
    """The KV cache was at least 95 % full at some time."""
    values = np.asarray(machine.values("server_kv_used_fraction"))
    if len(values) == 0 or values.max() < _FULL_KV_FRACTION:
        return []
    return [
        Caution(
            "kv-full",
            f"the KV cache was up to {values.max():.0%} full ({(values >= _FULL_KV_FRACTION).mean():.0%} of the time "
            f"above {_FULL_KV_FRACTION:.0%})",
            "give the server more KV cache, a smaller context, or fewer people",
        )
    ]


def _preemptions(machine: Machine) -> list[Caution]:
    """The server threw running requests out of memory and computed them again."""
    times, _ = counted(machine.values("server_preemptions_total"))
    if not times:
        return []
    return [
        Caution(
            "preemptions",
            f"the server interrupted running answers {times:.0f} times for want of KV cache",
            "lower its most concurrent sequences, or give it more KV cache",
        )
    ]


def _queue_never_empty(machine: Machine) -> list[Caution]:
    """At every reading somebody waited for the server."""
    values = machine.values("server_waiting_requests")
    if len(values) < _FEW_READINGS or min(values) < 1:
        return []
    return [
        Caution(
            "queue-never-empty",
            f"the server's queue was never empty (at least {min(values):.0f}, mean {np.mean(values):.0f} waiting)",
            "the server takes in less than people ask: fewer people, or more slots if memory allows",
        )
    ]


def _capped(machine: Machine) -> list[Caution]:
    """Running requests stand still below those in flight: at the engine's slots when it has a queue, else before it."""
    running, waiting = machine.values("server_running_requests"), machine.values("server_waiting_requests")
    in_flight = machine.in_flight_mean
    if len(running) < _FEW_READINGS or in_flight is None:
        return []
    low, top = np.quantile(running, [0.1, 1.0])
    if top < 1 or top - low > max(1.0, 0.05 * top) or top > 0.9 * in_flight - 1:
        return []
    seen = f"the server ran {top:.0f} requests at once, no more, while {in_flight:.0f} were in flight"
    if waiting and np.mean(waiting) >= 1:
        slots = machine.engine.slots if machine.engine is not None else None
        # Servers that do not tell their slots (vLLM, usually) show them so: a plateau with a queue behind it.
        told = " (all its slots)" if slots is not None and top >= slots else ""
        told = told or ("" if slots is not None else f" (so it seems to have {top:.0f} slots)")
        return [Caution("engine-slots", f"{seen}{told}: the rest waited in its queue", _MORE_SLOTS)]
    if not waiting:
        return []
    return [
        Caution(
            "capped-before-gpu",
            f"{seen} and its queue was empty: something before it lets no more through",
            "look for a proxy's connection limit, or a limit of the server's front end",
        )
    ]


_MORE_SLOTS = "raise the server's most concurrent sequences if its memory allows, or take this as its limit"


def _counters_fell(machine: Machine) -> list[Caution]:
    """A counter of the server went down: a restart, or several processes that answer in turn."""
    names = {s.name for s in machine.samples if s.name.startswith("server_") and s.name.endswith("_total")}
    falls = max((counted(machine.values(name))[1] for name in names), default=0)
    if falls == 0:
        return []
    if falls < 3:
        said = "the server's counters began anew in mid-level: it was restarted"
        return [Caution("server-restarted", said, "look at the server's log, and measure again", fatal=True)]
    return [
        Caution(
            "several-workers",
            f"the server's counters fell {falls} times: several processes answer for its metrics in turn",
            "read its queue and memory with doubt, or point headcount at one worker",
        )
    ]


def _ttft_gap(machine: Machine) -> list[Caution]:
    """The server's own mean TTFT is further from the client's than max(50 ms, 20 %)."""
    requests, _ = counted(machine.values("server_ttft_requests_total"))
    ours_s, theirs_s = machine.ttft_mean_s, machine.server_ttft_mean_s
    few = machine.told_ttft_mean_s is None and requests < _FEW_READINGS
    if ours_s is None or theirs_s is None or few:
        return []
    gap_s = ours_s - theirs_s
    if abs(gap_s) <= max(0.050, 0.2 * ours_s):
        return []
    return [
        Caution(
            "ttft-gap",
            f"the first token took {theirs_s * 1000:.0f} ms by the server, {ours_s * 1000:.0f} ms as people felt it",
            "the rest is network, a proxy, or a queue before the engine; people's figure is the one that counts",
        )
    ]


def metrics_not_visible(engine: EngineFacts | None) -> tuple[Caution, ...]:
    """Queue and memory of the server stay in the dark, for the whole run; nothing where the server is not known."""
    if engine is None or engine.metrics in ("prometheus", "json") or engine.engine == "simulated":
        return ()
    return (
        Caution(
            "metrics-not-visible",
            f"the server's queue and memory were not seen (its metrics are {engine.metrics})",
            "turn its metrics on, to learn what gives out first; docs/reference/engines.md says how",
        ),
    )


CHECKS: tuple[Callable[[Machine], list[Caution]], ...] = (
    _kv_full,
    _preemptions,
    _queue_never_empty,
    _capped,
    _counters_fell,
    _ttft_gap,
)
"""In the order in which they are told, after those of the machine."""
