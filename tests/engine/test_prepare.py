"""Before measuring: what a server says of itself, what it refuses, and why it cannot be measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headcount.engine import openai
from headcount.engine.openai import OpenAI
from headcount.errors import ServerError
from headcount.http import Client, Target
from headcount.records import EngineFacts, Prompt
from tests.engine.asked import PROMPT, engine_of, run, said, send
from tests.playback import DONE, FINISH, GOOD, USAGE, Playback, Script, event, stream, token, whole

FACTS = EngineFacts(engine="openai", model="m", models=("m", "n"))


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai, "LOOK_AGAIN_S", 0.01)


# --- facts -----------------------------------------------------------------------------------

MODELS = {
    "object": "list",
    "data": [
        {"id": "qwen", "object": "model", "max_model_len": 2048, "parent": None},
        {"id": "lora1", "object": "model", "parent": "qwen"},
    ],
}


def test_facts() -> None:
    """Models, adapters and their bases, the context; the first model unless one is named."""

    async def main() -> None:
        async with Playback(said(MODELS)) as server:
            engine = engine_of(server, model=None)
            assert await engine.facts() == EngineFacts(
                engine="openai",
                address=server.url,
                model="qwen",
                models=("qwen",),
                adapters=("lora1",),
                adapter_bases={"lora1": "qwen"},
                context_tokens=2048,
            )
            assert server.seen[0].line == "GET /v1/models HTTP/1.1"
            named = engine_of(server, model="other")
            assert (await named.facts()).model == "other"
            other_process = OpenAI(engine.client, None, dict(engine.learned))
            assert other_process.body(PROMPT)["model"] == "qwen"
            await engine.close()
            await named.close()

    run(main)


@pytest.mark.parametrize(
    ("script", "says", "hint"),
    [
        (Script([(0, whole(b"<html>", "text/html"))]), "not JSON", "port"),
        (Script([(0, whole(b'["a"]'))]), "not JSON", "port"),
        (Script([(0, whole(b"[" * 99_999))]), "not JSON", "port"),
        (Script([(0, whole(b"{}", status=404))]), "404", "OpenAI-compatible"),
        (Script([(0, whole(b'{"error":"Unauthorized"}', status=401))]), "refuses us", "API key"),
        (Script([(0, whole(b"", status=403))]), "refuses us", "API key"),
        (Script([(0, whole(b'{"data":[]}'))]), "no model", "model"),
        (Script([(0, whole(b'{"data":[7,{"x":1}]}'))]), "no model", "model"),
        (Script([(0, whole(b"", "", 301, "Location: /v2"))]), "redirects", "address"),
        (Script([], "eof"), "closed", "port"),
    ],
)
def test_no_facts(script: Script, says: str, hint: str) -> None:
    """A server that is none of ours is refused with one sentence and a remedy."""

    async def main() -> None:
        async with Playback(script) as server:
            engine = engine_of(server, model=None)
            with pytest.raises(ServerError, match=says) as caught:
                await engine.facts()
            assert hint in caught.value.hint
            assert server.url in caught.value.message
            await engine.close()

    run(main)


def test_a_named_model_needs_no_list() -> None:
    """A server without a list of models is asked for the one that was named."""

    async def main() -> None:
        async with Playback(said({"detail": "Not Found"}, 404)) as server:
            engine = engine_of(server, model="m")
            assert (await engine.facts()).model == "m"
            await engine.close()

    run(main)


# --- preparing -------------------------------------------------------------------------------


class Eager(OpenAI):
    """Knows one field more, as the engines for one kind of server do."""

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        return {"ignore_eos": True, "min_tokens": prompt.max_output_tokens}


async def prepared(server: Playback, kind: type[OpenAI] = OpenAI, **options: Any) -> tuple[OpenAI, tuple[str, ...]]:
    """An engine that has prepared itself, and its notes."""
    engine = kind(Client(Target(url=server.url, first_token_timeout_s=0.5)), None, **options)
    notes = await engine.prepare(FACTS, PROMPT)
    return engine, notes


def test_a_good_server_needs_nothing() -> None:
    """One request, nothing learned but the model, no notes."""

    async def main() -> None:
        async with Playback(GOOD) as server:
            engine, notes = await prepared(server, Eager)
            assert (notes, engine.learned) == ((), {"model": "m"})
            assert len(server.seen) == 1
            await engine.close()

    run(main)


@pytest.mark.parametrize(
    ("refusal", "gone", "kept"),
    [
        (
            {"detail": "Unexpected fields in the request: {'ignore_eos'}"},
            {"ignore_eos"},
            {"min_tokens", "stream_options"},
        ),
        (
            {"detail": [{"loc": ["body", f], "msg": "Extra inputs"} for f in ("ignore_eos", "min_tokens")]},
            {"ignore_eos", "min_tokens"},
            {"stream_options"},
        ),
        ({"error": {"message": "stream_options is not supported"}}, {"stream_options"}, {"ignore_eos", "min_tokens"}),
        ({"error": "bad request"}, {"ignore_eos", "min_tokens", "stream_options"}, set()),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_refused_fields_are_left_out(refusal: Any, gone: set[str], kept: set[str], status: int) -> None:
    """What the server refuses is left out from then on, in this process and in others, and noted."""

    async def main() -> None:
        async with Playback(said(refusal, status), GOOD) as server:
            engine, notes = await prepared(server, Eager)
            assert set(engine.learned["refused"]) == gone
            assert all(any(field in note for note in notes) for field in gone)
            await send(engine)
            other_process = Eager(engine.client, None, json.loads(json.dumps(engine.learned)))
            await send(other_process)
            bodies = [json.loads(seen.body) for seen in server.seen]
            assert gone | kept <= set(bodies[0])
            assert bodies[1] == bodies[2] == bodies[3]
            assert kept <= set(bodies[1])
            assert not gone & set(bodies[1])
            await engine.close()

    run(main)


def test_several_refusals_one_after_the_other() -> None:
    """Each refusal is learned from until an answer comes."""

    async def main() -> None:
        scripts = [
            said({"error": {"message": "Use 'max_completion_tokens' instead of 'max_tokens'."}}, 400),
            said({"detail": "unexpected: min_tokens"}, 422),
            said({"detail": "unexpected: ignore_eos"}, 422),
            GOOD,
        ]
        async with Playback(*scripts) as server:
            engine, notes = await prepared(server, Eager)
            assert len(notes) == 3
            last = json.loads(server.seen[-1].body)
            assert last["max_completion_tokens"] == 2
            assert not {"max_tokens", "min_tokens", "ignore_eos"} & set(last)
            await engine.close()

    run(main)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_model_that_is_being_loaded_is_waited_for(status: int) -> None:
    """Nothing is measured before a real answer has come (A45); neither facts nor preparing give up at once."""

    async def main() -> None:
        loading = said({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, status)
        async with Playback(loading, loading, loading, GOOD) as server:
            engine, _ = await prepared(server)
            assert len(server.seen) == 4
            await engine.close()
        async with Playback(loading, loading, said(MODELS)) as server:
            engine = engine_of(server, model=None)
            assert (await engine.facts()).model == "qwen"
            await engine.close()
        async with Playback(loading) as server:
            engine = engine_of(server, load_timeout_s=0.05)
            for waiting in (engine.facts(), engine.prepare(FACTS, PROMPT)):
                with pytest.raises(ServerError, match="not there") as caught:
                    await waiting
                assert "load_timeout_s" in caught.value.hint
            await engine.close()

    run(main)


def test_a_busy_engine_inside_a_stream_is_waited_for_no_longer() -> None:
    """An error inside a good status is no sign of loading."""

    async def main() -> None:
        async with Playback(stream((0, event('{"error":{"message":"engine died"}}')))) as server:
            with pytest.raises(ServerError, match="engine died"):
                await prepared(server)

    run(main)


@pytest.mark.parametrize(
    ("script", "says", "hint"),
    [
        (said({"error": {"message": "The model `m` does not exist."}}, 404), "does not know 'm'", "m, n"),
        (said({"detail": "Not Found"}, 404), "no usable answer", "/v1/chat/completions"),
        (said({"error": "Unauthorized"}, 401), "refuses us", "API key"),
        (said({"error": {"message": "messages is required"}}, 400), "messages is required", ""),
        (said({"error": {"message": "maximum context length is 1"}}, 400), "context", ""),
        (
            said({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
            "not stream",
            "streamed = false",
        ),
        (Script([(0, whole(b"<html>", "text/html"))]), "not JSON", ""),
        (Script([(0, whole(b"", "", 307, "Location: https://b"))]), "https://b", "address"),
        (Script([], "eof"), "closed", ""),
        (Script([], "hang"), "first-token", "time-outs"),
    ],
)
def test_servers_that_cannot_be_measured(script: Script, says: str, hint: str) -> None:
    """Each is refused before measuring, with what it said and what to do."""

    async def main() -> None:
        async with Playback(script) as server:
            with pytest.raises(ServerError, match=says) as caught:
                await prepared(server)
            assert hint in caught.value.hint
            assert caught.value.hint

    run(main)


def test_notes() -> None:
    """Missing counts, short answers, held-back streams and closed connections are noted once, before measuring."""

    async def main() -> None:
        async with Playback(stream((0, token("H")), (0.02, FINISH + DONE))) as server:
            engine, notes = await prepared(server)
            assert any("no token counts" in note for note in notes)
            await engine.close()
        short = event('{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}')
        async with Playback(stream((0, token("H")), (0.02, FINISH + short + DONE))) as server:
            engine, notes = await prepared(server)
            assert any("1 of 2 tokens" in note for note in notes)
            await engine.close()
        held = token("a") + token("b") + token("c")
        async with Playback(stream((0, held + FINISH + USAGE + DONE))) as server:
            engine, notes = await prepared(server)
            assert any("hold streams back" in note for note in notes)
            await engine.close()
        closing = Script(GOOD.writes, "eof")
        async with Playback(closing) as server:
            engine, notes = await prepared(server)
            assert any("closes the connection" in note for note in notes)
            assert engine.learned["closes_connections"] is True
            other_process = OpenAI(Client(Target(url=server.url)), None, dict(engine.learned))
            assert await other_process.client.open(5) == 0
            assert [(await send(other_process)).error for _ in range(3)] == [None] * 3
            assert other_process.client.counts.resends == 0
            await engine.close()

    run(main)
