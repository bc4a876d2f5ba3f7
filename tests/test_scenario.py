"""Scenario files: read, checked, explained, and written again."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import ScenarioError
from headcount.scenario import Scenario, encode_scenario, load_scenario, make_scenario, parse_scenario


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("max_users = 3", "max_users is not a known key", "did you mean search.max_users?"),
        ("[search]\nmax_user = 3", "search.max_user is not a known key", "did you mean search.max_users?"),
        ("[engin]", "engin is not a known key", "did you mean engine?"),
        ("[search]\nlevels = [4, 0]", "search.levels[1] must be a whole number at least 1, not 0", "search.levels[1]"),
        ("seed = 1.5", "seed must be a whole number, not 1.5", "seed"),
        ("processes = 'two'", "processes must be a whole number, not 'two'", "processes"),
        ("search = 3", "search must be a table, not 3", "search"),
        ("[search]\nheadroom = 1.5", "search.headroom must be a number below 1, not 1.5", "search.headroom"),
        ("[engine]\ninsecure = 'no'", "engine.insecure must be true or false, not 'no'", "engine.insecure"),
        ("[engine]\nkind = 'vlm'", "engine.kind 'vlm' is not known", "did you mean vllm?"),
        (
            "[telemetry]\ninterval_s = 0",
            "telemetry.interval_s must be a number at least 0.1, not 0",
            "telemetry.interval_s",
        ),
        ("slo = 'chatt'", "slo 'chatt' is no preset", "chat"),
        ("[workload]\nkind = 'chta'", "workload.kind 'chta' is not known", "did you mean chat?"),
        ("[workload]\nkind = 3", "workload.kind must be a text, not 3", "chat"),
        ("[workload]\nthink = 1", "workload.think is not a known key", "did you mean workload.think_s?"),
        ("[workload]\nturns = [3, 1]", "workload: turns = [3, 1] falls", "swap the numbers"),
        ("[workload]\nturns = [3]", "workload.turns must have at least 2 values, not 1", ""),
        ("[workload]\nturns = -1", "workload.turns must be a number at least 0, not -1", "workload.turns"),
        ("[workload]\nseed = 2", "workload.seed is not a known key", "top of the scenario"),
        ("[workload]\nlanguages = 'koren'", "workload: language 'koren' is not known", "did you mean korean?"),
        (
            "[workload.think_s]\nkind = 'norml'",
            "workload.think_s.kind must be one of uniform, normal, lognormal, quantiles, not 'norml'",
            "did you mean normal?",
        ),
        ("[workload.think_s]\nkind = 'normal'\nmean = 1", "workload.think_s.sd is missing", ""),
        ("a", "scenario is not TOML", "quotes"),
    ],
)
def test_mistakes_are_explained(text: str, message: str, hint: str) -> None:
    """A wrong key, type or value is named by its path, with what was given and the nearest known name."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text)

    assert message in caught.value.message
    assert hint in caught.value.hint


def test_unreadable_files_are_explained(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are each one sentence that names the file."""
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    for path, message in (("none.toml", "no such file"), ("", "cannot be read"), ("latin.toml", "not UTF-8")):
        with pytest.raises(ScenarioError, match=message):
            load_scenario(tmp_path / path)


def test_a_file_error_names_the_file(tmp_path: Path) -> None:
    """Whoever keeps many scenarios sees which one is wrong."""
    path = tmp_path / "lunch.toml"
    path.write_text("sed = 1")

    with pytest.raises(ScenarioError, match=r"lunch\.toml: sed is not a known key"):
        load_scenario(path)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    """Everything has a default."""
    path = tmp_path / "empty.toml"
    path.write_text("")

    assert load_scenario(path) == Scenario()


plain = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    options=st.dictionaries(st.text(st.characters(codec="utf-8")), values, max_size=4),
    name=st.text(st.characters(codec="utf-8")),
)
def test_what_is_written_reads_back_equal(options: dict[str, object], name: str) -> None:
    """Any scenario, with whatever engine options and texts, survives being written and read."""
    scenario = make_scenario({"name": name, "engine": {"options": options}, "search": {"levels": [20, 50]}})

    assert parse_scenario(encode_scenario(scenario)) == scenario


def test_infinity_is_written() -> None:
    """TOML has a word for it."""
    scenario = make_scenario({"workload": {"think_s": {"kind": "normal", "mean": 1, "sd": 0, "max": math.inf}}})

    assert parse_scenario(encode_scenario(scenario)).workload["think_s"]["max"] == math.inf  # type: ignore[index]


def test_what_toml_cannot_say_is_refused() -> None:
    """A value without a TOML form is named by its key."""
    scenario = Scenario(engine=make_scenario({"engine": {"options": {"a": [None]}}}).engine)

    with pytest.raises(ScenarioError, match=r"engine\.options\.a"):
        encode_scenario(scenario)
