"""Reports speak English and Korean: no text is missing, no placeholder is lost, nothing foreign breaks a pattern."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from headcount.report.words import LANGUAGES, VALUES, language_of, people, words
from tests.report.invented import HOSTILE

SOURCE = Path(__file__).parents[2] / "src" / "headcount"
LOCALE = SOURCE / "report" / "locale"
HOLE = re.compile(r"\{\w*\}")

OTHERS = [language for language in LANGUAGES if language != "en"]


def catalogue(language: str) -> dict[str, str]:
    with (LOCALE / language / "LC_MESSAGES" / "headcount.po").open("rb") as file:
        return {str(message.id): str(message.string) for message in read_po(file) if message.id}


def texts_of_reports() -> Iterator[str]:
    """Everything given to ``_`` in the report's modules and templates, and by the verbs that talk themselves."""
    for path in (
        *(SOURCE / "report").rglob("*.py"),
        SOURCE / "replicas" / "showing.py",
        SOURCE / "prediction" / "showing.py",
        SOURCE / "deployment" / "showing.py",
        SOURCE / "check.py",
        SOURCE / "preview.py",
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_":
                for argument in ast.walk(node.args[0]):
                    if (
                        isinstance(argument, ast.Constant)
                        and isinstance(argument.value, str)
                        and node.args[0] is argument
                    ):
                        yield argument.value
    for path in (SOURCE / "report").rglob("*.j2"):
        yield from re.findall(r'_\("([^"]+)"\)', path.read_text())
    yield from VALUES


def texts_of_analysis() -> Iterator[str]:
    """Every sentence of the judging half and of plans: all their strings of several words that are no docstrings."""
    plans = [SOURCE / "deployment" / f"{name}.py" for name in ("capacity", "power_advice", "proof", "statements")]
    for path in (*(SOURCE / "analysis").rglob("*.py"), *plans):
        tree = ast.parse(path.read_text())
        silent = {id(part) for node in ast.walk(tree) for part in unspoken(node)}
        for node in ast.walk(tree):
            if id(node) in silent:
                continue
            text = sentence(node)
            if text is not None and " " in text and re.search("[A-Za-z]{2,}", text):
                yield text


def unspoken(node: ast.AST) -> Iterator[ast.AST]:
    """What is not shown to anybody: docstrings, messages of exceptions, and the pieces of a whole f-string."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.Raise | ast.Assert):
        yield from ast.walk(node)
    if isinstance(node, ast.JoinedStr):
        yield from (piece for piece in node.values if isinstance(piece, ast.Constant))
        yield from (
            piece.format_spec for piece in node.values if isinstance(piece, ast.FormattedValue) and piece.format_spec
        )


def sentence(node: ast.AST) -> str | None:
    """A string, or an f-string with numbered holes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    holes = iter(range(len(node.values)))
    return "".join(
        str(piece.value) if isinstance(piece, ast.Constant) else f"{{{next(holes)}}}" for piece in node.values
    )


@pytest.mark.parametrize("language", OTHERS)
def test_no_text_is_missing(language: str) -> None:
    """Whatever a report or the analysis can say is in the catalogue."""
    known = catalogue(language)
    said = {*texts_of_reports(), *texts_of_analysis()}

    assert sorted(text for text in said if not known.get(text)) == []


@pytest.mark.parametrize("language", OTHERS)
def test_nothing_is_translated_that_nobody_says(language: str) -> None:
    """What was removed from the code is removed from the catalogue."""
    assert sorted(catalogue(language).keys() - {*texts_of_reports(), *texts_of_analysis()}) == []


@pytest.mark.parametrize("language", OTHERS)
def test_placeholders_are_kept(language: str) -> None:
    """Each translation has the holes of its original, in whatever order; an English plural's may be left out."""
    for original, translation in catalogue(language).items():
        holes, kept = set(HOLE.findall(original)), set(HOLE.findall(translation))
        plurals = set(re.findall(r"(?<=time)\{\d\}", original))
        assert holes - plurals <= kept <= holes, original


@pytest.mark.parametrize("language", OTHERS)
def test_the_compiled_catalogue_is_fresh(language: str) -> None:
    """After a change of headcount.po: ``msgfmt``, as docs/guides/translate.md says."""
    compiled = gettext.translation("headcount", LOCALE, [language])

    assert {text: compiled.gettext(text) for text in catalogue(language)} == catalogue(language)


def test_a_finished_sentence_is_known_by_its_pattern() -> None:
    """Numbers find their places in the translation, and words among them are translated too."""
    korean = words("ko")
    said = korean("48 people can use this server at once (95 % interval 44 to 52); plan for 36.")

    assert "48명" in said
    assert "36" in said
    assert "people" not in said
    assert "interval" not in said


def test_the_rest_of_a_sentence_is_said_in_the_same_language() -> None:
    """What follows a colon, a full stop after it, and brackets behind it; however many of them a server sends."""
    korean = words("ko")
    said = korean(
        "The server's slots give out at 9 people: the server ran 4 requests at once, no more, while 8 were in flight "
        "(all its slots): the rest waited in its queue."
    )

    assert not re.search("[a-z]{3}", said)
    assert said.endswith(".")
    for hostile in ("." * 5000, " (" * 5000, " (all its slots)" * 500, ": " * 5000):
        assert len(korean(hostile)) > 500


def test_unknown_and_hostile_texts_stay_as_they_are() -> None:
    """No pattern takes what it does not know, and none hangs on what was made to hurt."""
    korean = words("ko")

    assert korean(HOSTILE) == HOSTILE
    assert korean("") == ""
    worst = "requests failed; " * 200
    assert len(korean(worst)) > 0


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LC_MESSAGES": "en_US.UTF-8", "LANG": "ko_KR.UTF-8"}, "en"),
        ({"LANG": "tlh"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_follows_the_locale(environ: dict[str, str], language: str) -> None:
    """POSIX order; a language we do not speak is English."""
    assert language_of(environ) == language


def test_one_person_is_no_plural() -> None:
    """In English; Korean counts all alike."""
    assert [people(n, words("en")) for n in (0, 1, 2)] == ["0 people", "1 person", "2 people"]
    assert [people(n, words("ko")) for n in (1, 2)] == ["1명", "2명"]
