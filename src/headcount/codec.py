"""Records as JSON lines and back. Instants and durations are rounded to a microsecond on the way out.

Knows nothing of files and folders; load processes encode with it, the store reads with it.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from headcount.records import Level, Request, Sample

__all__ = [
    "LATEST_AT_S",
    "decode_level",
    "decode_request",
    "decode_sample",
    "encode_level",
    "encode_request",
    "encode_sample",
    "read_level",
    "read_request",
    "read_sample",
]

_encoder = msgspec.json.Encoder()

decode_level = msgspec.json.Decoder(Level).decode
decode_request = msgspec.json.Decoder(Request).decode
decode_sample = msgspec.json.Decoder(Sample).decode


LATEST_AT_S = 1e9
"""No run lasts for thirty years."""
_ROUNDED_S = 1e-3
"""By so much instants of other tools may contradict each other."""


def read_level(line: bytes) -> Level:
    """As ``decode_level``, of a file that anything may have happened to: ``ValidationError`` for what cannot be."""
    level = decode_level(line)
    ends = [at_s for at_s in (level.started_at_s, level.stopped_at_s, level.drained_at_s) if at_s is not None]
    if level.users < 0 or level.index < 0 or level.processes < 1 or level.spread_s < 0:
        raise msgspec.ValidationError("a level of fewer than nobody")
    if not 0 <= level.began_at_s <= LATEST_AT_S or any(at_s < level.began_at_s - _ROUNDED_S for at_s in ends):
        raise msgspec.ValidationError("a level that ends before it begins")
    return level


def read_request(line: bytes) -> Request:
    """As ``decode_request``, in the same way."""
    request = decode_request(line)
    chunks = request.chunk_at_s
    if request.level < 0 or request.person < 0 or request.connect_s < 0:
        raise msgspec.ValidationError("a request of nobody")
    if (request.prompt_tokens or 0) < 0 or (request.output_tokens or 0) < 0:
        raise msgspec.ValidationError("fewer than no tokens")
    if not request.scheduled_at_s - _ROUNDED_S <= request.ended_at_s <= LATEST_AT_S:
        raise msgspec.ValidationError("a request that ends before it begins")
    if chunks and not request.scheduled_at_s - _ROUNDED_S <= chunks[0] <= chunks[-1] <= LATEST_AT_S:
        raise msgspec.ValidationError("an answer before its question")
    return request


def read_sample(line: bytes) -> Sample:
    """As ``decode_sample``, in the same way."""
    sample = decode_sample(line)
    if not 0 <= sample.at_s <= LATEST_AT_S or not math.isfinite(sample.value):
        raise msgspec.ValidationError("a sample of no time")
    return sample


def encode_request(request: Request) -> bytes:
    """One line, newline included; about 20 µs for an answer of 128 chunks."""
    rounded = msgspec.structs.replace(
        request,
        scheduled_at_s=round(request.scheduled_at_s, 6),
        ended_at_s=round(request.ended_at_s, 6),
        sent_at_s=_rounded(request.sent_at_s),
        connect_s=round(request.connect_s, 6),
        first_byte_at_s=_rounded(request.first_byte_at_s),
        first_event_at_s=_rounded(request.first_event_at_s),
        first_answer_at_s=_rounded(request.first_answer_at_s),
        think_s=_rounded(request.think_s),
        chunk_at_s=_rounded_list(request.chunk_at_s),
    )
    return _encoder.encode(rounded) + b"\n"


def encode_level(level: Level) -> bytes:
    """One line, newline included."""
    rounded = msgspec.structs.replace(
        level,
        began_at_s=round(level.began_at_s, 6),
        started_at_s=_rounded(level.started_at_s),
        stopped_at_s=_rounded(level.stopped_at_s),
        drained_at_s=_rounded(level.drained_at_s),
    )
    return _encoder.encode(rounded) + b"\n"


def encode_sample(sample: Sample) -> bytes:
    """One line, newline included; nothing for a value that is no finite number, since JSON has no such thing."""
    if not math.isfinite(sample.value):
        return b""
    value = sample.value
    rounded = msgspec.structs.replace(
        sample, at_s=round(sample.at_s, 6), value=round(value, 6) if abs(value) < 1e6 else value
    )
    return _encoder.encode(rounded) + b"\n"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _rounded_list(at_s: list[float]) -> list[float]:
    """A whole number over 1e6 is the double nearest to six decimals, so it prints short. Short lists are
    quicker without an array."""
    if len(at_s) < 16:
        return [round(one, 6) for one in at_s]
    rounded: list[float] = (np.rint(np.array(at_s) * 1e6) / 1e6).tolist()
    return rounded
