"""A report of 200 levels and a million requests: how large its page is, how long it takes to make and to open.

    python benchmarks/report_page.py            the claim: under 1.5 MB, opened in under 2 s
    python benchmarks/report_page.py --quick    20 levels of 500 requests: the page alone, in seconds

Opening needs Chromium and playwright (``pip install --group browser``) and is left out without them. Exits 1 above a
bar.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from headcount.codec import encode_request
from headcount.records import FORMAT_VERSION, EngineFacts, Gpu, Level, Request, RunFacts, Sample
from headcount.report import save_html
from headcount.review import review
from headcount.store import RunWriter, open_run

BAR_BYTES = 1_500_000
BAR_OPEN_S = 2.0
LEVEL_S = 60.0
SLO = ("ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s", "errors <= 1 %")
SCENARIO = 'name = "large"\n[search]\nlevels = [1]\n'


def made(folder: Path, levels: int, each: int) -> Path:
    """A run folder whose requests all differ in their times."""
    chance = random.Random(1)
    facts = RunFacts(
        format_version=FORMAT_VERSION,
        headcount_version="0.1.0",
        verb="find",
        started_utc="2026-12-01T10:14:03Z",
        seed=1,
        engine=EngineFacts(engine="vllm", version="0.11.2", model="Qwen/Qwen3-8B-AWQ"),
        slo=SLO,
        gpus=(Gpu(uuid="GPU-1", name="NVIDIA H200", power_limit_w=700.0, temperature_slowdown_c=87.0),),
    )
    with RunWriter.create(folder, "large", facts, SCENARIO) as writer:
        for index in range(levels):
            began_at_s = index * LEVEL_S
            writer.level(
                Level(
                    index=index,
                    users=index + 1,
                    began_at_s=began_at_s,
                    started_at_s=began_at_s,
                    stopped_at_s=began_at_s + LEVEL_S,
                    ended="time",
                )
            )
            writer.requests(b"".join(encode_request(one(index, place, each, chance)) for place in range(each)), 1)
            writer.samples(
                [
                    Sample(began_at_s + second, name, chance.uniform(0.0, 100.0), of)
                    for second in range(int(LEVEL_S))
                    for name, of in (
                        ("server_running_requests", ""),
                        ("gpu_power_w", "GPU-1"),
                        ("gpu_temperature_c", "GPU-1"),
                    )
                ]
            )
    return writer.path


def one(index: int, place: int, each: int, chance: random.Random) -> Request:
    """One request of a level."""
    at_s = index * LEVEL_S + LEVEL_S * place / each * 0.9
    first_at_s = at_s + chance.uniform(0.05, 0.01 * (index + 10))
    return Request(
        level=index,
        person=place % (index + 1) + 1,
        conversation=place // (index + 1),
        turn=place % 4 + 1,
        scheduled_at_s=at_s,
        ended_at_s=first_at_s + 1.0,
        chunk_at_s=[first_at_s, first_at_s + 0.5, first_at_s + 1.0],
        prompt_tokens=200,
        output_tokens=50,
        token_source="server",
        adapter=f"adapter-{place % 5}",
        persona=("student", "clerk", "agent")[place % 3],
    )


def opened_s(page: Path) -> float | None:
    """Seconds until Chromium has loaded the page and drawn its plots; None where that cannot be tried."""
    chromium = shutil.which("chromium")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.as_uri())
        loaded_s: float = tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
        browser.close()
    return loaded_s


def main() -> int:
    """Make the folder, the page, open it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 levels of 500 requests")
    levels, each = (20, 500) if parser.parse_args().quick else (200, 5000)
    with tempfile.TemporaryDirectory(prefix="headcount-bench-") as folder:
        path = made(Path(folder), levels, each)
        began_s = time.perf_counter()
        run = open_run(path)
        page = save_html(review(run), run.facts, path, "en")
        took_s = time.perf_counter() - began_s
        size = page.stat().st_size
        loaded_s = opened_s(page)
    passed = size <= BAR_BYTES and (loaded_s is None or loaded_s <= BAR_OPEN_S)
    opening = "not opened: no Chromium" if loaded_s is None else f"opened in {loaded_s:.2f} s, bar {BAR_OPEN_S:g} s"
    print(
        f"{'pass' if passed else 'FAIL'}: report of {levels} levels and {levels * each:,} requests: "
        f"{size / 1e6:.2f} MB, bar {BAR_BYTES / 1e6:g} MB; {opening}; made in {took_s:.0f} s"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
