"""What it means for an answer that some of its facts could not be read. Knows nothing of files."""

from __future__ import annotations

from collections.abc import Sequence

from headcount.analysis.conclusions import Caution

__all__ = ["damage_caution"]

NAMED = 5


def damage_caution(places: Sequence[str]) -> Caution:
    """For lines that were left out, each named by its place."""
    named = ", ".join(places[:NAMED]) + (" …" if len(places) > NAMED else "")
    return Caution(
        "damaged-facts",
        f"{len(places)} damaged lines of facts were left out: {named}",
        "figures rest on the other lines; open a whole copy of the run folder where there is one",
    )
