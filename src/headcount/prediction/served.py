"""The types of a prediction's beginning: a server as constants and settings, what it runs on, and what is changed.

Knows how hardware scales constants; nothing of levels, files and people.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log

import msgspec

from headcount.errors import ScenarioError
from headcount.simulator.cost import Cost
from headcount.simulator.hardware import Gpu, Memory, Model, Quantization, cost_of, memory_of
from headcount.simulator.policy import Policy
from headcount.simulator.room import room_for
from headcount.slo import Clause

__all__ = [
    "Change",
    "Hardware",
    "Measured",
    "Served",
    "Start",
    "changed",
    "draws_of",
    "fitting_pool",
    "quantile_shares",
    "resized",
]

_SAME_KIND_SPREAD = 0.05
"""Of each constant, whenever anything of the hardware is changed: no two machines are built alike."""
_IDLE_SHARE = 0.3
"""Of a GPU's power that no clock changes: memory, leakage, fans."""
_MOVED = ("overhead_s", "weights_s", "token_s", "sequence_s", "context_token_s", "pair_s", "experts_s")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a model runs on."""

    gpu: Gpu
    model: Model
    quantization: Quantization
    gpus: int = 1
    memory_fraction: float = 0.9
    """What the engine may use of each card."""

    def cost(self) -> Cost:
        """The constants by datasheet and catalogue."""
        return cost_of(self.gpu, self.model, self.quantization, self.gpus)

    def memory(self) -> Memory:
        """How its memory is used up."""
        return memory_of(self.gpu, self.model, self.quantization, self.gpus, self.memory_fraction)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of what the catalogue says of this pair."""
        return hypot(self.gpu.efficiency.spread, self.quantization.spread)

    def __str__(self) -> str:
        cards = self.gpu.name if self.gpus == 1 else f"{self.gpus} x {self.gpu.name}"
        return f"{self.model.name} {self.quantization.name} on {cards}"


@dataclass(frozen=True, slots=True)
class Served:
    """One server as the simulator sees it, and how well its constants are known."""

    cost: Cost
    policy: Policy
    draws: tuple[Cost, ...] = ()
    """Constants that would explain what is known as well; empty: nothing is known of the error."""
    request_s: float = 0.0
    """What a request takes outside every step: the way, HTTP, tokenizing."""
    tail_s: float = 0.0
    """From the last token to the end of the answer, before which nobody goes on."""
    hardware: Hardware | None = None
    """None: not told; then it cannot be exchanged."""


class Measured(msgspec.Struct, frozen=True):
    """One level that was measured, to stand beside predictions."""

    users: int
    e2e_p50_s: float | None
    ttft_p95_s: float | None
    output_tokens_per_s: float | None
    decision: str


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a prediction begins with: a server, the people, and what was measured of both."""

    served: Served
    workload: dict[str, object]
    slo: tuple[Clause, ...]
    basis: str
    """``catalogue`` or ``calibrated``."""
    seed: int = 1
    answer_share: tuple[float, ...] = (1.0,)
    """How much of the tokens allowed is written: evenly spaced quantiles."""
    template_tokens: int | None = None
    measured: tuple[Measured, ...] = ()
    limit_users: int | None = None
    """The measured limit; None where none was."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is different from the start. None: as it is."""

    gpu: Gpu | None = None
    gpus: int | None = None
    model: tuple[Model, Quantization] | None = None
    context_tokens: int | None = None
    """The longest one sequence may become."""
    slots: int | None = None
    """The most sequences that run at once."""
    prompt_tokens: int | None = None
    """What people's first question has, documents included: the workload's ``first_prompt_tokens``."""
    power_limit_w: float | None = None
    """Of each card."""
    beside: tuple[Model, Quantization] | None = None
    """A second model for a share of the people: on the same cards, or on those of ``beside_gpu``."""
    beside_share: float = 0.5
    beside_gpu: Gpu | None = None


def changed(served: Served, change: Change) -> Served:
    """The server after the change, the second model aside. ``ScenarioError`` where it is not known or does not fit."""
    moved = served
    if change.gpu is not None or change.gpus is not None or change.model is not None:
        moved = _on_other_hardware(served, change)
    if change.power_limit_w is not None:
        moved = _under_power(moved, change.power_limit_w)
    sizes = {"context_tokens": change.context_tokens, "slots": change.slots}
    return replace(moved, policy=resized(moved, **sizes))


def resized(served: Served, context_tokens: int | None, slots: int | None) -> Policy:
    """The policy with another context or other slots; a pool that is split between the slots grows with both."""
    policy = served.policy
    split = policy.name in ("llamacpp", "ollama") and policy.pool_tokens == policy.slots * policy.context_tokens
    now = replace(policy, context_tokens=context_tokens or policy.context_tokens, slots=slots or policy.slots)
    if split:
        now = replace(now, pool_tokens=now.slots * now.context_tokens, cached_sequences=now.slots)
        room = served.hardware.memory().kv_pool_tokens if served.hardware is not None else None
        if room is not None and now.pool_tokens > room and now.pool_tokens > policy.pool_tokens:
            raise ScenarioError(
                f"{now.slots} slots of {now.context_tokens} tokens do not fit: memory holds {room} tokens",
                "fewer slots, a shorter context, or a bigger card",
            )
    elif now.context_tokens > now.pool_tokens:
        raise ScenarioError(
            f"a context of {now.context_tokens} tokens does not fit: memory holds {now.pool_tokens} tokens",
            "a shorter context, more cards, a bigger card, or fewer bits a weight",
        )
    if now.max_batched_tokens <= now.slots and not now.prefill_alone:
        now = replace(now, max_batched_tokens=now.slots + 1)
    return now


def _on_other_hardware(served: Served, change: Change) -> Served:
    """Constants scaled by what the datasheets of both say, so that what was measured of this engine is carried over."""
    before = served.hardware
    if before is None:
        raise ScenarioError(
            "nobody told what was measured, so it cannot be exchanged",
            'say it when calibrating: headcount calibrate … --gpu "RTX 4090" --model Qwen3-8B-AWQ',
        )
    model, quantization = change.model or (before.model, before.quantization)
    after = Hardware(
        change.gpu or before.gpu, model, quantization, change.gpus or before.gpus, _memory_fraction(served, before)
    )
    spread = _moved_spread(before, after)
    factors = _factors(before.cost(), after.cost())
    rng = random.Random(f"{before} {after}")
    draws = tuple(
        _scaled(cost, {name: factor * exp(rng.gauss(0.0, spread)) for name, factor in factors.items()}, after.cost())
        for cost in served.draws
    )
    policy = replace(
        served.policy, pool_tokens=fitting_pool(after, served.policy.context_tokens, change.context_tokens)
    )
    return replace(served, cost=_scaled(served.cost, factors, after.cost()), policy=policy, draws=draws, hardware=after)


def _moved_spread(before: Hardware, after: Hardware) -> float:
    """How uncertain the step from one to the other is: what the catalogue does not know of what is exchanged."""
    spread = _SAME_KIND_SPREAD
    if after.gpu.name != before.gpu.name:
        spread = hypot(spread, before.gpu.efficiency.spread, after.gpu.efficiency.spread)
    if after.quantization.name != before.quantization.name:
        spread = hypot(spread, before.quantization.spread, after.quantization.spread)
    return spread if after.gpus == before.gpus else hypot(spread, 0.1)


def _factors(before: Cost, after: Cost) -> dict[str, float]:
    return {name: getattr(after, name) / getattr(before, name) for name in _MOVED if getattr(before, name, 0.0) > 0.0}


def _scaled(cost: Cost, factors: dict[str, float], plain: Cost) -> Cost:
    """Each constant by its factor; experts, which only one of the two may have, as the catalogue has them."""
    values = {name: getattr(cost, name) * factor for name, factor in factors.items()}
    if plain.experts_s and not cost.experts_s:
        values["experts_s"] = plain.experts_s * values["weights_s"] / plain.weights_s
    if not plain.experts_s:
        values["experts_s"] = 0.0
    return replace(cost, **values, expert_fraction=plain.expert_fraction, batch_factor=())


def _memory_fraction(served: Served, hardware: Hardware) -> float:
    """The share of the card the engine must have been given for its pool to be what it is."""
    memory = hardware.memory()
    used_bytes = memory.weights_bytes + memory.overhead_bytes
    used_bytes += served.policy.pool_tokens * hardware.model.kv_bytes_per_token()
    return min(0.95, max(0.5, used_bytes / (hardware.gpu.memory_bytes * hardware.gpus)))


def fitting_pool(hardware: Hardware, context_tokens: int, asked_tokens: int | None = None) -> int:
    """Tokens that fit beside the weights; ``ScenarioError`` when not even one sequence does."""
    needed = asked_tokens or min(context_tokens, 2048)
    on, model, quantization = hardware.gpu, hardware.model, hardware.quantization
    return room_for(on, model, quantization, hardware.gpus, needed, hardware.memory_fraction).kv_pool_tokens


def _under_power(served: Served, limit_w: float) -> Served:
    """Slower clocks under a power limit, by a rough rule: dynamic power goes with the cube of the clock, three tenths
    of the power do not depend on it, and the memory's own clock stays. Nothing was measured: a wide interval."""
    if served.hardware is None:
        raise ScenarioError("nobody told which GPU it is, so its power cannot be limited", "say it with --gpu")
    full_w = served.hardware.gpu.power_w
    if limit_w >= full_w:
        return served
    share = limit_w / full_w
    if share <= _IDLE_SHARE + 0.05:
        raise ScenarioError(
            f"{limit_w:g} W are too few for a {served.hardware.gpu.name} ({full_w:g} W)",
            f"the rule holds from {(_IDLE_SHARE + 0.05) * full_w:.0f} W on",
        )
    clock = ((share - _IDLE_SHARE) / (1.0 - _IDLE_SHARE)) ** (1.0 / 3.0)
    rng = random.Random(f"power {share}")

    def slowed(cost: Cost, error: float) -> Cost:
        slow = exp(error) / clock
        reading = exp(max(0.0, error))
        return replace(
            cost,
            token_s=cost.token_s * slow,
            pair_s=cost.pair_s * slow,
            weights_s=cost.weights_s * reading,
            context_token_s=cost.context_token_s * reading,
        )

    spread = 0.5 * -log(clock)
    draws = tuple(slowed(cost, rng.gauss(0.0, spread)) for cost in served.draws)
    return replace(served, cost=slowed(served.cost, 0.0), draws=draws)


def draws_of(hardware: Hardware, n: int = 24, seed: int = 1) -> tuple[Cost, ...]:
    """Constants that the catalogue would not be surprised by."""
    rng = random.Random(f"draws {seed}")
    spread = hardware.spread

    def drawn(cost: Cost) -> Cost:
        values = {name: getattr(cost, name) for name in _MOVED}
        for names in (("weights_s", "experts_s"), ("context_token_s",), ("token_s",), ("pair_s",)):
            factor = exp(rng.gauss(0.0, spread))
            values |= {name: values[name] * factor for name in names}
        values["overhead_s"] *= exp(rng.gauss(0.0, 0.5))
        values["sequence_s"] *= exp(rng.gauss(0.0, 0.5))
        return replace(cost, **values)

    return tuple(drawn(hardware.cost()) for _ in range(n))


def quantile_shares(shares: Sequence[float], n: int = 21) -> tuple[float, ...]:
    """Evenly spaced quantiles of observed shares; (1.0,) without any."""
    if not shares:
        return (1.0,)
    ordered = sorted(shares)
    return tuple(ordered[min(len(ordered) - 1, int((i + 0.5) / n * len(ordered)))] for i in range(n))
