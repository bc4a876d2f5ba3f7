"""The frame of every page: one file, our own script and style with their hashes, plots' data embedded safely.

Knows nothing of what a page says.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from headcount.report.figures import Figure
from headcount.report.words import words

__all__ = ["page"]

_HERE = Path(__file__).parent


def page(template: str, language: str, figures: Sequence[Figure], said: Mapping[str, Any]) -> str:
    """Fill a template. Everything in ``said`` is escaped; wide figures are those over time, and the last of an odd
    number of others."""
    style = _read("vendor/uplot/uPlot.min.css") + _read("templates/report.css")
    library, script = _read("vendor/uplot/uPlot.iife.min.js"), _read("templates/report.js")
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return templates.get_template(template).render(
        said,
        _=words(language),
        language=language,
        policy=_policy(style, library, script),
        style=Markup(style),
        library=Markup(library),
        script=Markup(script),
        data=Markup(_embeddable(figures)),
        figures=figures,
        n_people_figures=sum(figure["x_unit"] != "time" for figure in figures),
    )


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _policy(style: str, *scripts: str) -> str:
    """Nothing but our own style and scripts, by their hashes; no network, no frames, no forms."""
    hashes = " ".join(_hash(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embeddable(data: object) -> str:
    """JSON that cannot end its script element or open another."""
    text = msgspec.json.encode(data).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
