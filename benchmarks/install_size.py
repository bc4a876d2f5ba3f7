"""How much disk a plain install takes: a fresh virtual environment with headcount and pip in it.

Prints the total and the largest packages; exits 1 above the bar. Needs a package index.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

BAR_MB = 150
ROOT = Path(__file__).parent.parent


def megabytes(path: Path) -> float:
    """Size on disk of ``path`` and all below it, in units of 10^6 bytes; links count as links."""
    files = [path, *path.rglob("*")]
    return sum(file.lstat().st_blocks * 512 for file in files) / 1e6


def main() -> int:
    """Install, measure, compare."""
    with tempfile.TemporaryDirectory(prefix="headcount-size-") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROOT], check=True)
        total_mb = megabytes(Path(folder))
        site_packages = next(Path(folder).glob("lib/python*/site-packages"))
        largest = sorted(((megabytes(part), part.name) for part in site_packages.iterdir()), reverse=True)[:8]
    passed = total_mb < BAR_MB
    print(f"{'pass' if passed else 'FAIL'}: a core install takes {total_mb:.0f} MB, bar {BAR_MB} MB")
    print("      " + ", ".join(f"{name} {size_mb:.0f}" for size_mb, name in largest))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
