"""What the levels say of memory, throughput, heat and power against people: from their figures, and only from those."""

from __future__ import annotations

import msgspec

from headcount.analysis.conclusions import GpuFigures, LevelSummary
from headcount.analysis.statements import statements
from headcount.records import Gpu
from tests.report.invented import level

GIB = 2**30
GPU = Gpu("GPU-1", "NVIDIA RTX PRO 6000", memory_total_bytes=96 * GIB, power_limit_w=600.0, temperature_slowdown_c=85.0)


def held(users: int, tokens_per_s: float | None, *gpus: GpuFigures, decision: str = "holds") -> LevelSummary:
    """One level with a few figures."""
    one = level(users, users, decision)
    return msgspec.structs.replace(one, output_tokens_per_s=tokens_per_s, gpus=gpus)


def figures(memory_gib: float, temperature_c: float, power_w: float, uuid: str = "GPU-1") -> GpuFigures:
    """What one GPU showed."""
    return GpuFigures(uuid, memory_gib * GIB, temperature_c, power_w, 0.9)


def test_the_reference_load_tests_statements() -> None:
    """Memory that stands still, gains that shrink, degrees and watts against the card's limits."""
    levels = [
        held(20, 400.0, figures(90.1, 61, 300)),
        held(50, 880.0, figures(90.2, 68, 410)),
        held(60, 900.0, figures(90.2, 70, 430)),
        held(100, 1000.0, figures(90.2, 74, 480)),
    ]

    assert statements(levels, [GPU]) == (
        "Tokens/s gained for each person more, by people: 20–50 → 16, 50–100 → 2.4.",
        "The memory of NVIDIA RTX PRO 6000 does not follow people: 90.1 GiB at 20, 90.2 GiB at 100. "
        "The server took it beforehand.",
        "NVIDIA RTX PRO 6000 grew warm, by people: 20 → 61 °C, 50 → 68 °C, 100 → 74 °C; it slows itself down at 85 °C.",
        "NVIDIA RTX PRO 6000 drew, by people: 20 → 300 W, 50 → 410 W, 100 → 480 W; its limit is 600 W.",
    )


def test_memory_that_follows_people_is_told_a_person() -> None:
    """More than 1 % of the card between the fewest and the most."""
    found = statements([held(1, 30.0, figures(10, 50, 90)), held(33, 30.0, figures(26, 50, 90))], [GPU])

    assert "The memory of NVIDIA RTX PRO 6000 follows people: 10.0 GiB at 1, 26.0 GiB at 33, 512 MiB a person." in found


def test_levels_with_the_same_people_count_once_by_their_mean() -> None:
    """Repeats are averaged; void levels and those that never were steady say nothing."""
    levels = [held(1, 10.0), held(2, 18.0), held(2, 22.0), held(4, 999.0, decision="void")]
    levels.append(msgspec.structs.replace(held(8, 999.0), steady_at_s=None))

    assert statements(levels, []) == ("Tokens/s gained for each person more, by people: 1–2 → 10.",)


def test_what_is_unknown_is_not_said() -> None:
    """One number of people, no GPU figures, a card without limits, several cards by their number."""
    assert statements([held(4, 10.0)], [GPU]) == ()
    assert statements([held(1, None), held(2, None)], []) == ()
    bare = [Gpu("GPU-1", "L4"), Gpu("GPU-2", "L4")]
    both = [held(1, None, figures(1, 40, 20), GpuFigures("GPU-2", None, None, 30.0, None))]
    assert statements(both, bare) == (
        "L4 (0) grew warm, by people: 1 → 40 °C.",
        "L4 (0) drew, by people: 1 → 20 W.",
        "L4 (1) drew, by people: 1 → 30 W.",
    )
