"""``headcount experiment models`` on the reference load test's two models: its table of ratios comes out again."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.held import held, shorter

TABLES = tomllib.loads((Path(__file__).parents[2] / "benchmarks" / "published.toml").read_text())["model"]
SMALL, LARGE = "Qwen3-8B-AWQ", "Qwen3-32B-AWQ"
ANSWER_TOLERANCE, TOKENS_TOLERANCE = 0.12, 0.15
"""Of the published ratios. The engines are simulated from the catalogue's datasheets alone: nothing is fitted."""


def reference() -> dict[str, Any]:
    """Both models as the reference describes its test: whole answers, everybody starts together and leaves."""
    table = shorter("models", *(row["users"] for row in TABLES[SMALL]["rows"]), level_time_s=900, visits=1)
    server = {"gpu": "RTX PRO 6000", "policy": "sglang", "slots": 512, "context_tokens": 4096}
    answers = {"output_share": 0.82, "output_spread": 0.2}
    table["condition"] = [{"name": m, "engine": {"model": m, "options": server | answers}} for m in (SMALL, LARGE)]
    table["slo"] = ["e2e_p50 <= 4 s"]
    table["arrivals"] = {"kind": "finite"}
    table["workload"] = {
        "kind": "chat",
        "turns": [2, 4],
        "prompt_tokens": [20, 60],
        "output_tokens": 500,
        "think_s": [0.3, 1.0],
        "system_tokens": 100,
        "streamed": False,
    }
    return table


def test_the_published_ratios_come_out_again(tmp_path: Path) -> None:
    """At 20, 50, 100 and 200 people: how many times as long, how many times the tokens, and that it is about the same
    at every number of people."""
    verdict, run = held(tmp_path, reference())
    lines = {line.split()[1]: line.split() for line in verdict.findings if line.startswith("at ")}

    assert verdict.sentence.startswith(f"Answers of {LARGE} take ")
    assert verdict.sentence.endswith("about the same at every number of people.")
    for small, large in zip(TABLES[SMALL]["rows"], TABLES[LARGE]["rows"], strict=True):
        words = lines[str(small["users"])]
        longer, tokens = float(words[5]), float(words[words.index("with") + 1])
        assert longer == pytest.approx(large["median_s"] / small["median_s"], rel=ANSWER_TOLERANCE)
        published_tokens = large["output_tokens_per_s"] / small["output_tokens_per_s"]
        assert tokens == pytest.approx(published_tokens, rel=TOKENS_TOLERANCE)
    assert [run.facts.engine.model, run.facts.engines[LARGE].model] == [SMALL, LARGE]
