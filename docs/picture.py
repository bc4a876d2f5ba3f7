"""The picture of a report that the README shows, from a run folder.

    python docs/picture.py runs/2026-12-01T10-14-03-demo

Needs Chromium and playwright (``pip install --group browser``). Writes docs/pictures/report.png, under 200 kB, in the
light theme: the first screen and the first plots. Refuses a simulated run, since the picture is called real.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

import headcount

PICTURE = Path(__file__).parent / "pictures" / "report.png"
WIDTH, HEIGHT = 1000, 1240
MOST_BYTES = 200_000


def main(folder: str) -> int:
    """Render, look at its size, write it."""
    run = headcount.open_run(folder)
    if run.facts.simulated:
        print(f"{folder} is simulated: take a run of a real server")
        return 1
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.set_content(run.report("html"))
        tab.wait_for_selector(".uplot canvas")
        picture = tab.screenshot(type="png")
        browser.close()
    if len(picture) > MOST_BYTES:
        print(f"the picture has {len(picture):,} bytes, more than {MOST_BYTES:,}")
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(picture)
    print(f"{PICTURE} written, {len(picture):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
