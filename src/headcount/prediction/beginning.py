"""A start from a path: a calibration file, a run folder that has one, or a run folder that is calibrated now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from headcount.errors import NotTrustedError, RunError
from headcount.prediction.calibration import Told, read_calibration
from headcount.prediction.fitted import check_trust
from headcount.prediction.from_run import calibrate_run, told_of
from headcount.prediction.served import Start
from headcount.prediction.start import start_of_calibration
from headcount.store import open_run

__all__ = ["start_at"]

_FILE = "calibration.toml"


def start_at(
    path: Path,
    *,
    told: Told | None = None,
    workload: Mapping[str, object] | None = None,
    slo: str | tuple[str, ...] | None = None,
) -> tuple[Start, str]:
    """The start and what it is called; ``told`` is what it runs on, where that is not known from it.

    Raises ``RunError`` when there is nothing to start from, ``NotTrustedError`` when it must not be believed.
    """
    if path.is_dir() and not (path / _FILE).is_file():
        run = open_run(path)
        calibration = calibrate_run(run, told or told_of(run.facts))
    elif not path.exists():
        raise RunError(f"{path} is not there", "give a run folder, or the file that headcount calibrate wrote")
    else:
        calibration = read_calibration(path / _FILE if path.is_dir() else path)
    if refused := check_trust(calibration):
        raise NotTrustedError(refused, "calibrate the server itself: headcount calibrate http://HOST:PORT")
    if told is not None:
        calibration = msgspec.structs.replace(calibration, told=told)
    return start_of_calibration(calibration, workload=workload, slo=slo), calibration.source
