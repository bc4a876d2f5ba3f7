"""Readings from pages of metrics, well-formed or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.http.prometheus import Reading, readings


def test_only_wanted_lines_are_read() -> None:
    """Whole names only, with or without labels, a time stamp or spaces; comments and other names are passed over."""
    page = '# TYPE a gauge\na 1\na{x="y",z="}{ ,"} 2.5 1700000000\nab 3\na_total 4\nb{} 5\n'

    assert readings(page, ["a", "b"]) == [
        Reading("a", {}, 1.0),
        Reading("a", {"x": "y", "z": "}{ ,"}, 2.5),
        Reading("b", {}, 5.0),
    ]


@pytest.mark.parametrize(
    "line", ["a", "a{", "a one", 'a{x="y" 5', "a 0x10", "a NaN", "a +Inf", "a -Inf", 'a{x="\\"} 3']
)
def test_a_line_without_a_finite_number_costs_only_itself(line: str) -> None:
    """The lines before and after it are read."""
    assert [r.value for r in readings(f"a 1\n{line}\na 2\n", ["a"])] == [1.0, 2.0]


def test_a_huge_page_is_read_quickly() -> None:
    """Megabytes of histograms beside one wanted name: only that one is parsed."""
    page = "".join(f'h_bucket{{le="{i}"}} {i}\n' for i in range(100_000)) + "a 7\n"

    assert readings(page, ["a"]) == [Reading("a", {}, 7.0)]


@given(st.text(alphabet='a{}="\\, \t1.e+#é\r\0', max_size=40))
def test_no_text_raises(text: str) -> None:
    """Whatever stands on the page."""
    assert all(reading.name == "a" for reading in readings("a" + text, ["a"]))
