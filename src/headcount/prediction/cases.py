"""What-ifs as people write them: ``gpus=2,context=16384``, or the same as flags. Gives names and changes.

Knows nothing of levels and of how anything is shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import msgspec

from headcount.errors import ScenarioError
from headcount.prediction.served import Change
from headcount.simulator.catalogue import find_gpu, find_model

__all__ = ["CASE_KEYS", "Case", "case_of", "parse_case"]

CASE_KEYS = (
    *("users", "gpu", "gpus", "model", "context", "prompt-tokens", "max-num-seqs", "power-limit"),
    *("with", "share", "with-gpu"),
)
"""What a case may change; the flags of ``headcount whatif`` are called the same."""

_WHOLE = {"gpus", "context", "prompt-tokens", "max-num-seqs"}
_MOST_USERS = 16_384
"""As far as a limit is looked for."""


class Case(msgspec.Struct, frozen=True):
    """One what-if."""

    name: str
    """As it was written; empty for the start itself."""
    change: Change
    users: tuple[int, ...] = ()
    """How many people; empty: as many as were measured, or as the limit is."""


def parse_case(text: str) -> Case:
    """``gpus=2,context=16384`` as a case; ``ScenarioError`` names the key at fault and the nearest known."""
    said = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise ScenarioError(f"case {part.strip()!r} is not understood", 'write e.g. --case "gpus=2,context=16384"')
        said[key.strip()] = value.strip()
    return case_of(said)


def case_of(said: Mapping[str, str]) -> Case:
    """A case from keys of ``CASE_KEYS`` and what was written for them."""
    for key in said:
        if key not in CASE_KEYS:
            near = difflib.get_close_matches(key, CASE_KEYS, 1)
            raise ScenarioError(
                f"case: {key!r} cannot be changed",
                f"did you mean {near[0]!r}?" if near else f"what can: {', '.join(CASE_KEYS)}",
            )
    for key in {"share", "with-gpu"} & set(said):
        if "with" not in said:
            raise ScenarioError(f"{key} is of a second model, and none is named", "name it, e.g. with=Qwen3-4B-AWQ")
    whole = {key: _whole(key, said[key]) for key in _WHOLE & set(said)}
    change = Change(
        gpu=find_gpu(said["gpu"]) if "gpu" in said else None,
        gpus=whole.get("gpus"),
        model=find_model(said["model"]) if "model" in said else None,
        context_tokens=whole.get("context"),
        slots=whole.get("max-num-seqs"),
        prompt_tokens=whole.get("prompt-tokens"),
        power_limit_w=_above_0("power-limit", said["power-limit"].rstrip("Ww ")) if "power-limit" in said else None,
        beside=find_model(said["with"]) if "with" in said else None,
        beside_share=_share(said.get("share", "0.5")),
        beside_gpu=find_gpu(said["with-gpu"]) if "with-gpu" in said else None,
    )
    users = tuple(_whole("users", one) for one in said.get("users", "").replace("/", ",").split(",") if one)
    if users and max(users) > _MOST_USERS:
        raise ScenarioError(
            f"users must be at most {_MOST_USERS}, not {max(users)}", "more people: headcount fleet-size"
        )
    name = ", ".join(f"{key}={value}" for key, value in said.items() if key != "users")
    return Case(name, change, users)


def _whole(key: str, text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 12 or int(text) < 1:
        raise ScenarioError(f"{key} must be a whole number from 1 on, not {text!r}", f"e.g. {key}=2")
    return int(text)


def _above_0(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise ScenarioError(f"{key} must be a number above 0, not {text!r}", f"e.g. {key}=350")
    return value


def _share(text: str) -> float:
    value = _above_0("share", text.rstrip("% ")) / (100.0 if text.endswith("%") else 1.0)
    if not value < 1.0:
        raise ScenarioError(f"share must lie between 0 and 1, not {text!r}", "e.g. share=30%")
    return value
