"""Nothing foreign can act in the page; it stays small however long the run was, and says all without a script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from headcount.analysis.conclusions import Verdict
from headcount.records import RunFacts, Sample
from headcount.report import Report, write
from headcount.report.figures import people_figures, time_figures
from headcount.report.words import words
from tests.report.invented import (
    ALL,
    EMPTY,
    FACTS,
    HOSTILE,
    HOSTILE_FACTS,
    HOSTILE_VERDICT,
    PLAIN,
    WHOLE,
    altered,
    level,
    stored,
)

ENGLISH = words("en")


class Page(HTMLParser):
    """Elements, attributes, and the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.words = ""
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in self.inside:
            self.inside[self._open][-1] += data
        else:
            self.words += data


def page(tmp_path: Path, verdict: Verdict = PLAIN, facts: RunFacts = FACTS, language: str = "en") -> tuple[str, Page]:
    text = write("html", Report(verdict, facts, stored(tmp_path, verdict, facts), language))
    return text, Page(text)


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_report_asks_nothing_of_the_network(tmp_path: Path, name: str, language: str) -> None:
    """No element loads anything; links stay within the page; the policy forbids all but our own script and style."""
    _, read = page(tmp_path, ALL[name], HOSTILE_FACTS, language)

    for tag, attributes in read.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(attribute.startswith("on") or attribute == "style" for attribute in attributes)


def test_the_policy_names_exactly_what_the_page_holds(tmp_path: Path) -> None:
    """Hashes of the two scripts and the style; data is no script."""
    _, read = page(tmp_path)
    (policy,) = [a["content"] or "" for tag, a in read.elements if tag == "meta" and "http-equiv" in a]

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    data, library, script = read.inside["script"]
    assert f"script-src {hashed(library)} {hashed(script)};" in policy
    assert f"style-src {hashed(read.inside['style'][0])};" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert json.loads(data)


def test_nothing_hostile_becomes_markup(tmp_path: Path) -> None:
    """Model, adapter, condition, error and caution texts stay text, in the page as in the plots' data."""
    text, read = page(tmp_path, HOSTILE_VERDICT, HOSTILE_FACTS)

    assert "<script>alert" not in text
    assert "alert(1)" in read.words
    assert len(read.inside["script"]) == 3
    assert "{{7*7}}" in read.words
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert HOSTILE not in text


def test_secrets_in_a_scenario_are_left_out(tmp_path: Path) -> None:
    """Header values and the user of an address are not for those who get the report."""
    text, _ = page(tmp_path)

    for secret in ("sk-very-secret", "Bearer abc", "hunter2", "somebody"):
        assert secret not in text
    assert "output_tokens = 212" in text


def test_all_is_said_without_a_script(tmp_path: Path) -> None:
    """The answer, the recommended number, how sure, what gives out first, what next, and the tables are plain text."""
    _, read = page(tmp_path)

    for said in (PLAIN.sentence, "36", "44–52 people (95 %)", "request slots", PLAIN.advice[0], "fails TTFT p95"):
        assert said in read.words
    assert sum(tag == "table" for tag, _ in read.elements) >= 4
    assert "The plots need JavaScript" in read.words


def test_an_empty_run_gives_a_page_without_plots(tmp_path: Path) -> None:
    """Killed before its first level: no script at all."""
    _, read = page(tmp_path, EMPTY)

    assert read.inside["script"] == []
    assert "not finished" in read.words


def test_a_report_without_its_run_shows_what_the_verdict_holds() -> None:
    """A verdict alone is enough for the first screen and the plots against people."""
    text = write("html", Report(PLAIN, FACTS))

    assert PLAIN.sentence in text
    assert "One minute" not in text


def test_a_huge_run_stays_small(tmp_path: Path) -> None:
    """200 levels, hours of samples: the page stays below 1.5 MB."""
    many = tuple(level(n, n + 1, "holds" if n < 150 else "fails", miss_fraction=n / 1000) for n in range(200))
    text, _ = page(tmp_path, altered(levels=many))

    assert len(text.encode()) < 1_000_000


def test_lines_over_time_are_thinned_but_true() -> None:
    """However many samples, a few hundred points a line, whose mean is that of the samples."""
    samples = [Sample(float(n), "gpu_power_w", float(n % 100), "GPU-1") for n in range(100_000)]
    (heat,) = time_figures(PLAIN, FACTS, lambda: samples, ENGLISH)
    (power,) = heat["lines"]

    assert len(heat["x"]) == len(power["values"]) <= 400
    assert heat["x"] == sorted(heat["x"])
    values = [value for value in power["values"] if value is not None]
    assert sum(values) / len(values) == pytest.approx(49.5, abs=0.5)


def test_every_line_has_a_value_for_each_point(tmp_path: Path) -> None:
    """Whatever was measured: whole answers, conditions, voided levels."""
    conditions = altered(
        levels=(
            level(0, 8, condition="a"),
            level(1, 8, condition="b"),
            level(2, 16, condition="b"),
            level(3, 4, "void"),
        )
    )
    for verdict in (*ALL.values(), conditions):
        run = stored(tmp_path, verdict)
        for figure in [*people_figures(verdict, FACTS, ENGLISH), *time_figures(verdict, FACTS, run.samples, ENGLISH)]:
            assert figure["lines"]
            assert all(len(line["values"]) == len(figure["x"]) for line in figure["lines"])
            assert figure["x"] == sorted(figure["x"])


def test_whole_answers_are_shown_as_such(tmp_path: Path) -> None:
    """Without a first token there is no plot of it."""
    figures = people_figures(WHOLE, FACTS, ENGLISH)

    assert figures[0]["title"] == "Wait for the whole answer"


def test_simulated_and_void_are_marked(tmp_path: Path) -> None:
    """A badge before the answer; no limit is drawn where there is none."""
    _, read = page(tmp_path, ALL["not-trusted"], msgspec.structs.replace(FACTS, simulated=True))

    assert "simulated" in read.words
    assert "no answer can be trusted" in read.words
    assert all(
        rule["across"] for figure in people_figures(ALL["not-trusted"], FACTS, ENGLISH) for rule in figure["rules"]
    )
