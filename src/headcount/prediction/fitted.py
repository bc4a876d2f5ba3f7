"""From what was seen of a server to its constants, with a refusal where the equation is not this server's.

The same for what was asked and for what is stored. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Sequence

from headcount.errors import NotTrustedError
from headcount.prediction.calibration import Calibration
from headcount.prediction.served import Hardware
from headcount.simulator.fitting import WORST_RESIDUAL, DecodeSeen, Fit, PrefillSeen, fit, guess_of
from headcount.simulator.policy import Policy

__all__ = ["check_trust", "drawn_columns", "fitted"]

_DRAWS = 48
_WORST_CHECK = 0.20
"""A held-out median or throughput that is further off refutes the calibration."""


def fitted(
    prefills: Sequence[PrefillSeen],
    decodes: Sequence[DecodeSeen],
    policy: Policy,
    hardware: Hardware | None,
) -> Fit:
    """The constants; the prior is the datasheet's where the hardware was told. ``NotTrustedError`` when there is too
    little to fit."""
    if len(prefills) < 2 or len({seen.sequences for seen in decodes}) < 2:
        raise NotTrustedError(
            f"too little was seen to calibrate: {len(prefills)} prompts alone and {len(decodes)} undisturbed stretches "
            "of writing",
            "the server must stream and count its tokens; of a run, levels with few people are needed: "
            "calibrate by the server's address instead",
        )
    alone_s = min(seen.ttft_s for seen in prefills)
    given = policy.max_batched_tokens, 0.2 * alone_s
    found = fit(prefills, decodes, guess_of(prefills, decodes), *given, prefill_alone=policy.prefill_alone)
    if hardware is None:
        return found
    by_datasheet = fit(prefills, decodes, hardware.cost(), *given, prefill_alone=policy.prefill_alone)
    return by_datasheet if by_datasheet.residual <= found.residual + 0.01 else found


def check_trust(calibration: Calibration) -> str | None:
    """Why this calibration must not be believed; None when it may be."""
    if calibration.residual_fraction > WORST_RESIDUAL:
        return (
            f"the step equation does not describe this server: residuals of {calibration.residual_fraction:.0%} (rms), "
            f"{WORST_RESIDUAL:.0%} may be"
        )
    names = {"e2e_p50_s": "the median answer", "output_tokens_per_s": "tokens per second"}
    for check in calibration.checks:
        for name, error in check.errors().items():
            if name in names and abs(error) > _WORST_CHECK:
                return (
                    f"a level that was not fitted ({check.level}) is off by {error:+.0%} in {names[name]}, "
                    f"{_WORST_CHECK:.0%} may be"
                )
    return None


def drawn_columns(found: Fit) -> dict[str, tuple[float, ...]]:
    """Sets of constants that explain what was seen about as well, constant by constant."""
    draws = found.draws(_DRAWS)
    return {name: tuple(getattr(cost, name) for cost in draws) for name in found.spreads if name != "request_s"}
