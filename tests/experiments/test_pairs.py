"""Answers in pairs: the same server twice is the same, one slower by a tenth is slower by a tenth, and surely so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headcount.analysis.compare import compare_conditions
from headcount.analysis.findings.evidence import Evidence, pooled
from headcount.analysis.paired import answers_by_words
from tests.experiments.held import held


def _evidence(out: Path, seed: int, second: dict[str, Any]) -> Evidence:
    """Two conditions at 4 and 16 people, a minute and two visits each."""
    table = {
        "workload": {"kind": "chat", "output_tokens": [50, 300]},
        "search": {"levels": [4, 16], "level_time_s": 60},
        "condition": [{"name": "a"}, {"name": "b", **second}],
    }
    verdict, run = held(out, table, seed=seed)
    spoken = answers_by_words(run.requests(), run.levels(), verdict.levels)
    return Evidence(verdict.conditions, verdict.levels, run.facts.engine, spoken=spoken)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_twice_is_no_different(seed: int, tmp_path: Path) -> None:
    """The interval holds 1 and is a tenth as wide as without pairs."""
    evidence = _evidence(tmp_path, seed, {})
    ratio = pooled(evidence.compared("a", "b"), "e2e_p50_s")
    alone = pooled(compare_conditions(evidence.levels, "a", "b"), "e2e_p50_s")

    assert ratio is not None
    assert alone is not None
    assert ratio.statement == "no-difference"
    assert (ratio.low_ratio or 2) < 1 < (ratio.high_ratio or 0)
    assert (ratio.high_ratio or 9) / (ratio.low_ratio or 1) - 1 < 0.04
    assert (ratio.high_ratio or 9) - (ratio.low_ratio or 0) < 0.5 * ((alone.high_ratio or 0) - (alone.low_ratio or 0))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_tenth_slower_is_a_tenth_slower(seed: int, tmp_path: Path) -> None:
    """Known to within two per cent after a minute."""
    slower = {"engine": {"options": {"speed": 0.9, "seed": seed + 100}}}
    ratio = pooled(_evidence(tmp_path, seed, slower).compared("a", "b"), "e2e_p50_s")

    assert ratio is not None
    assert ratio.statement == "worse"
    assert ratio.ratio == pytest.approx(1 / 0.9, rel=0.02)
    assert (ratio.high_ratio or 9) / (ratio.low_ratio or 1) - 1 < 0.06
