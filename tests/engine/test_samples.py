"""Bytes that real servers sent, recorded: each answer is what it was, however its bytes are cut."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop

from headcount.engine.answers import Answer
from headcount.engine.openai import OpenAI
from headcount.http import Client, Target
from headcount.records import Prompt, Reply
from tests.playback import Playback, Script

SAMPLES = Path(__file__).parent.parent / "data" / "samples"


class Known(NamedTuple):
    """What a recording is known to hold, found with another parser."""

    chunks: int
    """Output events; 0 for a whole answer."""
    finish_reason: str
    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    chars: int
    start: str


GOOD = {
    "llamacpp/nonstream": Known(0, "length", 36, 8, 35, 37, "Hello, welcome"),
    "llamacpp/sse_completions": Known(4, "length", 2, 4, 0, 13, " the scene, a"),
    "llamacpp/sse_ctx_filled_midstream": Known(222, "length", 34, 222, 24, 876, "A long time ago"),
    "llamacpp/sse_include_usage": Known(11, "stop", 36, 12, 35, 48, "Hello, welcome"),
    "llamacpp/sse_lora_per_request": Known(8, "length", 36, 8, 0, 37, "Hello, welcome"),
    "llamacpp/sse_max_tokens_hit": Known(4, "length", 36, 4, 35, 17, "Hello, welcome to"),
    "llamacpp/sse_normal": Known(11, "stop", 36, 12, 0, 48, "Hello, welcome"),
    "llamacpp/sse_ping_while_queued": Known(3, "length", 31, 3, 24, 14, "hello, welcome"),
    "llamacpp/sse_queued_past_slots": Known(4, "length", 31, 4, 24, 17, "hi there, welcome"),
    "llamacpp/wrong_model": Known(0, "length", 36, 2, 35, 5, "Bella"),
    "transformers/err_ctx_stream": Known(4, "length", 21012, 4, None, 13, " overearstd')"),
    "transformers/nonstream_cb": Known(0, "length", 23, 6, None, 25, "sizetriElatform"),
    "transformers/sse_cb_usage": Known(6, "length", 23, 6, None, 27, "property"),
    "transformers/sse_nocb": Known(5, "length", 14, 5, None, 21, "condtra"),
    "vllm/nonstream": Known(0, "length", 23, 4, None, 12, "\n\n mark mark"),
    "vllm/nonstream_per_request_metrics": Known(0, "length", 23, 4, None, 12, "\n\n mark mark"),
    "vllm/preempt_stream_1": Known(379, "length", None, None, None, 1603, "[ have may"),
    "vllm/smollm2_sse_emoji": Known(9, "length", 59, 24, None, 12, "🦙🚀 日本語"),
    "vllm/smollm2_sse_real_text": Known(7, "stop", 37, 8, None, 31, "The capital of France is Paris."),
    "vllm/sse_completions": Known(4, "length", 4, 4, None, 21, " also11 Python"),
    "vllm/sse_continuous_usage": Known(4, "length", 23, 4, None, 12, "\n\n mark mark"),
    "vllm/sse_include_usage": Known(6, "length", 23, 6, None, 26, "\n\n mark markBase"),
    "vllm/sse_lora1": Known(3, "length", 23, 4, None, 5, "\n\n\nri"),
    "vllm/sse_max_tokens_hit": Known(3, "length", 23, 3, None, 7, "\n\n mark"),
    "vllm/sse_normal": Known(12, "length", None, None, None, 44, "\n\n mark mark"),
    "vllm/sse_per_request_metrics": Known(4, "length", 23, 4, None, 12, "\n\n mark mark"),
}

BAD = {
    "llamacpp/disconnect": ("truncated", "closed"),
    "llamacpp/err_bad_json": ("http_400", "parse error"),
    "llamacpp/err_ctx_nonstream": ("context_overflow", "2731 tokens"),
    "llamacpp/err_ctx_stream": ("context_overflow", "2731 tokens"),
    "llamacpp/err_no_messages": ("http_400", "'messages' is required"),
    "transformers/err_bad_json": ("http_422", "JSON decode error (body.15)"),
    "transformers/err_unknown_field": ("http_422", "ignore_eos"),
    "vllm/disconnect": ("truncated", "closed"),
    "vllm/err_bad_json": ("http_400", "json_invalid"),
    "vllm/err_ctx_stream": ("context_overflow", "2048 tokens"),
    "vllm/err_maxtok_too_big": ("context_overflow", "max_model_len=2048"),
    "vllm/err_no_messages": ("http_400", "body.messages"),
    "vllm/err_queue_full_IN_STREAM_http200": ("server_error", "currently busy"),
    "vllm/err_queue_full_nonstream": ("http_503", "currently busy"),
    "vllm/err_queue_full_stream": ("http_503", "currently busy"),
    "vllm/err_wrong_model": ("http_404", "`nope` does not exist"),
}

SERVER_S = {
    "llamacpp/nonstream": {"prefill_s": 0.493028, "decode_s": 3.546043},
    "llamacpp/sse_include_usage": {"prefill_s": 2.327572, "decode_s": 13.975332},
    "vllm/nonstream_per_request_metrics": {"ttft_s": 0.014087, "queue_s": 0.0000348, "decode_s": 0.012566},
    "vllm/sse_per_request_metrics": {"ttft_s": 0.066369, "queue_s": 0.000304, "decode_s": 0.042701},
}


def recorded(name: str) -> bytes:
    """The bytes as they came."""
    return (SAMPLES / f"{name}.http").read_bytes()


def reads(name: str) -> list[bytes]:
    """The bytes as they came, one piece a read where that was recorded."""
    data, timing = recorded(name), SAMPLES / f"{name}.http.timing"
    sizes = [int(line.split()[1]) for line in timing.read_text().splitlines()] if timing.exists() else []
    edges = [0, *itertools.accumulate(sizes)]
    return [data[a:b] for a, b in itertools.pairwise([*(e for e in edges if e < len(data)), len(data)])]


def cut(data: bytes, seed: int) -> list[bytes]:
    """Random pieces, always the same ones."""
    source = random.Random(seed)
    edges = sorted({0, len(data), *(source.randrange(len(data)) for _ in range(len(data) // 50))})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def fed(name: str, pieces: list[bytes]) -> Reply:
    """The reply to pieces that come a second apart, the connection closed behind them."""
    reply = Reply()
    answer = Answer(reply, streamed=True)
    answer.restart()
    assert answer.parser is not None
    for at_s, piece in enumerate(pieces):
        answer.read_at_s = float(at_s)
        answer.parser.feed_data(piece)
    if not answer.complete:
        answer.failure, answer.failure_text = "lost", "closed"
    answer.ended_at_s = float(len(pieces))
    answer.note_times()
    answer.judge()
    return reply


def check(name: str, reply: Reply) -> None:
    """What is known of a recording is what we say."""
    if name in BAD:
        kind, says = BAD[name]
        assert reply.error == kind
        assert reply.error_text is not None
        assert says in reply.error_text
        return
    known, text = GOOD[name], "".join(reply.text)
    assert reply.error is None, reply.error_text
    assert len(reply.chunk_at_s) == known.chunks
    assert reply.finish_reason == known.finish_reason
    assert (reply.prompt_tokens, reply.output_tokens) == (known.prompt_tokens, known.output_tokens)
    assert reply.cached_tokens == known.cached_tokens
    assert len(text) == known.chars
    assert text.startswith(known.start)
    for key, value in SERVER_S.get(name, {}).items():
        assert reply.server is not None
        assert reply.server[key] == pytest.approx(value, rel=0.01)


NAMES = sorted([*GOOD, *BAD])


def test_every_sample_is_known() -> None:
    """No recording lies about untested."""
    assert sorted(str(p.relative_to(SAMPLES))[:-5] for p in SAMPLES.rglob("*.http")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_cut_in_any_way(name: str) -> None:
    """Whole, as recorded, byte by byte, and in random pieces."""
    data = recorded(name)
    for pieces in ([data], reads(name), [data[i : i + 1] for i in range(len(data))], cut(data, 1), cut(data, 2)):
        assert b"".join(pieces) == data
        check(name, fed(name, pieces))


async def played(name: str, pieces: list[bytes]) -> Reply:
    """The reply of the engine to a real server that sends the pieces."""
    async with Playback(Script([(0.0, piece) for piece in pieces], "eof")) as server:
        engine = OpenAI(Client(Target(url=server.url)), "m")
        reply = Reply()
        await engine.send(Prompt(({"role": "user", "content": "hello"},), 16, streamed="nonstream" not in name), reply)
        await engine.close()
        assert reply.ended_at_s is not None
        return reply


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_over_real_sockets(loop: str) -> None:
    """The same through sockets, client and engine: in one write, and as recorded."""

    async def main() -> list[tuple[str, Reply]]:
        asked = [(name, pieces) for name in NAMES for pieces in ([recorded(name)], reads(name))]
        replies = await asyncio.gather(*(played(name, pieces) for name, pieces in asked))
        return [(name, reply) for (name, _), reply in zip(asked, replies, strict=True)]

    factory: Any = asyncio.new_event_loop if loop == "asyncio" else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        for name, reply in runner.run(main()):
            check(name, reply)
