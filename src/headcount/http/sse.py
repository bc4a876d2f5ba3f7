"""Event streams, by the rules of the WHATWG's HTML standard (section 9.2), on bytes as they arrive.

Only the data of events is kept: names, ids and retry times are read over, since what model servers say
stands in the data. Knows nothing of JSON, HTTP and clocks.
"""

from __future__ import annotations

__all__ = ["EventParser"]

_BOM = b"\xef\xbb\xbf"


class EventParser:
    """Bytes in, the data of finished events out. No byte is looked at twice, however an event is cut.

    >>> parser = EventParser()
    >>> parser.feed(b"data: one" + bytes([10, 10]) + b"data: tw")
    [b'one']
    >>> parser.feed(b"o")
    []
    >>> parser.end()
    b'two'
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_rest")

    def __init__(self) -> None:
        self._at_start = True
        self._after_cr = False
        """The last read ended in CR: a LF at the beginning of the next one belongs to it."""
        self._rest: list[bytes] = []
        """The pieces of the line that has not ended yet."""
        self._data: list[bytes] = []
        """The data lines of the event that has not ended yet."""

    def feed(self, read: bytes) -> list[bytes]:
        """The data of every event that ``read`` ends. An event without data is none."""
        # What servers send nearly always: one whole event of one line a read.
        if (
            read[:6] == b"data: "
            and read[-2:] == b"\n\n"
            and not self._rest
            and not self._data
            and read.find(b"\n") == len(read) - 2
            and b"\r" not in read
        ):
            self._at_start = self._after_cr = False
            return [read[6:-2]] if len(read) > 8 else []
        if self._at_start:
            read = self._skip_bom(read)
        return self._events(self._lines(read))

    def end(self) -> bytes | None:
        """The data of an event that the end of the stream left without its blank line; None when there is none.

        The standard drops such an event; servers that end on ``data: [DONE]`` mean it.
        """
        events = self._events([b"".join(self._rest), b""])
        self._rest.clear()
        return events[0] if events else None

    def _skip_bom(self, read: bytes) -> bytes:
        """A byte order mark at the very beginning is no content, even when it comes in pieces."""
        start = b"".join(self._rest) + read
        if start and len(start) < len(_BOM) and _BOM.startswith(start):
            self._rest = [start]
            return b""
        if start:
            self._at_start = False
            self._rest = []
        return start.removeprefix(_BOM)

    def _lines(self, read: bytes) -> list[bytes]:
        """The lines that ``read`` ends, by LF, CR or CR LF; what follows the last of them waits."""
        if self._after_cr and read:
            self._after_cr = False
            read = read.removeprefix(b"\n")
        if b"\r" in read:
            self._after_cr = read.endswith(b"\r")
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = read.split(b"\n")
        rest = lines.pop()
        if lines and self._rest:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return lines

    def _events(self, lines: list[bytes]) -> list[bytes]:
        """Take lines in; the data of the events that blank lines among them end."""
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    event = data[0] if len(data) == 1 else b"\n".join(data)
                    data.clear()
                    if event:
                        events.append(event)
            elif line[:5] == b"data:":
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line == b"data":
                data.append(b"")
        return events
