"""Terminal, Markdown and JSON: golden files for the plain case, no harm from the hostile one, no fault in any."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest

from headcount.analysis.conclusions import Caution
from headcount.errors import ScenarioError
from headcount.report import FORMATS, as_json, write
from headcount.report.outline import caution_groups, next_steps, warned_at
from headcount.report.words import words
from tests.report.invented import (
    ALL,
    EMPTY,
    FACTS,
    HOSTILE_FACTS,
    HOSTILE_VERDICT,
    NOT_TRUSTED,
    PLAIN,
    altered,
    level,
    report,
)

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))


def expect(file: Path, text: str) -> None:
    """``text`` is what the golden file holds; ``UPDATE_GOLDEN=1 pytest`` writes it anew, for review as a diff."""
    if UPDATE:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["plain", "whole", "not-trusted", "hostile"])
@pytest.mark.parametrize(("form", "ending"), [("terminal", "txt"), ("markdown", "md")])
def test_text_is_as_reviewed(name: str, form: str, ending: str) -> None:
    """What people read changes only on purpose."""
    facts = HOSTILE_FACTS if name == "hostile" else FACTS

    expect(GOLDEN / f"{name}.{ending}", write(form, report(ALL[name], facts)))


def test_json_is_as_reviewed() -> None:
    """What programs read changes only on purpose."""
    expect(GOLDEN / "plain.json", write("json", report()))


def test_the_published_schema_is_the_types() -> None:
    """docs/reference/report.schema.json comes from the Struct that is written."""
    expect(SCHEMA, json.dumps(as_json.schema(), indent=2) + "\n")


@pytest.mark.parametrize("name", list(ALL))
def test_every_json_report_follows_the_schema(name: str) -> None:
    """And has the keys that other programs were promised."""
    document = json.loads(write("json", report(ALL[name], HOSTILE_FACTS)))

    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    promised = {"limit_users", "limit_interval_users", "recommended_users", "fails_at_users", "cause", "slo"}
    assert promised | {"levels", "cautions", "simulated", "schema_version"} <= document.keys()


def test_json_knows_no_nan() -> None:
    """A number that is not finite becomes null, so that every parser can read the rest."""
    odd = msgspec.structs.replace(level(0, 4), in_flight_mean=float("nan"), littles_users=float("inf"))
    text = write("json", report(altered(levels=(odd,), knee_users=float("nan"))))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    document = json.loads(text, parse_constant=refuse)
    assert document["levels"][0]["in_flight_mean"] is None


@pytest.mark.parametrize("form", list(FORMATS))
@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("language", ["en", "ko"])
def test_no_terminal_escape_gets_through(form: str, name: str, language: str) -> None:
    """No control character but newlines, no bidi override, whatever a server said."""
    text = write(form, report(ALL[name], HOSTILE_FACTS, language=language))

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
@pytest.mark.parametrize("name", list(ALL))
def test_a_terminal_report_fits_its_width(name: str, width: int) -> None:
    """No line is longer than the terminal is wide."""
    text = write("terminal", report(ALL[name], HOSTILE_FACTS, width=width))

    assert max(map(len, text.splitlines())) <= width


def test_the_plain_answer_fits_a_usual_terminal() -> None:
    """At 80 columns no column is cut, and all is said in 21 lines beside cautions and advice."""
    text = write("terminal", report(altered(cautions=(), advice=()), width=80))

    assert "fails TTFT p95" in text
    assert len(text.splitlines()) <= 21


def test_simulated_is_said_in_the_first_line() -> None:
    """Nobody takes a simulated answer for a measured one."""
    facts = msgspec.structs.replace(FACTS, simulated=True)

    for form in ("terminal", "markdown"):
        assert "simulated" in write(form, report(PLAIN, facts)).splitlines()[0]
    assert json.loads(write("json", report(PLAIN, facts)))["simulated"] is True


def test_where_it_fails_is_said_of_what_failed_and_else_it_is_probable() -> None:
    """The line names the clause and the share; a level that was not decided is not said to fail."""
    undecided = tuple(
        msgspec.structs.replace(one, decision="undecided") if one.users == 52 else one for one in PLAIN.levels
    )
    text = write("terminal", report(altered(levels=undecided)))

    assert "Fails at         52 people: 8.3 % miss TTFT p95" in write("terminal", report())
    assert "Probably fails at  52 people, not decided: 8.3 % miss TTFT p95" in text
    assert "Fails at" not in text


def test_without_advice_the_cautions_say_what_next() -> None:
    """And without cautions there is still something to do."""
    assert next_steps(altered(advice=()), words("en")) == [PLAIN.cautions[0].remedy]
    assert next_steps(altered(advice=(), cautions=()), words("en"))[0].startswith("Measure again")


def test_a_remedy_names_what_its_reader_had_given() -> None:
    """Flags to who gave flags, keys to who measured by a scenario file; in Korean too."""
    short = Caution("too-few-requests", "3 requests were counted", "hold the level longer (--level-time)")
    by_file = msgspec.structs.replace(FACTS, verb="run")

    for form, language in (("terminal", "en"), ("markdown", "en"), ("html", "ko")):
        flags = write(form, report(altered(cautions=(short,)), language=language))
        keys = write(form, report(altered(cautions=(short,)), by_file, language=language))
        assert "--level-time" in flags.replace("\\", "")
        assert "search.level_time_s" in keys.replace("\\", "")
        assert "--level-time" not in keys.replace("\\", "")


def test_one_person_is_told_as_one() -> None:
    """Sentences of the analysis count in the plural, and are told in the number there was."""
    alone = altered(cause_sentence="The server's slots give out at 1 people: 1 requests ran.")

    assert "give out at 1 person: 1 request ran" in write("terminal", report(alone))


def test_an_unfinished_run_says_so_first() -> None:
    """Interrupted or killed: the first line carries it."""
    assert write("terminal", report(EMPTY)).startswith("not finished")


def test_a_fatal_caution_comes_before_all_others() -> None:
    """And what it voids is marked in the table."""
    text = write("terminal", report(altered(cautions=PLAIN.cautions + NOT_TRUSTED.cautions)))

    assert text.index("event loop was late") < text.index("Prompts stopped growing")


FAR = tuple(
    Caution("queue-never-empty", f"the server's queue was never empty ({n} waiting)", "fewer people", level=level)
    for level, n in ((3, 40), (5, 3))
)
"""What stands at 64 and 52 people, where the limit is 48."""


def test_cautions_far_from_the_limit_do_not_drown_those_at_it() -> None:
    """After what concerns the answer, named after their people, with the figures of all their levels; a terminal only
    counts them."""
    groups = caution_groups(altered(cautions=FAR + PLAIN.cautions))
    assert [(one.caution.code, one.users, one.near) for one in groups] == [
        ("truncated-prompts", (), True),
        ("queue-never-empty", (52, 64), False),
    ]
    text = write("terminal", report(altered(cautions=FAR + PLAIN.cautions)))
    assert "… and 1 more" in text
    assert "queue" not in text
    text = write("markdown", report(altered(cautions=FAR + PLAIN.cautions)))
    assert "at 52 and 64 people: the server's queue was never empty (3–40 waiting)" in text.replace("\\", "")


def test_a_caution_of_several_levels_shows_no_level_s_figures_for_another() -> None:
    """Where sentences differ in more than figures the limit's own is told, and at which levels the like stands."""
    at_limit = msgspec.structs.replace(FAR[0], level=4, sentence="http_503 at the limit")
    (group,) = caution_groups(altered(cautions=(*FAR, at_limit)))
    assert (group.caution.sentence, group.users, group.near) == ("http_503 at the limit", (48, 52, 64), True)
    assert warned_at(group, words("en")) == "at 48 people (likewise at 52 and 64)"
    assert warned_at(group, words("ko")) == "48명에서 (52, 64명에서도 비슷함)"

    other = msgspec.structs.replace(at_limit, level=5, sentence="http_429 at the limit")
    (group,) = caution_groups(altered(cautions=(other, at_limit)))
    assert group.caution.sentence == "http_503 at the limit"


def test_markdown_from_outside_stays_text() -> None:
    """No link, image, code or tag of a server's making."""
    text = write("markdown", report(HOSTILE_VERDICT, HOSTILE_FACTS))

    assert not re.search(r"(?<!\\)[\[\]<>`]", text)
    assert "@" not in text


def test_an_unknown_format_names_the_known_ones() -> None:
    """And a plug-in is module:function."""
    with pytest.raises(ScenarioError) as caught:
        write("pdf", report())
    assert "markdown" in caught.value.hint
    assert write("headcount.report.as_json:write", report()) == write("json", report())
