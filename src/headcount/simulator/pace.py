"""What makes step times differ from the equation: jitter, drift, leaks, throttling. Knows nothing of requests."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp

from headcount.simulator.server import Server

__all__ = ["Pace"]


@dataclass(slots=True)
class Pace:
    """The factor on step times, asked whenever the batch changes. Time counts from the first time it is asked."""

    seed: int = 1
    jitter: float = 0.0
    """Standard deviation of the factor's logarithm."""
    drift_per_hour: float = 0.0
    """Relative growth an hour."""
    leak_per_request: float = 0.0
    """Relative growth a finished request."""
    throttle_after_s: float | None = None
    throttle_factor: float = 1.0
    """Once throttled."""
    _rng: random.Random | None = None
    _began_at_s: float = 0.0

    def __call__(self, server: Server) -> float:
        """The factor from now until the batch changes again."""
        if self._rng is None:
            self._rng = random.Random(f"steps {self.seed}")
            self._began_at_s = server.now_s
        elapsed_s = server.now_s - self._began_at_s
        factor = exp(self._rng.gauss(0.0, self.jitter)) if self.jitter else 1.0
        factor *= 1.0 + self.drift_per_hour * elapsed_s / 3600.0
        factor *= 1.0 + self.leak_per_request * server.finished_total
        if self.throttle_after_s is not None and elapsed_s >= self.throttle_after_s:
            factor *= self.throttle_factor
        return factor
