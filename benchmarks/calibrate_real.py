"""A real server, calibrated in a minute, then two levels of people that were not used: predicted and measured.

    python benchmarks/calibrate_real.py http://127.0.0.1:8000 [--users 4,8] [--workload short] [--level-time 90]

The prediction knows the calibration, what people are asked to say and how long answers were: their lengths are taken
from the measured levels (a model ends when it likes), their times are not. Bars: median answer and tokens a second
within 10 %, p95 of TTFT within 20 %. Needs a machine that nobody else uses; exit 1 beyond a bar, 5 when the server
cannot be calibrated.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from headcount.measure import Outcome, measure
from headcount.prediction import Change, Start, limit_of, predict, start_of_calibration
from headcount.prediction.asking import calibrate_server
from headcount.prediction.calibration import write_calibration
from headcount.prediction.checking import capacity
from headcount.prediction.fitted import check_trust
from headcount.prediction.served import quantile_shares
from headcount.prediction.showing import calibration_text
from headcount.report.progress import Progress
from headcount.review import scenario_of
from headcount.scenario import EngineOptions, make_scenario
from headcount.store import open_run

BARS = {"answer p50": 0.10, "tokens/s": 0.10, "TTFT p95": 0.20}


def measured(url: str, workload: str, users: tuple[int, ...], level_time_s: float, folder: Path) -> Outcome:
    """Levels of so many people on the real server."""
    scenario = make_scenario(
        {
            "name": "calibrate-real",
            "engine": {"url": url},
            "workload": {"kind": workload},
            "search": {"levels": list(users), "level_time_s": level_time_s, "burst": False},
        }
    )
    with Progress(line_every_s=15.0) as progress:
        outcome = measure(scenario, verb="run", out=folder, api_key=None, watcher=progress, agree=lambda _: True)
    assert outcome is not None
    return outcome


def as_answered(start: Start, outcome: Outcome) -> Start:
    """The start with the people of the run: words as they cost, answers as long as they were."""
    run = open_run(outcome.path)
    shares = [
        request.output_tokens / request.max_output_tokens
        for request in run.requests()
        if request.error is None and request.output_tokens and request.max_output_tokens
    ]
    return msgspec.structs.replace(
        start,
        workload=scenario_of(run).workload,
        answer_share=quantile_shares(shares),
        template_tokens=run.facts.template_tokens,
    )


def compare(start: Start, outcome: Outcome) -> bool:
    """Print each level; whether all are within the bars."""
    within = True
    print(
        f"{'people':>6}  {'n':>4}  {'figure':12} {'predicted':>10} {'90 % interval':>19} {'measured':>10} {'error':>7}"
    )
    for level in outcome.verdict.levels:
        prediction = predict(start, Change(), level.users)
        rows = {
            "answer p50": (prediction.e2e_p50_s, level.e2e_s.p50),
            "tokens/s": (prediction.output_tokens_per_s, level.output_tokens_per_s),
            "TTFT p95": (prediction.ttft_p95_s, level.ttft_s.p95),
        }
        for name, (estimate, seen) in rows.items():
            if estimate is None or not seen:
                print(f"{level.users:6}  {level.n_requests:4}  {name:12} cannot be compared")
                within = False
                continue
            error = estimate.value / seen - 1.0
            good = abs(error) <= BARS[name]
            within &= good
            interval = f"{estimate.low:.3f}-{estimate.high:.3f}"
            print(
                f"{level.users:6}  {level.n_requests:4}  {name:12} {estimate.value:10.3f} {interval:>19} {seen:10.3f} "
                f"{error:+7.1%}{'' if good else f'  beyond {BARS[name]:.0%}'}"
            )
    return within


def main() -> int:
    """Calibrate, predict, measure, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--users", help="levels of people (default: half of the places and nine tenths of them)")
    parser.add_argument("--workload", default="short")
    parser.add_argument("--level-time", type=float, default=90.0)
    options = parser.parse_args()
    calibration = asyncio.run(calibrate_server(EngineOptions(url=options.url), None, progress=print))
    refused = check_trust(calibration)
    print(calibration_text("terminal", calibration, refused))
    if refused:
        print(refused)
        return 5
    places = capacity(calibration.cost, calibration.policy)
    users = tuple(sorted({max(1, round(0.5 * places)), max(1, round(0.9 * places))}))
    if options.users:
        users = tuple(int(text) for text in options.users.split(","))
    with tempfile.TemporaryDirectory() as folder:
        write_calibration(calibration, Path(folder) / "calibration.toml")
        outcome = measured(options.url, options.workload, users, options.level_time, Path(folder))
        start = as_answered(start_of_calibration(calibration), outcome)
        limit = limit_of(start, Change())
        print(
            f"predicted limit: {limit.limit_users} people ({limit.low_users}-{limit.high_users}), binds: {limit.binds}"
        )
        return 0 if compare(start, outcome) else 1


if __name__ == "__main__":
    sys.exit(main())
