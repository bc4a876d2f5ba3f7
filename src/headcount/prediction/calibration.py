"""The calibration file: constants of one server with their errors, what they were fitted to, and how they were checked.

Facts and fit in one TOML file that people can read and keep. Knows nothing of how a server was asked.
"""

from __future__ import annotations

import random
import tomllib
from dataclasses import replace
from math import exp, log1p, sqrt
from pathlib import Path
from typing import Any

import msgspec

from headcount.errors import RunError
from headcount.prediction.served import Hardware, Measured
from headcount.records import EngineFacts
from headcount.scenario import encode_table
from headcount.simulator.catalogue import find_gpu, find_model, find_quantization, known_model
from headcount.simulator.cost import Cost
from headcount.simulator.fitting import DecodeSeen, PrefillSeen
from headcount.simulator.policy import Policy

__all__ = [
    "CALIBRATION_FILE",
    "CALIBRATION_VERSION",
    "Calibration",
    "Check",
    "Told",
    "read_calibration",
    "write_calibration",
]

_UNCHECKED_DOUBT = 0.05
"""Where no level was left to check."""
CALIBRATION_FILE = "calibration.toml"
"""Its usual name, in a run folder too."""
CALIBRATION_VERSION = 1
"""Of the file; raised when a reader of the old one would misread the new one."""


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the server runs on, as somebody said."""

    gpu: str
    """A GPU of the catalogue, or its figures."""
    model: str
    gpus: int = 1
    quantization: str = ""
    """A quantization of the catalogue; empty: as the model's name says."""
    config: dict[str, Any] = {}
    """The model's ``config.json``, where it is not in the catalogue."""

    def hardware(self) -> Hardware:
        """The same as figures. Raises ``ScenarioError`` for names that are not known."""
        model, quantization = known_model(self.model, self.config) if self.config else find_model(self.model)
        if self.quantization:
            quantization = find_quantization(self.quantization)
        return Hardware(find_gpu(self.gpu), model, quantization, self.gpus)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One level that was not fitted: predicted and measured. None where too little was seen."""

    level: str
    """What was held: ``8 at once``, ``40 people``."""
    n_requests: int
    e2e_p50_s: float | None
    predicted_e2e_p50_s: float | None
    ttft_p95_s: float | None
    predicted_ttft_p95_s: float | None
    output_tokens_per_s: float | None
    predicted_output_tokens_per_s: float | None

    def errors(self) -> dict[str, float]:
        """Predicted over measured, less 1, of each figure that both have."""
        pairs = {
            "e2e_p50_s": (self.predicted_e2e_p50_s, self.e2e_p50_s),
            "output_tokens_per_s": (self.predicted_output_tokens_per_s, self.output_tokens_per_s),
            "ttft_p95_s": (self.predicted_ttft_p95_s, self.ttft_p95_s),
        }
        return {name: a / b - 1.0 for name, (a, b) in pairs.items() if a is not None and b}


class Calibration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``calibration.toml``. Times in seconds; the constants are those of ``simulator.cost.Cost``."""

    format_version: int
    headcount_version: str
    calibrated_utc: str
    """ISO 8601; for people only."""
    method: str
    """``client``: by asking the server; ``run``: from a stored run."""
    source: str
    """The server's address, or the run folder's name."""
    residual_fraction: float
    """Root mean square of log(fitted / seen); beyond 0.08 no calibration is written."""
    request_s: float = 0.0
    """What a request takes outside every step: the way there and back, HTTP, tokenizing."""
    tail_s: float = 0.0
    """From the last token to the end of the answer: usage, the end of the stream."""
    simulated: bool = False
    """Whether the server itself was simulated."""
    cached_share: float | None = None
    """TTFT of a repeated prompt over that of the first time, both without that of a short one; None: not tried."""
    template_tokens: int | None = None
    """What the server's chat template adds to a conversation of one message."""
    took_s: float = 0.0
    """How long the server was asked."""
    seed: int = 1
    limit_users: int | None = None
    """The limit that the run measured."""
    slo: tuple[str, ...] = ()
    """The service level of the run."""
    answer_share: tuple[float, ...] = ()
    """How much of the tokens allowed is written: evenly spaced quantiles."""
    engine: EngineFacts
    told: Told | None = None
    cost: Cost
    spread: dict[str, float] = {}
    """Standard deviation of the logarithm of each constant that was fitted."""
    draws: dict[str, tuple[float, ...]] = {}
    """Sets of constants that explain what was seen about as well, constant by constant."""
    policy: Policy
    """The scheduler's settings, from what the server tells and what its kind does by default."""
    prefills: tuple[PrefillSeen, ...] = ()
    """What was fitted: first tokens."""
    decodes: tuple[DecodeSeen, ...] = ()
    """What was fitted: pauses between tokens."""
    each_residual_fraction: tuple[float, ...] = ()
    """log(fitted / seen) of each, prefills first."""
    checks: tuple[Check, ...] = ()
    """Levels that were not fitted."""
    measured: tuple[Measured, ...] = ()
    """The levels of the run."""
    workload: dict[str, object] = {}
    """The people of the run."""

    @property
    def doubt(self) -> float:
        """How far levels that were not fitted were off, as a standard deviation of the logarithm."""
        errors = [error for check in self.checks for name, error in check.errors().items() if name != "ttft_p95_s"]
        return sqrt(sum(log1p(max(-0.9, error)) ** 2 for error in errors) / len(errors)) if errors else _UNCHECKED_DOUBT

    def costs(self) -> tuple[Cost, ...]:
        """The draws as constants, each as much faster or slower as levels that were not fitted turned out to be."""
        names, rng = list(self.draws), random.Random("doubt")
        found = []
        for row in zip(*self.draws.values(), strict=True):
            pace = exp(rng.gauss(0.0, self.doubt))
            found.append(replace(self.cost, **{name: pace * value for name, value in zip(names, row, strict=True)}))
        return tuple(found)


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write the file, replacing an earlier one. Raises ``RunError`` where that is not possible."""
    try:
        path.write_text(encode_table(msgspec.to_builtins(calibration)), encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}", "choose another place with --out") from error


def read_calibration(path: Path) -> Calibration:
    """Read the file; ``RunError`` when it is none, or a newer one's."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path} is not there", "make one: headcount calibrate http://HOST:PORT") from None
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}", "check its permissions") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path} is no calibration: {error}", "give the file that headcount calibrate wrote") from error
    version = table.get("format_version")
    if isinstance(version, int) and version > CALIBRATION_VERSION:
        raise RunError(
            f"{path} has calibration format {version}; this headcount reads up to {CALIBRATION_VERSION}",
            "open it with a newer headcount: pip install -U headcount",
        )
    try:
        return msgspec.convert(table, Calibration)
    except (msgspec.ValidationError, ValueError) as error:
        raise RunError(f"{path} is no calibration: {error}", "give the file that headcount calibrate wrote") from error
