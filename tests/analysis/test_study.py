"""The claims of the method on a few servers of the study (benchmarks/study_limit.py), whose limit is known.

A dozen servers, one search each: thresholds are those that a method as good as the study's table misses in less than
one of a thousand such dozens. The table itself stands in docs/explanation/statistics.md.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headcount.analysis.conclusions import Limits

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "study_limit.py"
EACH = 3


@pytest.fixture(scope="module")
def study() -> ModuleType:
    """The script of the study."""
    spec = importlib.util.spec_from_file_location("study_limit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["study_limit"] = module  # its Structs look their types up there
    spec.loader.exec_module(module)
    return module


def dozen(study: ModuleType) -> list[tuple[Any, Any]]:
    """Servers of every kind and their true limits: the last ones of the study, which nothing was tried out on."""
    known = json.loads(study.TRUTH_FILE.read_text())
    chosen = []
    for kind in study.KINDS:
        told = {
            int(name.rsplit(" ", 1)[1]): study.Truth(*truth) for name, truth in known.items() if name.startswith(kind)
        }
        fitting = [
            n for n, truth in sorted(told.items()) if 3 <= truth.limit <= 200 and 2.0 <= truth.rate_per_s <= 16.0
        ]
        chosen += [(study.make_server(kind, n), told[n]) for n in fitting[-EACH:]]
    return chosen


@pytest.fixture(scope="module")
def in_time(study: ModuleType) -> list[Any]:
    """Searches in 6 minutes where 7 and more are answered a second, in 8 where fewer; without pauses in half of it."""
    return [study.one((server, 0, truth, 1.0)) for server, truth in dozen(study)]


@pytest.fixture(scope="module")
def in_full(study: ModuleType) -> list[Any]:
    """Searches that end by themselves."""
    return [study.one((server, 0, truth, 10.0)) for server, truth in dozen(study)]


def test_the_interval_covers_the_true_limit(study: ModuleType, in_time: list[Any]) -> None:
    """In at least 9 of 12; 95 % are claimed."""
    assert sum(study.covers(result) for result in in_time) >= 9


def test_the_limit_is_close_within_minutes(study: ModuleType, in_time: list[Any]) -> None:
    """Within 5 % or one person in at least 8 of 12, and never beyond the time; 90 % are claimed."""
    assert sum(study.close(result) for result in in_time) >= 8
    assert all(result.spent_s <= study.budget_s(result.server, result.truth) + 1e-6 for result in in_time)


def test_a_healthy_server_draws_no_fatal_caution(in_time: list[Any], in_full: list[Any]) -> None:
    """In none of some 300 levels."""
    assert sum(result.fatal for result in (*in_time, *in_full)) == 0


def test_a_search_with_time_confirms_its_limit(study: ModuleType, in_full: list[Any]) -> None:
    """Three holds, close in at least 8 of 12; and sooner than a sweep of 1, 2, 4 … with ten minutes a level."""
    assert all(result.confirmed for result in in_full)
    assert sum(study.close(result) for result in in_full) >= 8
    for result in in_full:
        levels = result.truth.limit.bit_length() + 1
        assert result.spent_s <= 0.5 * 600.0 * levels


def test_the_estimate_is_about_right(in_full: list[Any]) -> None:
    """Within 30 % in at least 7 of 12, never off by more than a factor of two; three of four are claimed."""
    ratios = [result.estimate_s / result.spent_s for result in in_full]

    assert sum(0.7 <= ratio <= 1.3 for ratio in ratios) >= 7
    assert all(0.5 <= ratio <= 2.0 for ratio in ratios)
    assert all(result.estimate_s <= Limits().max_time_s for result in in_full)
