"""Two runs side by side: one plain statement in every format, what is unlike named, nothing foreign active."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from headcount.errors import ScenarioError
from headcount.report import Report
from headcount.report.comparison import COMPARISONS, write_comparison
from headcount.report.versus import SideBySide, side_by_side
from tests.analysis.published import LARGE, SMALL, published
from tests.report.invented import FACTS, HOSTILE, HOSTILE_FACTS, PLAIN, altered, level, report, stored

SLOWER = altered(
    levels=tuple(level(n, users, p95_s=0.02 * users, n=400) for n, users in enumerate((16, 32, 48))),
    limit_users=48,
)
MUCH_SLOWER = altered(
    levels=tuple(
        msgspec.structs.replace(one, e2e_s=msgspec.structs.replace(one.e2e_s, p50=12.0, p95=20.0))
        for one in SLOWER.levels
    ),
    limit_users=20,
)


def both(language: str = "en") -> SideBySide:
    """A run, and one whose answers take three times as long."""
    return beside(report(SLOWER, language=language), report(MUCH_SLOWER, language=language), "before", "after")


def beside(first: Report, second: Report, *names: str) -> SideBySide:
    """Two runs."""
    return side_by_side([first, second], names or ("A", "B"))


def test_a_slower_run_is_called_slower() -> None:
    """With the ratio and its interval, and both limits."""
    text = write_comparison("terminal", both())

    assert text.startswith("after is slower than before. Answers take 2.")
    assert re.search(r"Limit\s+48 people\s+20 people", text)
    assert "worse" in text


def test_the_same_run_twice_is_no_different() -> None:
    """Nothing is claimed where there is nothing."""
    text = write_comparison("markdown", beside(report(SLOWER), report(SLOWER)))

    assert text.startswith("## No difference seen between A and B.")


def test_what_is_unlike_is_named() -> None:
    """Another model and longer answers make another question."""
    facts = msgspec.structs.replace(FACTS, engine=msgspec.structs.replace(FACTS.engine, model="other"))
    longer = tuple(msgspec.structs.replace(one, output_tokens_mean=500.0) for one in SLOWER.levels)
    text = write_comparison("terminal", beside(report(SLOWER), report(altered(levels=longer), facts)))

    assert "other" in text
    assert "the mean of output tokens changed from 212 to 500" in text
    assert text.startswith("Not like with like: ")


def test_runs_that_asked_different_things_are_not_plainly_faster_or_slower() -> None:
    """What the people of each did is held against each other too."""
    both = side_by_side([report(SLOWER), report()], ["A", "B"], asked=["chat", "rag"])
    text = write_comparison("terminal", both)

    assert text.startswith("Not like with like: ")
    assert "what people do changed from chat to rag" in text
    assert not write_comparison("terminal", beside(report(SLOWER), report())).startswith("Not like")


def test_machine_figures_are_compared_too(tmp_path: Path) -> None:
    """Temperature and power, as means over the same people."""
    one = Report(PLAIN, FACTS, stored(tmp_path))
    text = write_comparison("terminal", beside(one, one))

    assert re.search(r"48\s+temperature\s+\d+ °C", text)
    assert re.search(r"48\s+power\s+\d+ W", text)


def test_json_carries_statement_and_ratios() -> None:
    """For a program that must decide."""
    document = json.loads(write_comparison("json", both()))

    (pair,) = document["comparisons"]
    assert pair["statement"] == "worse"
    assert pair["limit_users"] == [48, 20]
    assert {"measure", "ratio", "low_ratio", "high_ratio", "statement"} <= pair["overall"][0].keys()
    assert {one["name"] for one in document["choice"]} == {"before", "after"}


def test_the_page_overlays_both() -> None:
    """One line each, named after its run."""
    text = write_comparison("html", both())
    found = re.search(r'id="figures">(.*?)</script>', text)

    assert found is not None
    assert {line["label"] for line in json.loads(found[1])[0]["lines"]} == {"p95 before", "p95 after"}


def test_the_published_load_test_in_words() -> None:
    """Ratios, heat, and which model for how many people, as it said itself."""
    (small, _), (large, _) = published(SMALL, 82.3e9), published(LARGE, 84.5e9)
    runs = [report(altered(levels=tuple(levels))) for levels in (small, large)]
    text = write_comparison("terminal", side_by_side(runs, ("8B", "32B")))

    assert "32B: answers take 2.97–3.11 times as long (median)." in text
    assert "32B: 0.37–0.43 times the tokens per second." in text
    assert "By how it feels: for 50 people: 8B; up to 20 people: 32B, streamed." in text


def test_three_runs_are_held_against_the_first() -> None:
    """Each in a part of its own, and all curves in one plot."""
    three = side_by_side([report(SLOWER), report(SLOWER), report(MUCH_SLOWER)], ("A", "B", "C"))

    parts = re.split(r"(?m)^(?=No difference|C is)", write_comparison("terminal", three))
    assert [part.partition(".")[0] for part in parts[1:]] == [
        "No difference seen between A and B",
        "C is slower than A",
    ]
    found = re.search(r'id="figures">(.*?)</script>', write_comparison("html", three))
    assert found is not None
    assert len(json.loads(found[1])[0]["lines"]) == 3


@pytest.mark.parametrize("form", list(COMPARISONS))
@pytest.mark.parametrize("language", ["en", "ko"])
def test_names_from_outside_stay_text(form: str, language: str) -> None:
    """Folder names and models are as hostile as anything else."""
    hostile = report(PLAIN, HOSTILE_FACTS, language=language)
    text = write_comparison(form, beside(report(PLAIN, language=language), hostile, HOSTILE, HOSTILE))

    assert "<script>alert" not in text or form in ("json", "terminal")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_runs_without_a_common_level_say_so() -> None:
    """And show no table."""
    text = write_comparison("terminal", beside(report(SLOWER), report(altered(levels=(level(0, 7),)))))

    assert "never held with the same number of people" in text


def test_an_unknown_format_names_the_known_ones() -> None:
    """As reports do."""
    with pytest.raises(ScenarioError) as caught:
        write_comparison("pdf", both())
    assert "markdown" in caught.value.hint
