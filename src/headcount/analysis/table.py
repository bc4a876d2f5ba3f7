"""The requests of one level in packed columns, so that a level of 100,000 requests is summarised in a blink.

Holds facts and the flags that ``slo.meets`` gives, some 30 bytes a request. Knows nothing of windows and decisions.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headcount.metrics import e2e_s, max_chunk_gap_s, send_delay_s, ttft_s
from headcount.records import Request
from headcount.slo import Clause, meets

__all__ = ["Flags", "Floats", "Integers", "RequestTable", "Rows"]

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]

_NAN = float("nan")
_STREAMED, _ESTIMATED, _COALESCED = 1, 2, 4
_MAX_CLAUSES = 16
_BLOCK_ROWS = 4096
_KEPT_ROWS = 16384
"""Columns of more rows than these are not kept once they were looked at: memory stays bounded."""


class _Column:
    """One column of the table. It grows by blocks, so that growing moves nothing, and a full block takes only the
    room that its values need: one value where all are alike, small integers where all are small."""

    __slots__ = ("_code", "_full", "_open", "append")

    def __init__(self, code: str) -> None:
        self._code = code
        self._full: list[npt.NDArray[Any]] = []
        self._open: array[Any] = array(code)
        self.append = self._open.append

    def seal(self) -> None:
        """Close the block that is open."""
        self._full.append(_small(np.array(self._open)))
        del self._open[:]

    def values(self) -> npt.NDArray[Any]:
        """All of them, in one new array."""
        return np.concatenate([*self._full, np.array(self._open)], dtype=self._code)


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    first = values[0]
    if (values == first).all() or np.isnan(values).all():
        return np.broadcast_to(first.copy(), values.shape)
    if values.dtype.kind == "f":
        return values
    low, high = int(values.min()), int(values.max())
    return values.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))


class _Chosen:
    """One column of chosen rows, copied out of the table when it is asked for; where rows are few, only once."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, rows: Rows, owner: type) -> npt.NDArray[Any]:
        values, chosen = rows.columns[self._name].values(), rows.chosen
        found = np.empty(len(chosen), values.dtype)
        for begin in range(0, len(chosen), _KEPT_ROWS):  # in pieces, since numpy widens the places it is given
            piece = slice(begin, begin + _KEPT_ROWS)
            found[piece] = values.take(chosen[piece])
        if len(found) <= _KEPT_ROWS:
            rows.__dict__[self._name] = found
        return found


class Rows:
    """Some requests as numpy columns, in order of their ends. Not-a-number or -1 stands for unknown."""

    person = _Chosen()
    turn = _Chosen()
    scheduled_at_s = _Chosen()
    age_s = _Chosen()
    """From scheduled to the end, whatever the end was."""
    ttft_s = _Chosen()
    e2e_s = _Chosen()
    max_gap_s = _Chosen()
    think_s = _Chosen()
    """What else belongs to the turn's cycle: the pause after the answer, and stages before and after it."""
    send_delay_s = _Chosen()
    told_ttft_s = _Chosen()
    """The time to the first token as the server told it with the answer."""
    prompt_tokens = _Chosen()
    planned_tokens = _Chosen()
    """What the turn was to add to the prompt."""
    output_tokens = _Chosen()
    max_output_tokens = _Chosen()
    error = _Chosen()
    """0 for a success, else the place of its kind in ``kinds``."""
    adapter = _Chosen()
    """The place of its name in ``RequestTable.adapters``."""
    flags = _Chosen()
    judged_bits = _Chosen()
    missed_bits = _Chosen()

    def __init__(self, columns: dict[str, _Column], chosen: Integers, kinds: tuple[str, ...], clauses: int) -> None:
        self.columns, self.chosen = columns, chosen
        self.kinds = kinds
        self.clauses = clauses
        """How many clauses ``judged`` and ``missed`` know."""

    def __len__(self) -> int:
        return len(self.chosen)

    def where(self, chosen: Flags) -> Rows:
        """The requests for which ``chosen`` is true."""
        return Rows(self.columns, self.chosen[chosen], self.kinds, self.clauses)

    def joined(self, other: Rows) -> Rows:
        """These and others of the same table."""
        return Rows(self.columns, np.concatenate([self.chosen, other.chosen]), self.kinds, self.clauses)

    @property
    def ended_at_s(self) -> Floats:
        """When each ended, whatever the end was."""
        return np.asarray(self.scheduled_at_s + self.age_s)

    @property
    def tpot_s(self) -> Floats:
        """As ``metrics.tpot_s``: (last output - first output) / (output tokens - 1)."""
        tokens = np.where(self.output_tokens >= 2, self.output_tokens - 1.0, np.nan)
        return np.asarray((self.e2e_s - self.ttft_s) / tokens)

    @property
    def good(self) -> Flags:
        """Which succeeded."""
        return np.asarray(self.error == 0, bool)

    @property
    def cut(self) -> Flags:
        """Which were still running when their level ended."""
        return self.of_kind("cut")

    @property
    def streamed(self) -> Flags:
        """Which were asked for as a stream."""
        return np.asarray(self.flags & _STREAMED, bool)

    @property
    def estimated(self) -> Flags:
        """Whose tokens were counted by the client, not the server."""
        return np.asarray(self.flags & _ESTIMATED, bool)

    @property
    def coalesced(self) -> Flags:
        """Whose output events came several in one read."""
        return np.asarray(self.flags & _COALESCED, bool)

    def of_kind(self, kind: str) -> Flags:
        """Which ended with this kind of error."""
        code = self.kinds.index(kind) if kind in self.kinds else -1
        return np.asarray(self.error == code, bool)

    def judged(self, clause: int) -> Flags:
        """Which say something about the clause of this place in the service level."""
        return np.asarray(self.judged_bits >> clause & 1, bool)

    def missed(self, clause: int) -> Flags:
        """Which miss it; false where they say nothing."""
        return np.asarray(self.missed_bits >> clause & 1, bool)

    def metric(self, name: str) -> Floats:
        """A metric by its name in a clause; ``first_answer`` is as good as its TTFT for measuring dependence."""
        return {"e2e": self.e2e_s, "tpot": self.tpot_s, "max_gap": self.max_gap_s}.get(name, self.ttft_s)


class RequestTable:
    """Grows by ``add``; gives ``rows``. All requests belong to one level and are judged by one service level."""

    def __init__(self, slo: Sequence[Clause] = ()) -> None:
        self._slo = tuple(slo)
        if len(self._slo) > _MAX_CLAUSES:
            raise ValueError(f"a service level has at most {_MAX_CLAUSES} clauses")
        self._columns = {
            name: _Column(code)
            for name, code in {
                "person": "I",
                "turn": "H",
                "scheduled_at_s": "d",
                "age_s": "f",
                "ttft_s": "f",
                "e2e_s": "f",
                "max_gap_s": "f",
                "think_s": "f",
                "send_delay_s": "f",
                "told_ttft_s": "f",
                "prompt_tokens": "i",
                "planned_tokens": "i",
                "output_tokens": "i",
                "max_output_tokens": "H",
                "error": "B",
                "adapter": "H",
                "flags": "B",
                "judged_bits": "H",
                "missed_bits": "H",
            }.items()
        }
        self._appends = tuple(column.append for column in self._columns.values())
        self._len = 0
        self._kinds: dict[str | None, int] = {None: 0}
        self._adapters: dict[str, int] = {"": 0}
        self.first_error: str | None = None
        """What the first failed request (a cut one has not failed) was told, or its kind where nothing was said."""

    def __len__(self) -> int:
        return self._len

    @property
    def slo(self) -> tuple[Clause, ...]:
        """The clauses by which the requests are judged."""
        return self._slo

    @property
    def adapters(self) -> tuple[str, ...]:
        """Those that requests named, the empty one first: the model without any."""
        return tuple(self._adapters)

    def add(self, request: Request) -> None:
        """Take in one request, in the order of their ends where possible."""
        judged = missed = 0
        for place, clause in enumerate(self._slo):
            met = meets(request, clause)
            if met is not None:
                judged |= 1 << place
                missed |= (not met) << place
        error = request.error
        if error is not None and error != "cut" and self.first_error is None:
            self.first_error = request.error_text or error
        values = (
            request.person,
            request.turn,
            request.scheduled_at_s,
            request.ended_at_s - request.scheduled_at_s,
            _or_nan(ttft_s(request)),
            _or_nan(e2e_s(request)),
            _or_nan(max_chunk_gap_s(request)),
            _pause_s(request),
            _or_nan(send_delay_s(request)),
            _or_nan(request.server.get("ttft_s") if request.server else None),
            -1 if request.prompt_tokens is None else request.prompt_tokens,
            -1 if request.planned_prompt_tokens is None else request.planned_prompt_tokens,
            -1 if request.output_tokens is None else request.output_tokens,
            min(request.max_output_tokens or 0, 65535),
            self._kinds.setdefault(error, len(self._kinds)),
            self._adapters.setdefault(request.adapter or "", len(self._adapters)),
            _flags(request),
            judged,
            missed,
        )
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        self._len += 1
        if self._len % _BLOCK_ROWS == 0:
            for column in self._columns.values():
                column.seal()

    def rows(self) -> Rows:
        """All requests so far, in order of their ends; the table may grow on meanwhile."""
        ended_at_s = self._columns["scheduled_at_s"].values() + self._columns["age_s"].values()
        in_order = np.argsort(ended_at_s, kind="stable").astype(np.uint32)
        return Rows(self._columns, in_order, tuple(kind or "" for kind in self._kinds), len(self._slo))


def _pause_s(request: Request) -> float:
    """The pause after the answer and the stages around it; not a number where no pause was planned."""
    return _or_nan(request.think_s) + sum((request.stage_s or {}).values())


def _or_nan(value: float | None) -> float:
    return _NAN if value is None else value


def _flags(request: Request) -> int:
    return (
        _STREAMED * request.streamed | _ESTIMATED * (request.token_source == "client") | _COALESCED * request.coalesced
    )
