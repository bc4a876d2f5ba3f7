"""How often does ``compare`` say what is true? Pairs of whole ``find`` runs on simulated servers, as long as usual.

    python benchmarks/study_compare.py [--servers 7] [--other-people] [--keep FOLDER]

Each server is searched eight times, by the same people as ``find`` does unless another seed is given, or with
``--other-people`` by others each time: six times as it is, twice 10 % slower. That gives 15
pairs of an unchanged server and 12 of a slower one; beside them each is held once at fixed numbers of people, which
must not look like another server either. A server that does not carry four people is left out: a search learns on a few
answers that it does not, and a comparison then says that it cannot tell. ``--keep`` writes down what was measured and
reads it again the next time, so that a change of ``compare`` is judged in a moment.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headcount.analysis.compare import compare
from headcount.analysis.conclusions import LevelSummary, Plan
from headcount.measure import measure
from headcount.records import Level
from headcount.scenario import make_scenario
from headcount.stats.proportion import clopper_pearson

UNCHANGED, SLOWER, TENTH = 6, 2, 0.9
FEW = 4
WORKLOADS = ("chat", "short", "question", "rag")
PROFILES = ("home", "workstation", "laptop")

_decode = msgspec.json.Decoder(list[LevelSummary]).decode


class Silent:
    """Nobody watches."""

    def level_began(self, level: Level, plan: Plan) -> None:
        """Nothing."""

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """Nothing."""

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """Nothing."""


def scenario_table(number: int, run: int, levels: list[int], people: int) -> dict[str, object]:
    """A server of its own kind and speed, whose chance is the run's own; from ``UNCHANGED`` on it is slower."""
    rng = random.Random(f"server {number}")
    speed = rng.uniform(0.6, 1.6) * (1.0 if run < UNCHANGED else TENTH)
    options = {"server": PROFILES[number % len(PROFILES)], "speed": speed, "seed": 100 * number + run}
    search = {"levels": levels, "level_time_s": 120.0} if levels else {}
    return {
        "name": f"{number}-{run}",
        "seed": people,
        "engine": {"kind": "simulated", "options": options},
        "workload": {"kind": WORKLOADS[number % len(WORKLOADS)]},
        "search": search,
    }


def levels_of(number: int, run: int, options: argparse.Namespace, fixed: list[int]) -> list[LevelSummary]:
    """What one run showed."""
    people = 1000 * number + (run if options.other_people else 0)
    path = options.keep / f"{number}-{run}-{people}{'-fixed' if fixed else ''}.json" if options.keep else None
    if path is not None and path.exists():
        return _decode(path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        scenario = make_scenario(scenario_table(number, run, fixed, people))
        outcome = measure(
            scenario, verb="find", out=Path(folder), api_key=None, watcher=Silent(), agree=lambda _intent: True
        )
    assert outcome is not None
    levels = list(outcome.verdict.levels)
    if path is not None:
        path.write_bytes(msgspec.json.encode(levels))
    return levels


def pairs(options: argparse.Namespace) -> Iterator[tuple[str, str, list[str]]]:
    """(what is true, what was said, what each deciding figure said) for every pair."""
    carrying = (number for number in itertools.count() if carries(levels_of(number, 0, options, [])))
    for number in itertools.islice(carrying, options.servers):
        runs = [levels_of(number, run, options, []) for run in range(UNCHANGED + SLOWER)]
        print(".", end="", file=sys.stderr, flush=True)
        for first, second in itertools.combinations(runs[:UNCHANGED], 2):
            yield "unchanged", *said(first, second)
        for first, second in itertools.product(runs[:UNCHANGED], runs[UNCHANGED:]):
            yield "10 % slower", *said(first, second)
        held = sorted({level.users for level in runs[0] if level.decision != "void"})
        fixed = levels_of(number, 0, options, held[:: max(1, len(held) // 4)])
        for searched in runs[1:UNCHANGED]:
            yield "unchanged, fixed levels against a search", *said(fixed, searched)


def carries(levels: list[LevelSummary]) -> bool:
    """Whether the server is good for a few people."""
    return any(level.decision == "holds" and level.users >= FEW for level in levels)


def said(first: list[LevelSummary], second: list[LevelSummary]) -> tuple[str, list[str]]:
    """The statement, and each measure's ratio and statement over all levels."""
    found = compare(first, second)
    return found.statement, [f"{one.measure} {one.ratio:.3f} {one.statement}" for one in found.overall]


def main() -> None:
    """Run the study, print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--servers", type=int, default=7)
    parser.add_argument("--other-people", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    counts: dict[str, Counter[str]] = {}
    for truth, statement, figures in pairs(options):
        counts.setdefault(truth, Counter())[statement] += 1
        if options.verbose:
            print(f"{truth:12} {statement:14} {'; '.join(figures)}")
    print("\n| truth | pairs | said | share | 95 % interval |\n|---|--:|---|--:|---|")
    for truth, told in counts.items():
        for statement, n in told.most_common():
            total = sum(told.values())
            low, high = clopper_pearson(n, total, 0.95)
            print(f"| {truth} | {total} | {statement} | {n / total:.0%} | {low:.0%} to {high:.0%} |")


if __name__ == "__main__":
    main()
