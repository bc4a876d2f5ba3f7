"""Whether two runs measured the same thing: what differs between their facts, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headcount.records import EngineFacts, Gpu, RunFacts

__all__ = ["asked_changes", "changes"]

_TELLING = {
    "engine": "the engine",
    "version": "its version",
    "model": "the model",
    "adapters": "the adapters",
    "context_tokens": "the context",
    "quantization": "the quantization",
    "slots": "the slots",
    "kv_pool_tokens": "the KV pool's tokens",
}
"""What of a server changes the answer. Its address does not: a server may move to another port."""

_GPU_TELLING = {
    "memory_total_bytes": "memory in bytes",
    "power_limit_w": "power limit in watts",
    "driver": "driver",
}


def changes(earlier: RunFacts, later: RunFacts) -> list[str]:
    """One phrase for each fact that differs; empty when the two can be told as one run.

    A fact that one of the two does not know is no difference.
    """
    found = _server_changes(earlier.engine, later.engine)
    found += _gpu_changes(earlier.gpus, later.gpus)
    if earlier.slo != later.slo:
        found.append(_phrase("the service level", earlier.slo, later.slo))
    if earlier.simulated != later.simulated:
        found.append("one of the two is simulated")
    return found


def asked_changes(before: str, now: str, lengths: Sequence[tuple[str, float, float]] = ()) -> list[str]:
    """One phrase for what people did, and for each mean length (its name, then and now), that differs: two runs then
    asked different things."""
    found = [_phrase("what people do", before, now)] if before != now else []
    words = {"prompt_tokens_mean": "the mean of prompt tokens", "output_tokens_mean": "the mean of output tokens"}
    return found + [_phrase(words[name], float(f"{then:.3g}"), float(f"{later:.3g}")) for name, then, later in lengths]


def _server_changes(earlier: EngineFacts, later: EngineFacts) -> list[str]:
    found = [
        _phrase(words, before, now)
        for name, words in _TELLING.items()
        if _differ(before := getattr(earlier, name), now := getattr(later, name))
    ]
    both = [name for name in earlier.details if name in later.details]
    return found + [
        _phrase(name, earlier.details[name], later.details[name])
        for name in both
        if _differ(earlier.details[name], later.details[name])
    ]


def _gpu_changes(earlier: tuple[Gpu, ...], later: tuple[Gpu, ...]) -> list[str]:
    """Other kinds or numbers of GPUs; else other cards of the same kind, and what differs card by card."""
    if not earlier or not later:
        return []
    kinds, kinds_now = (", ".join(sorted(gpu.name for gpu in gpus)) for gpus in (earlier, later))
    if kinds != kinds_now:
        return [_phrase("the GPUs", kinds, kinds_now)]
    found = []
    if {gpu.uuid for gpu in earlier} != {gpu.uuid for gpu in later}:
        found.append(f"the GPUs are others of the same kind ({kinds_now})")
    for name, words in _GPU_TELLING.items():
        values = {(getattr(before, name), getattr(now, name)) for before, now in _paired(earlier, later)}
        found += [_phrase(f"a GPU's {words}", *pair) for pair in sorted(values, key=repr) if _differ(*pair)]
    return found


def _paired(earlier: tuple[Gpu, ...], later: tuple[Gpu, ...]) -> list[tuple[Gpu, Gpu]]:
    """The same card then and now; cards that are others, in the order of their names."""
    now = {gpu.uuid: gpu for gpu in later}
    same = [(gpu, now[gpu.uuid]) for gpu in earlier if gpu.uuid in now]
    known = {gpu.uuid for gpu, _ in same}
    left = sorted((gpu for gpu in earlier if gpu.uuid not in known), key=lambda gpu: gpu.name)
    right = sorted((gpu for gpu in later if gpu.uuid not in known), key=lambda gpu: gpu.name)
    return same + list(zip(left, right, strict=False))


def _differ(before: Any, now: Any) -> bool:
    """Whether both are told and differ; numbers that were measured by more than 1 %."""
    before, now = _plain(before), _plain(now)
    if before in (None, (), "") or now in (None, (), ""):
        return False
    if isinstance(before, float) and isinstance(now, int | float):
        return not math.isclose(before, now, rel_tol=0.01)
    return bool(before != now)


def _plain(value: Any) -> Any:
    """What was read back from a file has lists where there were tuples."""
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _phrase(words: str, before: Any, now: Any) -> str:
    return f"{words} changed from {_told(before)} to {_told(now)}"


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
