"""What a server would do that was not measured: constants from a datasheet or a calibration, and levels held in them.

``start_of_file`` (a calibration) and ``start_of_hardware`` (a datasheet) give a ``Start``; ``predict`` and ``limit_of``
tell what it does under a ``Change``. Everything from here is simulated and says so.
"""

from headcount.prediction.figures import Figures
from headcount.prediction.served import Change, Hardware, Served, Start
from headcount.prediction.start import (
    hardware_from,
    start_at,
    start_of_calibration,
    start_of_file,
    start_of_hardware,
)
from headcount.prediction.whatif import Estimate, LimitPrediction, Prediction, limit_of, predict

__all__ = [
    "Change",
    "Estimate",
    "Figures",
    "Hardware",
    "LimitPrediction",
    "Prediction",
    "Served",
    "Start",
    "hardware_from",
    "limit_of",
    "predict",
    "start_at",
    "start_of_calibration",
    "start_of_file",
    "start_of_hardware",
]
