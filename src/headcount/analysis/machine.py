"""What was sampled of the server and its machine in one level's steady window. Knows nothing of requests."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headcount.analysis.conclusions import GpuFigures
from headcount.records import EngineFacts, Gpu, Sample

__all__ = ["Machine", "counted"]


class Machine(msgspec.Struct, frozen=True):
    """What is looked at: the steady window of one level."""

    level: int
    began_at_s: float
    ended_at_s: float
    samples: tuple[Sample, ...]
    """May hold more than the window."""
    in_flight_mean: float | None = None
    """Requests in flight as the client saw it."""
    ttft_mean_s: float | None = None
    """As the client measured it, over the window."""
    told_ttft_mean_s: float | None = None
    """As the server told it with each answer; None where it does not."""
    gpus: tuple[Gpu, ...] = ()
    engine: EngineFacts | None = None

    def series(self, name: str, of: str | None = None) -> list[Sample]:
        """Samples of one name inside the window, in order; only those ``of`` something where that is given."""
        return [
            s
            for s in self.samples
            if s.name == name and self.began_at_s <= s.at_s <= self.ended_at_s and (of is None or s.of == of)
        ]

    def values(self, name: str, of: str | None = None) -> list[float]:
        """Their values."""
        return [sample.value for sample in self.series(name, of)]

    def measured_on(self, name: str) -> list[str]:
        """What ``name`` was measured on, each once, in order."""
        return list(dict.fromkeys(sample.of for sample in self.series(name)))

    def share(self, part: str, whole: str) -> float | None:
        """How far one counter rose over how far another one did; None when that did not, or one of them fell."""
        (rise, falls), (of_rise, of_falls) = counted(self.values(part)), counted(self.values(whole))
        return rise / of_rise if of_rise and not falls and not of_falls else None

    @property
    def server_ttft_mean_s(self) -> float | None:
        """The time to the first token as the server tells it: with each answer, else by its counters."""
        if self.told_ttft_mean_s is not None:
            return self.told_ttft_mean_s
        return self.share("server_ttft_s_total", "server_ttft_requests_total")

    def gpu_figures(self) -> tuple[GpuFigures, ...]:
        """What each GPU showed; empty where none was watched."""
        return tuple(
            GpuFigures(
                gpu.uuid,
                max(self.values("gpu_memory_used_bytes", gpu.uuid), default=None),
                max(self.values("gpu_temperature_c", gpu.uuid), default=None),
                _mean(self.values("gpu_power_w", gpu.uuid)),
                _mean(self.values("gpu_utilization_fraction", gpu.uuid)),
            )
            for gpu in self.gpus
        )

    def called(self, uuid: str) -> str:
        """A GPU as a person knows it: its kind, and its number where there are several."""
        names = {gpu.uuid: f"{gpu.name} ({place})" for place, gpu in enumerate(self.gpus)}
        if len(self.gpus) == 1:
            names = {self.gpus[0].uuid: self.gpus[0].name}
        return names.get(uuid, uuid or "the GPU")


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def counted(values: Iterable[float]) -> tuple[float, int]:
    """How far a counter rose, and how often it fell back: after a fall it counts from 0, never down.

    >>> counted([10.0, 12.0, 1.0, 3.0])
    (5.0, 1)
    """
    rise, falls, before = 0.0, 0, None
    for value in values:
        if before is not None:
            falls += value < before
            rise += value - before if value >= before else value
        before = value
    return rise, falls
