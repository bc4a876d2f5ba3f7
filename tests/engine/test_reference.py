"""The engines' reference page is what their tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_page_is_up_to_date() -> None:
    """Made from the code; every fact it names is a field of ``EngineFacts``."""
    checked = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "engines.py"), "--check"], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
