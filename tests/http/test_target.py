"""Addresses are understood as people write them, and refused with a remedy."""

import pytest

from headcount.errors import ScenarioError
from headcount.http.target import Address, Target, parse_url


@pytest.mark.parametrize(
    ("url", "address", "host"),
    [
        ("http://gpu1:8000", Address("gpu1", 8000, False, ""), "gpu1:8000"),
        ("http://gpu1:8000/", Address("gpu1", 8000, False, ""), "gpu1:8000"),
        ("http://gpu1:8000/v1", Address("gpu1", 8000, False, ""), "gpu1:8000"),
        ("http://gpu1:8000/v1/", Address("gpu1", 8000, False, ""), "gpu1:8000"),
        ("gpu1:8000", Address("gpu1", 8000, False, ""), "gpu1:8000"),
        ("gpu1", Address("gpu1", 80, False, ""), "gpu1"),
        ("https://gpu1", Address("gpu1", 443, True, ""), "gpu1"),
        ("https://gpu1:80", Address("gpu1", 80, True, ""), "gpu1:80"),
        ("HTTP://GPU1/LLM", Address("gpu1", 80, False, "/LLM"), "gpu1"),
        ("http://gpu1/llm/a/v1", Address("gpu1", 80, False, "/llm/a"), "gpu1"),
        ("http://gpu1/v1beta", Address("gpu1", 80, False, "/v1beta"), "gpu1"),
        ("http://gpu1/é", Address("gpu1", 80, False, "/%C3%A9"), "gpu1"),
        ("http://bücher.example", Address("xn--bcher-kva.example", 80, False, ""), "xn--bcher-kva.example"),
        ("http://[::1]:8000", Address("::1", 8000, False, ""), "[::1]:8000"),
        ("[::1]:8000", Address("::1", 8000, False, ""), "[::1]:8000"),
        ("http://[::1]", Address("::1", 80, False, ""), "[::1]"),
        ("unix:/run/llm.sock", Address("localhost", 0, False, "", "/run/llm.sock"), "localhost"),
        ("unix:///run/llm.sock", Address("localhost", 0, False, "", "/run/llm.sock"), "localhost"),
    ],
)
def test_addresses(url: str, address: Address, host: str) -> None:
    """Host, port, TLS, base path and socket, and the Host header."""
    assert parse_url(url) == address
    assert parse_url(url).host_header == host


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http://:8000",
        "ftp://gpu1",
        "http://gpu1:port",
        "http://gpu1:99999",
        "http://me:secret@gpu1",
        "http://gpu1/?a=b",
        "http://gpu1/#a",
        "http://a..b",
        "http://gpu 1",
        "http://gpu1/a b",
        "http://gpu1\r\nx: y",
        "http://[::1",
        "::1",
        "unix:",
        "unix:relative.sock",
        "http://" + "ü" * 80,
    ],
)
def test_refused(url: str) -> None:
    """What is no address is refused with a hint, and no password is repeated."""
    with pytest.raises(ScenarioError) as caught:
        parse_url(url)

    assert caught.value.hint
    assert "secret" not in caught.value.message


def test_keys_stay_private() -> None:
    """A target's repr shows where, never with what key."""
    assert "k3y" not in repr(Target(url="http://a", api_key="k3y", headers={"x-key": "k3y"}))
