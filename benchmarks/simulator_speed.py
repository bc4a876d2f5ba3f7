"""Simulated requests a second of the core alone, in strides and step by step, and how far the two differ.

python benchmarks/simulator_speed.py [--people 100] [--minutes 60]
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from itertools import islice

from headcount.simulator.cost import Cost
from headcount.simulator.drive import Person, drive
from headcount.simulator.job import Job
from headcount.simulator.policy import vllm
from headcount.simulator.server import Server

COST = Cost(0.003, 0.006, 0.00004, 0.00005, 1e-7, 1.5e-9)
LEAST_PER_S, MOST_APART_S = 30_000, 1e-9
POLICY = vllm(slots=256, pool_tokens=400_000, context_tokens=8192)


def person(number: int) -> Person:
    """Conversations of 2 to 4 turns with their history, answers of 100 to 300 tokens, 4 to 12 s of thought."""
    rng = random.Random(number)
    key, pause_s = number << 32, rng.uniform(0.0, 12.0)
    while True:
        path: tuple[tuple[int, int], ...] = ()
        length = 0
        for _ in range(rng.randint(2, 4)):
            prompt, answer = rng.randint(30, 90), rng.randint(100, 300)
            key += 2
            length += prompt
            path = (*path, (key, length))
            yield pause_s, Job(length, answer, path=path, answer_key=key + 1)
            length += answer
            path = (*path, (key + 1, length))
            pause_s = rng.uniform(4.0, 12.0)


def measure(people: int, minutes: float, single_steps: bool) -> tuple[float, list[float]]:
    """Requests a second of processor time, and the ends of all answers."""
    server = Server(COST, POLICY, single_steps=single_steps)
    most = int(minutes * 60.0 / 6.0) + 50
    crowd = [iter(list(islice(person(n), most))) for n in range(people)]  # drawing them is not the core's work
    gc.collect()
    gc.freeze()
    began_s = time.process_time()
    jobs = drive(server, crowd, minutes * 60.0)
    used_s = time.process_time() - began_s
    gc.unfreeze()
    return len(jobs) / used_s, [job.ended_at_s or 0.0 for job in jobs]


def main() -> int:
    """Print both speeds and the largest difference of an answer's end; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60.0)
    asked = parser.parse_args()
    speed, ends = max((measure(asked.people, asked.minutes, False) for _ in range(3)), key=lambda found: found[0])
    slow_speed, slow_ends = measure(asked.people, asked.minutes / 10, True)
    worst_s = max(abs(a - b) for a, b in zip(ends, slow_ends, strict=False))
    print(f"{asked.people} people, {asked.minutes:g} simulated minutes, {len(ends)} requests")
    print(f"strides      {speed:9,.0f} requests/s (best of 3)")
    print(f"single steps {slow_speed:9,.0f} requests/s")
    print(f"largest difference of an end {worst_s:.1e} s")
    held = speed >= LEAST_PER_S and worst_s <= MOST_APART_S
    print(f"{'pass' if held else 'FAIL'}: at least {LEAST_PER_S:,} requests/s, at most {MOST_APART_S:g} s apart")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
