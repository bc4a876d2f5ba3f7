"""Event streams are read by the WHATWG's rules, however the bytes are cut, and never twice."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.http import EventParser

CASES: list[tuple[str, bytes, list[bytes]]] = [
    ("usual", b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    ("CR LF", b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    ("CR", b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    ("mixed ends", b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
    ("no space", b"data:a\n\n", [b"a"]),
    ("one space only", b"data:  a \n\n", [b" a "]),
    ("tab is no space", b"data:\ta\n\n", [b"\ta"]),
    ("several lines", b"data: a\ndata:\ndata: b\n\n", [b"a\n\nb"]),
    ("comment", b": ping\n\n:\n\ndata: a\n: in between\ndata: b\n\n", [b"a\nb"]),
    ("other fields", b"id: 1\nevent: x\nretry: 5\ndata: a\n\n", [b"a"]),
    ("no data", b"event: x\n\nid: 2\n\n", []),
    ("empty data", b"data:\n\ndata: \n\ndata\n\n", []),
    ("field without colon", b"data\ndata: a\n\n", [b"\na"]),
    ("unknown fields", b"date: a\ndatas: b\nDATA: c\n data: d\n\n", []),
    ("byte order mark", b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    ("only the first mark", b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [b"b"]),
    ("blank lines", b"\n\n\ndata: a\n\n\n\n", [b"a"]),
    ("line separators that are none", "data: \u2028\x85\x0b\x0c\x1c\n\n".encode(), ["\u2028\x85\x0b\x0c\x1c".encode()]),
    ("cut character", "data: é✅\n\n".encode(), ["é✅".encode()]),
    ("no last blank line", b"data: a\n\ndata: b\n", [b"a", b"b"]),
    ("no last line end", b"data: a\n\ndata: [DONE]", [b"a", b"[DONE]"]),
    ("colons", b"data: a:b\n\ndata::c\n\n", [b"a:b", b":c"]),
    ("JSON", b'data: {"a": 1}\n\n', [b'{"a": 1}']),
]


def read(pieces: list[bytes]) -> list[bytes]:
    """Everything in a stream, the unfinished last event included."""
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    last = parser.end()
    return events if last is None else [*events, last]


@pytest.mark.parametrize(("name", "stream", "events"), CASES, ids=[name for name, _, _ in CASES])
def test_streams(name: str, stream: bytes, events: list[bytes]) -> None:
    """The right events come whole, byte by byte, and from every cut in two."""
    assert read([stream]) == events
    assert read([stream[i : i + 1] for i in range(len(stream))]) == events
    for cut in range(len(stream) + 1):
        assert read([stream[:cut], stream[cut:]]) == events


def reference(stream: bytes) -> list[bytes]:
    """The standard's rules once more, plainly: the whole stream at once, line by line."""
    stream = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[bytes] = []
    data: list[bytes] = []
    for line in [*stream.split(b"\n"), b""]:
        field, _, value = line.partition(b":")
        if line == b"":
            if b"\n".join(data):
                events.append(b"\n".join(data))
            data = []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
    return events


ATOMS = [
    b"data",
    b":",
    b" ",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"data: ",
    b"x",
    b"{",
    b"\xef\xbb\xbf",
    b"\xc3\xa9",
    b"id: ",
]


@given(st.lists(st.sampled_from(ATOMS), max_size=40), st.lists(st.integers(0, 120), max_size=12))
def test_any_stream_in_any_pieces(atoms: list[bytes], cuts: list[int]) -> None:
    """Whatever the stream and the cuts, the events are those of a plain reading of the rules."""
    stream = b"".join(atoms)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]

    assert read([stream[a:b] for a, b in itertools.pairwise(edges)]) == reference(stream)


def test_a_huge_event_is_read_once() -> None:
    """8 MiB in reads of 1 KiB: time grows with the bytes, not with their square, and no read takes long."""
    parser = EventParser()
    reads = [b"data: " + b"x" * 1018, *[b"x" * 1024] * 8191, b"\n\n"]
    began_s = time.monotonic()
    events = [event for piece in reads for event in parser.feed(piece)]

    assert [len(event) for event in events] == [8 * 1024 * 1024 - 6]
    assert time.monotonic() - began_s < 5  # rescanning takes minutes; about 0.01 s on a quiet machine


def test_a_reader_ends_clean() -> None:
    """After its end a parser has nothing left to give."""
    parser = EventParser()
    parser.feed(b"data: a")

    assert parser.end() == b"a"
    assert parser.end() is None
    assert EventParser().end() is None
