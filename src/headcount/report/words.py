"""The reader's language: standard gettext catalogues beside this file, English where there is none.

Knows nothing of what is said.
"""

from __future__ import annotations

import gettext
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["LANGUAGES", "Words", "language_of", "people", "words"]

LANGUAGES = ("en", "ko")

Words = Callable[[str], str]
"""From an English text to the reader's."""


def words(language: str) -> Words:
    """The catalogue of a language of ``LANGUAGES``; English texts as they are for any other."""
    catalogues = Path(__file__).parent / "locale"
    return gettext.translation("headcount", catalogues, [language], fallback=True).gettext


def language_of(environ: Mapping[str, str]) -> str:
    """The language of a POSIX locale: ``ko`` for ``ko_KR.UTF-8``, ``en`` for anything we do not speak."""
    locale = environ.get("LC_ALL") or environ.get("LC_MESSAGES") or environ.get("LANG") or ""
    spoken = locale[:2].lower()
    return spoken if spoken in LANGUAGES else "en"


def people(n: int, _: Words) -> str:
    """A number of people in words."""
    return _("1 person") if n == 1 else _("{n} people").format(n=n)
