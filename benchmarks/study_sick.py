"""How surely is a sick run told from a healthy one? The tests of tests/analysis/test_sick_runs.py, over many seeds.

    python benchmarks/study_sick.py [--seeds 20]

Every test that takes a seed is one kind of run: a server or a client with one fault, or with none. Seeds begin at 100,
so that none of those is used on which the tests pass.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
from pathlib import Path

FIRST_SEED = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.analysis import test_sick_runs

    for name, test in vars(test_sick_runs).items():
        if not name.startswith("test_") or set(inspect.signature(test).parameters) != {"tmp_path", "seed"}:
            continue
        right = 0
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    test(Path(folder), seed)
                    right += 1
                except AssertionError:
                    pass
        print(f"{name.removeprefix('test_').replace('_', ' '):60} {right} of {len(seeds)}", flush=True)


if __name__ == "__main__":
    main()
