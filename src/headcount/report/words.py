"""The reader's language: standard gettext catalogues beside this file, English where there is none.

Sentences that arrive finished, with their numbers in them (cautions, causes, advice), are recognised by their
pattern: the catalogue has them with ``{0}``, ``{1}`` … where the numbers stand. Knows nothing of what is said.
"""

from __future__ import annotations

import functools
import gettext
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from headcount.analysis.comfort import BANDS

__all__ = ["LANGUAGES", "VALUES", "Words", "language_of", "people", "words", "words_for"]

LANGUAGES = ("en", "ko")

VALUES = (
    *("english", "korean"),
    *("holds", "fails", "undecided", "void"),
    *BANDS,
    *("rose", "fell"),
    *("stable", "grows"),
    *("probe", "bracket", "refine", "confirm", "burst", "soak", "fixed", "measure"),
    *("as they like", "all at once", "as agents", "alone", "beside documents", "left alone", "started anew"),
    *("short", "medium", "long", "base", "1 adapter", "{0} adapters"),
)
"""Words that come as values of a level or within a finished sentence, so that no call of ``words`` names them."""

Words = Callable[[str], str]
"""From an English text to the reader's."""

_HOLE = re.compile(r"\{\d+\}")
_Pattern = tuple[list[str], str]
"""The fixed pieces of an English sentence, and the translation with its numbered holes."""


@functools.cache
def words(language: str) -> Words:
    """The catalogue of a language of ``LANGUAGES``; English texts as they are for any other."""
    catalogues = Path(__file__).parent / "locale"
    translation = gettext.translation("headcount", catalogues, [language], fallback=True)
    if not isinstance(translation, gettext.GNUTranslations):
        return _english
    known: dict[str, str] = {key: text for key, text in translation._catalog.items() if key and isinstance(key, str)}  # type: ignore[attr-defined]
    patterns = [(_HOLE.split(key), text) for key, text in known.items() if _HOLE.search(key)]
    # The one that fixes most is tried first: it says the most precisely what was meant.
    patterns.sort(key=lambda pattern: -sum(map(len, pattern[0])))
    return lambda text: _PERCENT.sub(r"\1 %", _said(known, patterns, text))


KEYS = {
    "--level-time": "search.level_time_s",
    "--max-time": "search.max_time_s",
    "--max-users": "search.max_users",
    "--resolution": "search.resolution",
    "--processes": "processes",
    "--slo": "slo",
}
"""What a scenario file calls what flags say."""
_FLAG = re.compile("|".join(KEYS))


def words_for(verb: str, language: str) -> Words:
    """As ``words``; to who measured by a scenario file (``headcount run``) a flag is named by the file's key."""
    said = words(language)
    return said if verb != "run" else lambda text: _FLAG.sub(lambda flag: KEYS[flag[0]], said(text))


def language_of(environ: Mapping[str, str]) -> str:
    """The language of a POSIX locale: ``ko`` for ``ko_KR.UTF-8``, ``en`` for anything we do not speak."""
    locale = environ.get("LC_ALL") or environ.get("LC_MESSAGES") or environ.get("LANG") or ""
    spoken = locale[:2].lower()
    return spoken if spoken in LANGUAGES else "en"


def people(n: int, _: Words) -> str:
    """A number of people in words."""
    return _("1 person") if n == 1 else _("{n} people").format(n=n)


_ONE = re.compile(r"(?<![\w.,–-])1 (damaged )?(people|requests|answers|times|errors|levels|slots|turns|lines)\b")
_PERCENT = re.compile(r"(\d)%")
_SINGULAR = {"people": "person"}


def _english(text: str) -> str:
    """Finished sentences count in the plural.

    >>> _english("slots give out at 1 people: 1 requests of 11 people")
    'slots give out at 1 person: 1 request of 11 people'
    """
    text = _PERCENT.sub(r"\1 %", text)
    return _ONE.sub(lambda one: f"1 {one[1] or ''}{_SINGULAR.get(one[2], one[2].removesuffix('s'))}", text)


def _said(known: dict[str, str], patterns: list[_Pattern], text: str) -> str:
    """The translation of a text, of its pattern, or of what stands before its colon or its last brackets; the text
    itself when none is known."""
    if text in known or not text:
        return known.get(text, text)
    for pieces, translation in patterns:
        filled = _between(pieces, text)
        if filled is not None:
            numbered = {f"{{{n}}}": _said(known, patterns, value) for n, value in enumerate(filled)}
            return _HOLE.sub(lambda hole, numbered=numbered: numbered[hole[0]], translation)  # type: ignore[misc]
    if text.endswith(".") and not text.endswith("..") and (said := _said(known, patterns, text[:-1])) != text[:-1]:
        # A sentence may end with what stands elsewhere in the middle of one.
        return said + ("" if said.endswith(".") else ".")
    bracket = text.rfind(" (")
    if bracket > 0 and (said := _said(known, patterns, text[bracket:])) != text[bracket:]:
        return _said(known, patterns, text[:bracket]) + said
    advice, colon, detail = text.partition(": ")
    return f"{known[advice]}: {_said(known, patterns, detail)}" if colon and advice in known else text


def _between(pieces: list[str], text: str) -> list[str] | None:
    """What stands in a text between fixed pieces; None when they are not there in this order.

    Each piece is taken where it comes first, so that the time is linear in the text, whoever wrote it.
    """
    first, *middle, last = pieces
    end = len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last) or end < len(first):
        return None
    found, at = [], len(first)
    for piece in middle:
        place = text.find(piece, at, end)
        if place < 0:
            return None
        found.append(text[at:place])
        at = place + len(piece)
    return [*found, text[at:end]]
