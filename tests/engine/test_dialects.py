"""Servers of every dialect are understood alike: output, ends, counts and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headcount.engine.answers import Answer
from headcount.engine.dialects import decode, error_text, is_context_overflow
from headcount.records import Reply


def answered(body: bytes, content_type: str = "text/event-stream", status: int = 200) -> Reply:
    """The reply to a body that came in one read, as judged at its end."""
    return answered_in([body], content_type, status)


def answered_in(pieces: list[bytes], content_type: str = "text/event-stream", status: int = 200) -> Reply:
    """The reply to a body in pieces that came a second apart."""
    reply = Reply()
    answer = Answer(reply, streamed=True)
    answer.status, answer.headers, answer.ended_at_s = status, {"content-type": content_type}, float(len(pieces))
    for at_s, piece in enumerate(pieces):
        answer.read_at_s = float(at_s)
        answer.on_body(piece)
    answer.complete = True
    answer.note_times()
    answer.judge()
    return reply


def events(*said: Any) -> list[bytes]:
    """Each object as one event."""
    return [b"data: " + (one if isinstance(one, str) else json.dumps(one)).encode() + b"\n\n" for one in said]


def lines(*said: Any) -> list[bytes]:
    """Each object as one line."""
    return [json.dumps(one).encode() + b"\n" for one in said]


def chat(**delta: Any) -> dict[str, Any]:
    """One chunk of chat completions."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


# --- what is output, and what is answer ------------------------------------------------------

OUTPUT: list[tuple[dict[str, Any], str | None]] = [
    ({"content": "a"}, "a"),
    ({"content": " "}, " "),
    ({"content": "\n"}, "\n"),
    ({"content": "a", "reasoning": "b"}, "a"),
    ({"refusal": "no"}, "no"),
    ({"content": [{"type": "text", "text": "a"}]}, "a"),
    ({"content": None, "reasoning": "b"}, ""),
    ({"content": "", "reasoning_content": "b"}, ""),
    ({"thinking": "b"}, ""),
    ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "b"}]}]}, ""),
    ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, ""),
    ({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, ""),
    ({"function_call": {"name": "f"}}, ""),
    ({"function_call": {"arguments": "{"}}, ""),
    ({"audio": {"data": "AAAA"}}, ""),
    ({}, None),
    ({"role": "assistant"}, None),
    ({"role": "assistant", "content": ""}, None),
    ({"content": None, "reasoning": None, "tool_calls": None, "function_call": None}, None),
    ({"content": []}, None),
    ({"content": [{"type": "text", "text": ""}]}, None),
    ({"tool_calls": []}, None),
    ({"tool_calls": [{"index": 0, "id": "c1", "type": "function"}]}, None),
    ({"tool_calls": [{"index": 0, "function": {"name": "", "arguments": ""}}]}, None),
    ({"tool_calls": [None, 1, "x"]}, None),
    ({"function_call": "auto"}, None),
    ({"content": 7}, None),
]


@pytest.mark.parametrize(("delta", "text"), OUTPUT)
def test_output(delta: dict[str, Any], text: str | None) -> None:
    """Content, refusals, reasoning, tool calls and audio are output, the first two are answer; nothing empty is."""
    reply = answered_in(events(chat(role="assistant"), chat(**delta), STOP, "[DONE]"))

    assert reply.error == ("empty" if text is None else None)
    assert reply.chunk_at_s == ([] if text is None else [1.0])
    assert reply.first_answer_at_s == (1.0 if text else None)
    assert "".join(reply.text) == (text or "")
    assert reply.first_event_at_s == 0.0


def test_only_the_first_choice_counts() -> None:
    """Of several alternatives the first is the answer."""
    other = {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    reply = answered_in(events(other, chat(content="a"), other, STOP, other, "[DONE]"))

    assert (reply.error, reply.text, reply.chunk_at_s, reply.finish_reason) == (None, ["a"], [1.0], "stop")


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"delta": None}]},
        {"choices": [{"index": None, "delta": {}, "finish_reason": ""}]},
        {"usage": None},
        {"usage": {}},
        {"usage": {"prompt_tokens": None, "completion_tokens": "7"}},
        {"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": True}},
        {"choices": [], "timings": {"prompt_ms": "x"}, "metrics": []},
        {"choices": [], "error": None},
        {"choices": [], "error": {}},
        {},
        "",
        "   ",
    ],
)
def test_harmless_oddities(odd: Any) -> None:
    """Empty, null and mistyped fields are neither output nor an end nor an error."""
    reply = answered_in(events(odd, chat(content="a"), odd, STOP, odd))

    assert (reply.error, reply.text, reply.chunk_at_s) == (None, ["a"], [1.0])
    assert (reply.prompt_tokens, reply.output_tokens, reply.server) == (None, None, None)


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices":[{"delta":{"content":"a\xff"}}]}',
        b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"a"},"logprobs":NaN}]}',
        b'{"choices":[{"delta":{"content":"a"},"n":Infinity}]}',
    ],
)
def test_what_is_nearly_json(data: bytes) -> None:
    """Half characters, lone surrogates and NaN do not cost the event; text stays text that can be sent again."""
    reply = answered_in([b"data: " + data + b"\n\n", *events(STOP)])

    assert reply.error is None
    assert reply.text[0].startswith("a")
    "".join(reply.text).encode()


@pytest.mark.parametrize(
    "data", [b"oops", b"{", b"[]", b"7", b'"a"', b"null", b"[" * 100_000, b'{"choices":7}', b'{"choices":[7]}']
)
def test_what_is_no_event(data: bytes) -> None:
    """An event that cannot be understood is an error, never passed over."""
    reply = answered_in([*events(chat(content="a")), b"data: " + data + b"\n\n", *events(STOP, "[DONE]")])

    assert reply.error == "server_error"
    assert reply.error_text is not None
    assert data[:1].decode() in reply.error_text


# --- how it ends -----------------------------------------------------------------------------


def test_ends() -> None:
    """finish_reason or [DONE] ends an answer; neither, and it was cut; both without output, and it was empty."""
    token = chat(content="a")

    assert answered_in(events(token, STOP)).error is None
    assert answered_in(events(token, "[DONE]")).error is None
    assert answered_in(events(token)).error == "truncated"
    assert answered_in(events(STOP, "[DONE]")).error == "empty"
    assert answered_in([]).error == "truncated"
    assert answered_in([b": ping\n\n"]).error == "truncated"


@pytest.mark.parametrize("reason", ["error", "abort", "cancelled"])
def test_given_up(reason: str) -> None:
    """A server that ends an answer because it failed has failed."""
    gone = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    reply = answered_in(events(chat(content="a"), gone, "[DONE]"))

    assert reply.error == "server_error"
    assert reason in (reply.error_text or "")


def test_the_last_event_may_lack_its_end() -> None:
    """A whole last event counts, with the time at which it came; half of one does not, and is no error of its own."""
    last = events(STOP)[0].rstrip()
    assert answered_in([*events(chat(content="a")), last]).error is None
    cut = answered_in([*events(chat(content="a"), chat(content="b")), last[:-4]])
    assert (cut.error, cut.text) == ("truncated", ["a", "b"])
    token = answered_in([*events(STOP), events(chat(content="a"))[0].rstrip()])
    assert token.chunk_at_s == [1.0]


def test_counts() -> None:
    """Tokens are the server's, the last word counts; zero is a number."""
    usage = {
        "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}},
    }
    early = {**chat(content="a"), "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    reply = answered_in(events(early, chat(content="b"), STOP, usage, "[DONE]"))
    assert (reply.prompt_tokens, reply.output_tokens, reply.cached_tokens) == (9, 2, 0)
    inside = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"completion_tokens": 5}}]}
    assert answered_in(events(chat(content="a"), inside)).output_tokens == 5
    timings = {"choices": [], "timings": {"cache_n": 3, "prompt_n": 4, "predicted_n": 5, "prompt_ms": 250.0}}
    reply = answered_in(events(chat(content="a"), STOP, timings))
    assert (reply.prompt_tokens, reply.output_tokens, reply.cached_tokens) == (7, 5, 3)
    assert reply.server == {"prefill_s": 0.25}


def test_coalesced() -> None:
    """Several outputs in one read are told; an output together with what is none is not."""
    a, b = events(chat(content="a"), chat(content="b"))

    assert answered_in([a + b, *events(STOP)]).coalesced
    assert not answered_in([a, b + events(STOP)[0]]).coalesced
    assert not answered_in([events(chat(role="assistant"))[0] + a, b, *events(STOP)]).coalesced


# --- other dialects --------------------------------------------------------------------------


def test_completions() -> None:
    """``text`` instead of ``delta``."""
    reply = answered_in(
        events(
            {"choices": [{"index": 0, "text": "a"}]}, {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
        )
    )
    assert (reply.error, reply.text, reply.chunk_at_s, reply.finish_reason) == (None, ["a"], [0.0], "length")


RESPONSES: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"status": "in_progress", "error": None}},
    {"type": "response.output_item.added", "item": {"type": "reasoning"}},
    {"type": "response.reasoning_text.delta", "delta": "hm"},
    {"type": "response.output_item.added", "item": {"type": "message", "role": "assistant"}},
    {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
    {"type": "response.output_text.delta", "delta": "H"},
    {"type": "response.output_text.delta", "delta": "i"},
    {"type": "response.output_text.done", "text": "Hi"},
]
RESPONSES_USAGE = {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}}


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ({"type": "response.completed", "response": {"status": "completed", "usage": RESPONSES_USAGE}}, "stop"),
        (
            {
                "type": "response.incomplete",
                "response": {
                    "status": "incomplete",
                    "incomplete_details": {"reason": "max_output_tokens"},
                    "usage": RESPONSES_USAGE,
                },
            },
            "length",
        ),
    ],
)
def test_responses(last: dict[str, Any], reason: str) -> None:
    """The Responses API's events: reasoning is output, text is answer, and its own names for counts."""
    said: list[dict[str, Any]] = [*RESPONSES, last]
    named = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in said]
    reply = answered_in(named)

    assert (reply.error, "".join(reply.text), reply.finish_reason) == (None, "Hi", reason)
    assert (reply.chunk_at_s, reply.first_answer_at_s) == ([2.0, 5.0, 6.0], 5.0)
    assert (reply.prompt_tokens, reply.output_tokens, reply.cached_tokens) == (9, 3, 4)


def test_responses_that_call_tools_or_fail() -> None:
    """A tool's name is output; a failed response and an error event are errors; half a stream is truncated."""
    call = {"type": "response.output_item.added", "item": {"type": "function_call", "name": "f"}}
    arguments = {"type": "response.function_call_arguments.delta", "delta": "{}"}
    done = {"type": "response.completed", "response": {"status": "completed"}}
    assert answered_in(events(call, arguments, done)).chunk_at_s == [0.0, 1.0]
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "engine died"}}}
    reply = answered_in(events(*RESPONSES, failed))
    assert (reply.error, reply.error_text) == ("server_error", "engine died")
    reply = answered_in(events({"type": "error", "code": "x", "message": "engine died"}))
    assert (reply.error, reply.error_text) == ("server_error", "engine died")
    assert answered_in(events(*RESPONSES)).error == "truncated"


def test_responses_whole() -> None:
    """A whole response: text from its message, counts, and the reason it stopped."""
    body = {
        "object": "response",
        "status": "completed",
        "error": None,
        "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
        ],
        "usage": RESPONSES_USAGE,
    }
    reply = answered(json.dumps(body, indent=2).encode(), "application/json")

    assert (reply.error, "".join(reply.text), reply.finish_reason) == (None, "Hi", "stop")
    assert (reply.chunk_at_s, reply.output_tokens) == ([], 3)


def test_ollama_lines() -> None:
    """Ollama's own lines: thinking is output, content is answer, the last line counts and times."""
    last = {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "length",
        "prompt_eval_count": 9,
        "eval_count": 3,
        "prompt_eval_duration": 250_000_000,
        "eval_duration": 1_500_000_000,
    }
    said = [
        {"model": "m", "message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": "H"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": "i"}, "done": False},
        last,
    ]
    for pieces in (lines(*said), [b"".join(lines(*said)[:1]), *lines(*said)[1:3], lines(last)[0].rstrip()]):
        reply = answered_in(pieces, "application/x-ndjson")
        assert (reply.error, "".join(reply.text), reply.finish_reason) == (None, "Hi", "length")
        assert (reply.chunk_at_s, reply.first_answer_at_s) == ([0.0, 1.0, 2.0], 1.0)
        assert (reply.prompt_tokens, reply.output_tokens) == (9, 3)
        assert reply.server == {"prefill_s": 0.25, "decode_s": 1.5}
    body = b"".join(lines(*said))
    cut = answered_in([body[i : i + 1] for i in range(len(body))], "application/x-ndjson")
    assert (cut.error, "".join(cut.text), len(cut.chunk_at_s)) == (None, "Hi", 3)
    assert answered_in(lines(*said[:2]), "application/x-ndjson").error == "truncated"
    fails = answered_in(lines(said[1], {"error": "llama runner process has terminated"}), "application/x-ndjson")
    assert (fails.error, fails.error_text) == ("server_error", "llama runner process has terminated")
    assert answered(json.dumps({**last, "message": {"content": "Hi"}}).encode(), "application/json").text == ["Hi"]
    generated = lines({"response": "H", "done": False}, {"response": "", "done": True, "eval_count": 1})
    reply = answered_in(generated, "application/x-ndjson")
    assert (reply.error, reply.text, reply.output_tokens, reply.finish_reason) == (None, ["H"], 1, "stop")


@pytest.mark.parametrize(
    "content_type",
    ["text/event-stream", "text/event-stream; charset=utf-8", "text/plain", "", "application/octet-stream"],
)
def test_streams_under_other_names(content_type: str) -> None:
    """Proxies mislabel: an event stream is one by what it holds, even after blank lines and comments."""
    for first in (b"", b"\n", b": ping\n\n", b"\xef\xbb\xbf", b"event: x\n"):
        reply = answered_in(
            [first, *events(chat(content="a"), STOP)] if first else events(chat(content="a"), STOP), content_type
        )
        assert (reply.error, reply.text) == (None, ["a"])


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain", ""])
def test_whole_answers_under_other_names(content_type: str) -> None:
    """A JSON object is one whatever it is called, pretty-printed or not, in pieces or not."""
    body = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    for indent in (None, 2):
        data = json.dumps(body, indent=indent).encode()
        for pieces in ([data], [b"\n", data[:1], data[1:9], data[9:]]):
            reply = answered_in(pieces, content_type)
            assert (reply.error, reply.text, reply.chunk_at_s, reply.finish_reason) == (None, ["Hi"], [], "stop")
        assert answered(data[:-2], content_type).error == "server_error"


def test_a_web_page_is_no_answer() -> None:
    """A proxy's log-in page with status 200 is an error that shows its beginning."""
    reply = answered(b"<!DOCTYPE html><html>Log in</html>", "text/html")

    assert reply.error == "server_error"
    assert "<!DOCTYPE" in (reply.error_text or "")


# --- errors ----------------------------------------------------------------------------------

ERRORS: list[tuple[Any, str]] = [
    ({"error": "engine died"}, "engine died"),
    ({"error": {"message": "engine died", "type": "x", "param": None, "code": 500}}, "engine died"),
    ({"error": {"error": {"message": "engine died"}}}, "engine died"),
    ({"error": {"detail": "engine died"}}, "engine died"),
    ({"error": {"code": 500}}, '{"code": 500}'),
    ({"error": ["engine died", "twice"]}, "engine died; twice"),
    ({"object": "error", "message": "engine died", "code": 500}, "engine died"),
    ({"object": "error"}, '{"object": "error"}'),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "engine died"}}, "engine died"),
    ({"detail": "engine died"}, "engine died"),
    ({"detail": [{"loc": ["body", "ignore_eos"], "msg": "Extra inputs"}]}, "Extra inputs (body.ignore_eos)"),
    ({"errors": [{"message": "engine died"}]}, "engine died"),
    ({"message": "engine died"}, "engine died"),
    ({"error": "engine\n died", "error_type": "generation"}, "engine died"),
    ({"choices": [], "error": {"message": "engine died"}}, "engine died"),
    ({"choices": [{"index": 0, "delta": {"content": "x"}}], "error": {"message": "engine died"}}, "engine died"),
]


@pytest.mark.parametrize(("said", "text"), ERRORS)
def test_errors_of_every_shape(said: dict[str, Any], text: str) -> None:
    """In a stream before or after output, in a whole body with status 200, or with its own status."""
    for before in ([], events(chat(content="a"))):
        reply = answered_in([*before, *events(said, STOP, "[DONE]")])
        assert (reply.error, reply.error_text) == ("server_error", text)
    reply = answered(json.dumps(said).encode(), "application/json")
    assert (reply.error, reply.error_text) == ("server_error", text)
    reply = answered(json.dumps(said).encode(), "application/json", 503)
    assert (reply.error, reply.error_text) == ("http_503", text)


def test_the_first_error_counts() -> None:
    """What follows an error is a consequence of it."""
    reply = answered_in(events({"error": "first"}, {"error": "second"}, "not json"))
    assert reply.error_text == "first"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b"no healthy upstream", "no healthy upstream"),
        (b"<html>\n<h1>502  Bad Gateway</h1>", "<html> <h1>502 Bad Gateway</h1>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 200_000, "x" * 300),
    ],
)
def test_refusals_that_are_no_json(body: bytes, text: str) -> None:
    """Another status is kept with the beginning of whatever came with it."""
    reply = answered_in([body[:50_000], body[50_000:100_000], body[100_000:]], "text/html", 502)
    assert (reply.error, reply.error_text) == ("http_502", text)


OVERFLOWS = [
    "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "Context size has been exceeded.",
    "The input (3000 tokens) is longer than the model's context length (2048 tokens).",
    "Requested token count exceeds the model's maximum context length of 2048 tokens.",
    "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000 `inputs` tokens and 20 `max_new_tokens`",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 3000",
    "max_tokens=99999 cannot be greater than max_model_len=2048",
    "The prompt (total length 3000) is too long to fit into the model (context length 2048)",
    "The decoder prompt (length 3000) is longer than the maximum model length of 2048",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "Prompt length (3000) exceeds max_input_len (2048)",
    "prompt is too long: 3000 tokens > 2048 maximum",
    "the input length exceeds the context length",
    {"code": "context_length_exceeded", "message": "too big"},
    {"code": 400, "message": "too big", "type": "exceed_context_size_error", "n_ctx": 1024},
]
OTHERS = [
    "engine died",
    "max_tokens must be at least 1",
    "Rate limit exceeded: too many requests",
    "The model `nope` does not exist.",
    "URI too long",
    {"message": "server busy, please try again. maximum pending requests exceeded"},
]


def test_context_overflow() -> None:
    """What servers say when a prompt no longer fits is told from other errors, with any status."""
    for error in OVERFLOWS:
        assert is_context_overflow(error), error
        said = json.dumps({"error": error}).encode()
        assert answered(said, "application/json", 400).error == "context_overflow"
        assert answered(b"data: " + said + b"\n\n").error == "context_overflow"
    for error in OTHERS:
        assert not is_context_overflow(error), error


def test_error_text_is_short_and_whole() -> None:
    """At most 300 characters in one line, whatever is thrown at it."""
    assert len(error_text("x" * 1000)) == 300
    assert error_text(None) == "null"
    assert error_text({"message": {"message": {"message": {"message": {"message": "deep"}}}}})
    assert error_text([]) == "[]"
    assert error_text({"a": {1, 2}})


def test_decode_is_total() -> None:
    """Nothing but None for what is no object."""
    assert decode(b"") is None
    assert decode(b"\x00") is None
    assert decode(b"{}") is not None
