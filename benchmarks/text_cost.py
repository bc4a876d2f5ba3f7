"""What making people's words costs: the share of one load process's CPU at 500 people.

Usage: python benchmarks/text_cost.py [--users 500]. For each persona: microseconds a turn, turns a second that so many
people speak when the server answers at once (an upper bound), and the share of one core. The bar is 5 % for chat.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time

from headcount.workload import PRESETS, make_workload

BAR = 0.05
REPEATS = 5
TTFT_S, USER_TOKENS_PER_S = 0.2, 50.0
"""An answer that is quick for a server with 500 people: slower ones ask for fewer turns."""


def seconds_a_turn(kind: str, language: str, people: int) -> float:
    """CPU seconds of one turn: the median over repeats, two conversations of each person."""
    took_s = []
    for repeat in range(REPEATS):
        workload = make_workload({"kind": kind, "languages": language}, seed=1)
        began_s = time.process_time()
        turns = sum(
            len(conversation.turns)
            for person in range(people)
            for conversation in itertools.islice(workload.conversations(person, f"level {repeat}"), 2)
        )
        took_s.append((time.process_time() - began_s) / turns)
    return statistics.median(took_s)


def main() -> int:
    """Print the table; 1 when chat misses the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=500)
    users = parser.parse_args().users
    missed = False
    print(f"{'persona':14} {'language':8} {'us a turn':>10} {'turns/s':>8} {'of one core':>12}")
    for kind, language in itertools.product(("chat", *PRESETS), ("english", "korean")):
        expected = make_workload({"kind": kind}, seed=1).expected()
        cycle_s = TTFT_S + expected.output_tokens / USER_TOKENS_PER_S + expected.think_s + expected.stage_s
        cost_s = seconds_a_turn(kind, language, people=8 if expected.prompt_tokens > 1000 else 60)
        share = cost_s * users / cycle_s
        missed |= kind == "chat" and share > BAR
        print(f"{kind:14} {language:8} {cost_s * 1e6:10.0f} {users / cycle_s:8.0f} {share:11.2%}")
    print(f"bar: {BAR:.0%} of one core for chat at {users} people: {'missed' if missed else 'met'}")
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
