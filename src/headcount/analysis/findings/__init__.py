"""What an experiment shows: its conditions' levels in, sentences out. One module an experiment, table ``FINDINGS``.

Pure, and careful: nothing is said to differ that the intervals do not tell apart. Knows nothing of how the levels were
held and of how the sentences are shown.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from headcount.analysis.findings.evidence import Evidence, Finding

__all__ = ["FINDINGS", "PARTS", "find"]

FINDINGS: dict[str, str] = {
    "": "headcount.analysis.findings.plain:find",
    "adapters": "headcount.analysis.findings.adapters:find",
    "burst": "headcount.analysis.findings.burst:find",
    "cold-start": "headcount.analysis.findings.cold_start:find",
    "context": "headcount.analysis.findings.context_length:find",
    "interference": "headcount.analysis.findings.interference:find",
    "lengths": "headcount.analysis.findings.lengths:find",
    "models": "headcount.analysis.findings.models:find",
    "power": "headcount.analysis.findings.power:find",
    "streaming": "headcount.analysis.findings.streaming:find",
}
"""By the ``experiment`` of a scenario; the empty one for conditions of one's own, and for names not known here."""

PARTS = {"adapters": "adapter", "interference": "persona"}
"""By which field of its requests an experiment's levels are taken apart as well."""


def find(experiment: str, evidence: Evidence) -> Finding:
    """What the conditions of a run show."""
    module, _, name = FINDINGS.get(experiment, FINDINGS[""]).partition(":")
    function: Callable[[Evidence], Finding] = getattr(importlib.import_module(module), name)
    return function(evidence)
