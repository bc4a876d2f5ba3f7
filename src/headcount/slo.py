"""The service level: clauses such as ``ttft_p95 <= 2 s``, and whether one request meets them; how waits are felt.

A clause ``m_pQ <= b`` is judged as a proportion: the share of requests with m > b must not exceed
1 - Q/100. Knows nothing of levels, of statistics or of how requests are made.
"""

from __future__ import annotations

import math
import re

import msgspec

from headcount.errors import ScenarioError
from headcount.metrics import METRICS
from headcount.records import Request

__all__ = ["PRESETS", "Clause", "Comfort", "meets", "parse_clause", "parse_slo"]


class Clause(msgspec.Struct, frozen=True):
    """One promise. ``metric`` is a key of ``METRICS`` or ``errors``."""

    metric: str
    percentile: float | None
    """0..100; None for ``errors``."""
    bound: float
    """In base units: seconds, or a fraction for ``errors``."""
    text: str = ""
    """As the user wrote it, normalised; used in reports."""

    @property
    def allowed_fraction(self) -> float:
        """The share of requests that may miss: 1 - Q/100, or the bound itself for ``errors``."""
        return self.bound if self.percentile is None else 1.0 - self.percentile / 100.0


class Comfort(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to where waits are comfortable, then slightly slow, then frustrating; beyond, unusable. Decides nothing."""

    whole_s: tuple[float, float, float] = (4.0, 7.0, 12.0)
    """For answers shown at once: the median wait."""
    ttft_s: tuple[float, float, float] = (1.0, 3.0, 10.0)
    """For streamed answers: the p95 of TTFT."""
    user_tokens_per_s: tuple[float, float] = (10.0, 5.0)
    """For streamed answers: the least speed that is comfortable, and slightly slow; people read about 5 tokens/s."""

    def __post_init__(self) -> None:
        for name, ends, words in (
            ("whole_s", self.whole_s, "rise"),
            ("ttft_s", self.ttft_s, "rise"),
            ("user_tokens_per_s", self.user_tokens_per_s[::-1], "fall"),
        ):
            if not all(0 < end < math.inf for end in ends):
                raise ValueError(f"{name} must be numbers above 0; write e.g. {name} = {list(getattr(USUAL, name))}")
            if list(ends) != sorted(set(ends)):
                raise ValueError(f"{name} must {words} from comfortable on; sort the numbers")


USUAL = Comfort()

PRESETS: dict[str, tuple[str, ...]] = {
    "chat": ("ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s", "errors <= 1 %"),
    "strict": ("ttft_p95 <= 0.5 s", "tpot_p95 <= 0.05 s", "errors <= 1 %"),
    "agent": ("ttft_p95 <= 15 s", "tpot_p95 <= 0.1 s", "errors <= 1 %"),
    "home": ("ttft_p95 <= 3 s", "tpot_p95 <= 0.143 s", "errors <= 1 %"),
    "whole": ("e2e_p50 <= 4 s", "errors <= 1 %"),
}
"""Every preset has a speed clause: a TTFT clause alone passes while decoding starves."""

_LATENCY = re.compile(r"^\s*(\w+?)_p(\d{1,2}(?:\.\d+)?)\s*<=\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s)\s*$")
_ERRORS = re.compile(r"^\s*errors\s*<=\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)\s*$")


def parse_clause(text: str) -> Clause:
    """``"ttft_p95<=2s"`` → Clause; the unit must be given.

    >>> parse_clause("ttft_p95<=500ms").bound
    0.5
    >>> parse_clause("errors <= 1 %").allowed_fraction
    0.01
    """
    if found := _ERRORS.match(text):
        share = float(found[1]) / (100.0 if found[2] else 1.0)
        if share > 1:
            raise ScenarioError(f"slo clause {text!r}: more than everything may fail", "write e.g. errors <= 1 %")
        return Clause("errors", None, share, f"errors <= {share * 100:g} %")
    found = _LATENCY.match(text)
    if not found or found[1] not in METRICS:
        names = ", ".join(sorted(METRICS))
        raise ScenarioError(
            f"slo clause {text!r} is not understood",
            f"write <metric>_p<percentile> <= <number> s, e.g. ttft_p95 <= 2 s; metrics: {names}, or errors <= 1 %",
        )
    percentile, bound = float(found[2]), float(found[3]) / (1000.0 if found[4] == "ms" else 1.0)
    if not 0 < percentile < 100 or bound <= 0:
        raise ScenarioError(
            f"slo clause {text!r}: the percentile must lie between 0 and 100, and the bound above 0",
            "write e.g. ttft_p95 <= 2 s",
        )
    return Clause(found[1], percentile, bound, f"{found[1]}_p{percentile:g} <= {bound:g} s")


def parse_slo(given: tuple[str, ...] | list[str] | str) -> tuple[Clause, ...]:
    """A preset's name, or clauses. The error clause of 1 % is added where none is given."""
    texts = (given,) if isinstance(given, str) else tuple(given)
    if len(texts) == 1 and texts[0] in PRESETS:
        texts = PRESETS[texts[0]]
    elif len(texts) == 1 and re.fullmatch(r"[a-z-]+", texts[0]):
        raise ScenarioError(
            f"slo {texts[0]!r} is no preset", f"presets: {', '.join(PRESETS)}; or clauses like ttft_p95<=2s"
        )
    if alone := [text for text in texts if text in PRESETS and len(texts) > 1]:
        raise ScenarioError(
            f"slo {alone[0]!r} is a preset and stands alone, but {len(texts)} were given",
            f"keep one preset, or write out the clauses: {', '.join(PRESETS[alone[0]])}",
        )
    clauses = tuple(parse_clause(t) for t in texts)
    if not any(c.metric == "errors" for c in clauses):
        clauses += (parse_clause("errors <= 1 %"),)
    return clauses


def meets(request: Request, clause: Clause) -> bool | None:
    """Whether one request meets one clause; None when it can say nothing about it.

    A failed or timed-out request misses every latency clause, as does a cut one whose age already
    exceeds the bound; a cut one younger than that says nothing. A metric that does not exist for a
    good request (TTFT of a whole answer, TPOT of one token) says nothing either.
    """
    if clause.metric == "errors":
        return None if request.error == "cut" else request.error is None
    value = METRICS[clause.metric](request)
    if request.error is None:
        return None if value is None else value <= clause.bound
    if request.error != "cut":
        return False
    if value is not None and clause.metric in ("ttft", "first_answer"):
        return value <= clause.bound
    if clause.metric in ("ttft", "first_answer", "e2e") and request.ended_at_s - request.scheduled_at_s > clause.bound:
        return False
    return None
