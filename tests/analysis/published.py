"""The reference load test of February 2026 as summaries: one GPU with 96 GB, whole answers, five adapters."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headcount.analysis.conclusions import LevelSummary, Quantiles
from tests.report.invented import NOTHING, level

# people: (median s, p95 s, output tokens/s, degrees C, W)
SMALL = {
    20: (3.5, 4.2, 1582.0, 43.0, None),
    50: (5.4, 6.5, 2590.0, 48.0, None),
    100: (8.6, 10.9, 3469.0, 62.0, None),
    200: (16.9, 24.1, 3890.0, 70.0, 532.0),
}
"""Qwen3-8B-AWQ."""
LARGE = {
    20: (10.4, 11.5, 650.0, 61.0, 566.0),
    50: (16.8, 18.5, 1122.0, 74.0, 600.0),
    100: (26.6, 34.8, 1385.0, 80.0, 606.0),
    200: (52.2, 72.8, 1429.0, 83.0, 606.0),
}
"""Qwen3-32B-AWQ."""


def published(
    rows: Mapping[int, tuple[float, float, float, float, float | None]], vram_bytes: float
) -> tuple[list[LevelSummary], dict[int, dict[str, float]]]:
    """A published table as summaries, as far as it goes, and its machine figures by level."""
    levels, also = [], {}
    for index, (users, (median_s, p95_s, tokens_per_s, temperature_c, power_w)) in enumerate(rows.items()):
        e2e_s = Quantiles(200, median_s, p95_s, p95_s * 1.2, p95_reliable=True)
        levels.append(
            msgspec.structs.replace(
                level(index, users, n=200, whole=True),
                e2e_s=e2e_s,
                output_tokens_per_s=tokens_per_s,
                tpot_s=NOTHING,
                user_tokens_per_s=None,
                output_tokens_mean=None,
            )
        )
        also[index] = {"gpu_temperature_c": temperature_c, "gpu_memory_used_bytes": vram_bytes}
        if power_w is not None:
            also[index]["gpu_power_w"] = power_w
    return levels, also
