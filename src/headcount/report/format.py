"""Numbers and foreign texts as people read them. The only place of milliseconds and percent.

Unknown is an en dash. Knows nothing of levels and verdicts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

__all__ = [
    "UNKNOWN",
    "clean",
    "duration",
    "moment",
    "number",
    "percent",
    "seconds",
    "short_time",
    "sparkline",
    "tokens_per_s",
    "users_interval",
]

UNKNOWN = "–"

_BARS = "▁▂▃▄▅▆▇█"

_UNPRINTABLE = re.compile(
    # control characters, then what can turn, hide or join text: bidi marks and overrides, zero-width, tags
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)


def clean(text: str, most: int = 300) -> str:
    """A text from outside on one line, with nothing in it that could move a cursor, colour a terminal or turn
    the reading direction; cut after ``most`` characters.

    >>> clean("a\\x1b[31mb\\r\\nc")
    'a [31mb c'
    """
    one_line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    # Lone surrogates can come out of damaged JSON and cannot be written anywhere.
    printable = one_line.encode("utf-8", "replace").decode("utf-8")
    return printable if len(printable) <= most else printable[: most - 1] + "…"


def moment(utc: str) -> str:
    """An ISO 8601 instant to the minute.

    >>> moment("2026-12-01T10:14:03Z")
    '2026-12-01 10:14 UTC'
    """
    return f"{datetime.fromisoformat(utc).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def seconds(value_s: float | None) -> str:
    """A latency, to three figures.

    >>> seconds(0.0421), seconds(1.4), seconds(62.04), seconds(None)
    ('42 ms', '1.40 s', '62.0 s', '–')
    """
    if value_s is None or not math.isfinite(value_s):
        return UNKNOWN
    if abs(value_s) < 0.9995:
        return f"{value_s * 1000:.0f} ms" if abs(value_s) >= 0.00995 else f"{value_s * 1000:.1f} ms"
    return f"{value_s:.2f} s" if abs(value_s) < 9.995 else f"{value_s:.1f} s"


def short_time(value_s: float | None) -> str:
    """A time of any size, to three figures: what one token costs may be nanoseconds.

    >>> short_time(0.0121), short_time(2.9e-07), short_time(0.0)
    ('12.1 ms', '290 ns', '0 s')
    """
    if value_s is None or not math.isfinite(value_s):
        return UNKNOWN
    for size_s, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps")):
        if value_s >= size_s:
            return f"{number(value_s / size_s)} {unit}"
    return "0 s"


def duration(value_s: float | None, _: Callable[[str], str] = str) -> str:
    """How long something takes, in the reader's words.

    >>> duration(42.4), duration(305), duration(7260)
    ('42 s', '5 min 05 s', '2 h 01 min')
    """
    if value_s is None or not math.isfinite(value_s):
        return UNKNOWN
    whole = max(0, round(value_s))
    if whole < 60:
        return _("{seconds} s").format(seconds=whole)
    if whole < 3600:
        return _("{minutes} min {seconds} s").format(minutes=whole // 60, seconds=f"{whole % 60:02d}")
    return _("{hours} h {minutes} min").format(hours=whole // 3600, minutes=f"{whole % 3600 // 60:02d}")


def number(value: float | None, digits: int = 3) -> str:
    """A number to so many figures, grouped by thousands.

    >>> number(0.5), number(26.04), number(3469.2), number(None)
    ('0.5', '26', '3,469', '–')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(fraction: float | None) -> str:
    """A share.

    >>> percent(0.0), percent(0.0002), percent(0.05), percent(0.0243), percent(0.5), percent(None)
    ('0 %', '<0.1 %', '5 %', '2.4 %', '50 %', '–')
    """
    if fraction is None or not math.isfinite(fraction):
        return UNKNOWN
    share = fraction * 100
    if 0 < share < 0.05:
        return "<0.1 %"
    return f"{share:.1f}".removesuffix(".0") + " %" if abs(share) < 9.95 else f"{share:.0f} %"


def sparkline(values: Sequence[float | None]) -> str:
    """A line of bars between the least and the greatest value; a gap where there is none.

    >>> sparkline([1, 2, None, 8])
    '▁▂ █'
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(
        " " if value is None or not math.isfinite(value) else _BARS[round((value - low) / step)] for value in values
    )


def tokens_per_s(value: float | None) -> str:
    """A throughput or a reading speed, without its unit.

    >>> tokens_per_s(9.46), tokens_per_s(246.2)
    ('9.5', '246')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:.1f}" if abs(value) < 99.95 else f"{value:,.0f}"


def users_interval(interval: tuple[float, float] | None) -> str:
    """An interval of people, in whole people outward.

    >>> users_interval((10.6, 13.2)), users_interval((8.0, 8.0)), users_interval(None)
    ('10–14', '8', '–')
    """
    if interval is None or not all(map(math.isfinite, interval)):
        return UNKNOWN
    low, high = math.floor(interval[0] + 1e-9), math.ceil(interval[1] - 1e-9)
    return f"{low}" if low >= high else f"{low}–{high}"
