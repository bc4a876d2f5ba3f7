"""How well answers in pairs tell two conditions apart: coverage and width of the intervals over many seeds.

    python benchmarks/study_pairs.py --seeds 24 --speed 1.0

Two conditions of one simulated run, at 4 and 16 people, a minute and two visits each; the second is a server of
``--speed`` times the first one's speed.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import Any

from headcount.analysis.compare import Ratio, compare_conditions
from headcount.analysis.findings.evidence import Evidence
from headcount.analysis.paired import answers_by_words
from headcount.measure import measure
from headcount.scenario import make_scenario
from headcount.store import open_run

MEASURES = ("e2e_p50_s", "ttft_p50_s", "tpot_p50_s")


class Silent:
    """Watches and says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def ratios(seed: int, speed: float, folder: Path) -> tuple[list[Ratio], list[Ratio]]:
    """Over all levels, in pairs and without."""
    second: dict[str, Any] = {} if speed == 1.0 else {"engine": {"options": {"speed": speed, "seed": seed + 1000}}}
    table = {
        "seed": seed,
        "engine": {"kind": "simulated", "options": {"seed": seed}},
        "workload": {"kind": "chat", "output_tokens": [50, 300]},
        "search": {"levels": [4, 16], "level_time_s": 60},
        "condition": [{"name": "a"}, {"name": "b", **second}],
    }
    outcome = measure(
        make_scenario(table), verb="experiment", out=folder, api_key=None, watcher=Silent(), agree=lambda _: True
    )
    assert outcome is not None
    run, verdict = open_run(outcome.path), outcome.verdict
    spoken = answers_by_words(run.requests(), run.levels(), verdict.levels)
    evidence = Evidence(verdict.conditions, verdict.levels, run.facts.engine, spoken=spoken)
    return list(evidence.compared("a", "b").overall), list(compare_conditions(verdict.levels, "a", "b").overall)


def main() -> None:
    """A line a measure: in pairs, and without."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--speed", type=float, default=1.0)
    asked = parser.parse_args()
    found: dict[tuple[str, str], list[Ratio]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for seed in range(asked.seeds):
            for how, some in zip(("in pairs", "without"), ratios(seed, asked.speed, folder), strict=True):
                for ratio in some:
                    if ratio.measure in MEASURES and ratio.low_ratio is not None:
                        found.setdefault((ratio.measure, how), []).append(ratio)
    for (measure_name, how), some in found.items():
        truth = 1.0 if asked.speed == 1.0 else statistics.median(one.ratio for one in some)
        covered = sum((one.low_ratio or 9.0) <= truth <= (one.high_ratio or 0.0) for one in some)
        width = statistics.median((one.high_ratio or 1.0) / (one.low_ratio or 1.0) - 1.0 for one in some)
        said = {one.statement: sum(other.statement == one.statement for other in some) for one in some}
        print(f"{measure_name:11} {how}: {covered} of {len(some)} hold {truth:.3f}, {width:.1%} wide, {said}")


if __name__ == "__main__":
    main()
