"""The plan held against simulated servers before anybody believes it; and what other hardware would carry.

Each model's share of the people asks a server with the plan's cap and the constants that its run tells. Everything from
here is simulated, and says how far the simulation is from what was measured. Knows nothing of gateways and files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from headcount.analysis.comfort import BANDS, felt_streamed, felt_whole
from headcount.analysis.conclusions import LevelSummary
from headcount.deployment.advice import Advice, Part
from headcount.deployment.capacity import Measured
from headcount.errors import ScenarioError
from headcount.prediction import Change, Prediction, Start, limit_of, predict
from headcount.slo import Comfort, parse_clause

__all__ = ["Option", "Rehearsal", "Rehearsed", "rehearse"]

_DRAWS = 6
"""Sets of constants beside the best ones: an interval's ends are the outermost of so few."""
_MOST_TIMES = 8
"""As many people as one server carries now: no wider search."""


class Option(msgspec.Struct, frozen=True):
    """What one server of a model would carry on other hardware as well as it carries people now. Simulated, 90 %."""

    gpus: int
    """Cards that compute together (tensor parallelism)."""
    users: int
    low_users: int
    high_users: int


class Rehearsed(msgspec.Struct, frozen=True):
    """One model's part, simulated."""

    name: str
    users: int
    """People on one of its servers."""
    feels: str
    """One of ``BANDS``."""
    prediction: Prediction
    holds: bool
    """Whether it feels as wanted."""
    error_fraction: float | None
    """Of the simulation at the measured level: its median answer over the measured one, minus 1."""
    option: Option | None = None
    """Two cards that compute together; None when nobody told what hardware it is."""


class Rehearsal(msgspec.Struct, frozen=True):
    """The whole plan, simulated."""

    parts: tuple[Rehearsed, ...]
    unchecked: dict[str, str]
    """Models that could not be simulated, and why."""

    @property
    def holds(self) -> bool | None:
        """Whether every part feels as wanted; None when one could not be checked and none failed."""
        if not all(part.holds for part in self.parts):
            return False
        return None if self.unchecked else True


def rehearse(advice: Advice, measured: Sequence[Measured], starts: Mapping[str, Start | str]) -> Rehearsal:
    """Hold every part of the plan. ``starts``: where each model's simulation begins, or why there is none."""
    comfort = {each.name: each.comfort for each in measured}
    parts, unchecked = [], {}
    for part in advice.parts:
        start = starts[part.name]
        if isinstance(start, str):
            unchecked[part.name] = start
            continue
        parts.append(_rehearsed(part, start, comfort[part.name], advice.demand.comfort))
    return Rehearsal(tuple(parts), unchecked)


def _rehearsed(part: Part, start: Start, comfort: Comfort, wanted: str) -> Rehearsed:
    users = max(1, math.ceil(part.users / part.servers))
    slots = min(part.cap_requests, start.served.policy.slots)
    prediction = predict(start, Change(slots=slots), users, draws=_DRAWS)
    feels = _feels(prediction, comfort, whole=not part.streamed)
    error = _error(part, start)
    return Rehearsed(
        name=part.name,
        users=users,
        feels=feels,
        prediction=prediction,
        holds=BANDS.index(feels) <= BANDS.index(wanted),
        error_fraction=error,
        option=_together(part, start),
    )


def _feels(prediction: Prediction, comfort: Comfort, *, whole: bool) -> str:
    figures = prediction.figures
    if figures.e2e_p50_s is None:
        return BANDS[-1]
    if whole or figures.ttft_p95_s is None:
        return felt_whole(figures.e2e_p50_s, comfort)
    return felt_streamed(figures.ttft_p95_s, _written_per_s(prediction), comfort)


def _written_per_s(prediction: Prediction) -> float | None:
    """Tokens a second of one answer while it is written."""
    figures = prediction.figures
    if figures.e2e_p50_s is None or figures.ttft_p50_s is None or not figures.requests_per_s:
        return None
    writing_s = figures.e2e_p50_s - figures.ttft_p50_s
    return figures.output_tokens_per_s / figures.requests_per_s / writing_s if writing_s > 0 else None


def _error(part: Part, start: Start) -> float | None:
    """The simulated median answer at the level that the part rests on, against the measured one."""
    level = _level(part)
    if level is None or not level.e2e_s.p50:
        return None
    simulated = predict(start, Change(), level.users, draws=0).figures.e2e_p50_s
    return None if simulated is None else simulated / level.e2e_s.p50 - 1.0


def _level(part: Part) -> LevelSummary | None:
    """The measured level that the part rests on."""
    return part.capacity.level if part.streamed else part.capacity.whole_level or part.capacity.level


def _together(part: Part, start: Start) -> Option | None:
    """As many people on two cards as wait no longer than those of the level that the part rests on: the simulation is
    asked for nothing that it was not fitted to."""
    level = _level(part)
    if start.served.hardware is None or level is None or not level.e2e_s.p50:
        return None
    slo = [f"e2e_p50 <= {level.e2e_s.p50:.3f} s"]
    if level.ttft_s.p95:
        slo.append(f"ttft_p95 <= {level.ttft_s.p95:.3f} s")
    promised = msgspec.structs.replace(start, slo=tuple(map(parse_clause, slo)))
    gpus = 2 * start.served.hardware.gpus
    try:
        limit = limit_of(promised, Change(gpus=gpus), draws=_DRAWS, most_users=_MOST_TIMES * level.users)
    except ScenarioError:
        return None  # it does not fit, or cannot be told
    return Option(gpus, limit.limit_users, limit.low_users, limit.high_users)
