"""What the machines did while people were served. An extension point: one source a file, table ``SOURCES``.

A source is asked about once a second and gives samples; one that cannot see anything gives none and says why once.
Knows nothing of levels and requests.
"""

from __future__ import annotations

from typing import Protocol

from headcount.records import Gpu, Sample

__all__ = ["SOURCES", "Source"]

SOURCES: dict[str, str] = {
    "host": "headcount.telemetry.host:Host",
    "nvml": "headcount.telemetry.nvml:Nvml",
    "amd": "headcount.telemetry.amd:Amd",
    "prometheus": "headcount.telemetry.prometheus:Prometheus",
    "client": "headcount.telemetry.client:LoadProcess",
}


class Source(Protocol):
    """One place to look."""

    gpus: tuple[Gpu, ...]
    """The GPUs that count, known once opened; empty for a source that watches something else."""

    note: str
    """What a reader should know of what is watched ("2 of 4 GPUs: …"); empty for nothing."""

    def open(self) -> str | None:
        """Start looking. None when it works, else one sentence why nothing can be seen here."""

    def read(self, at_s: float) -> list[Sample]:
        """Samples stamped ``at_s``. What cannot be read now is left out, never 0. Must not raise."""

    def close(self) -> None:
        """Let go of what ``open`` took."""
