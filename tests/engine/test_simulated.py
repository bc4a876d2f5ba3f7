"""The simulated engine answers like a server, alike every time, and falls ill on demand."""

import asyncio
import itertools
from typing import Any

import pytest
import uvloop

from headcount.engine import engine_class
from headcount.engine.simulated import Simulated
from headcount.errors import ScenarioError
from headcount.records import Prompt, Reply
from headcount.virtual import clock, run

CALM: dict[str, Any] = {"jitter": 0.0, "round_trip_s": 0.0}


def asked(text: str = "How do rivers find the sea?", tokens: int = 40, **fields: Any) -> Prompt:
    """One question."""
    return Prompt(({"role": "user", "content": text},), tokens, **fields)


def answers(prompts: list[Prompt], **options: Any) -> list[Reply]:
    """All prompts at once, on the virtual clock."""

    async def main() -> list[Reply]:
        engine = Simulated(**{**CALM, **options})
        replies = [Reply() for _ in prompts]
        await asyncio.gather(*(engine.send(p, r) for p, r in zip(prompts, replies, strict=True)))
        return replies

    return run(main())


def seen(reply: Reply) -> dict[str, Any]:
    """Everything a reply holds."""
    return {name: getattr(reply, name) for name in Reply.__slots__}


def test_a_whole_answer_comes() -> None:
    """As many tokens as allowed, each an event of its own, with usage and the server's own times."""
    (reply,) = answers([asked()])

    assert reply.error is None
    assert reply.status == 200
    assert reply.output_tokens == len(reply.chunk_at_s) == 40
    assert reply.prompt_tokens == 3 + 4 + 6
    assert reply.finish_reason == "length"
    assert reply.first_answer_at_s == reply.chunk_at_s[0]
    assert reply.ended_at_s == pytest.approx(reply.chunk_at_s[-1], abs=1e-6)
    assert reply.server is not None
    assert reply.server["ttft_s"] == pytest.approx(reply.chunk_at_s[0])
    assert all(later > earlier for earlier, later in itertools.pairwise(reply.chunk_at_s))


def test_the_table_knows_it() -> None:
    """It is found by its name."""
    assert engine_class("simulated") is Simulated


def test_one_seed_gives_the_same_facts() -> None:
    """Two runs are equal to the last bit; another seed is not."""
    prompts = [asked(f"question {n}", 20 + n) for n in range(30)]
    options = {"jitter": 0.1, "output_share": 0.7, "output_spread": 0.3, "error_share": 0.1}

    first, again, other = (answers(prompts, seed=seed, **options) for seed in (5, 5, 6))

    assert [seen(r) for r in first] == [seen(r) for r in again]
    assert [seen(r) for r in first] != [seen(r) for r in other]


def test_own_history_is_found_again() -> None:
    """The second turn of a conversation reuses the first; a stranger's words are never reused."""

    async def main() -> tuple[Reply, Reply]:
        engine = Simulated(**CALM)
        first, second, stranger = Reply(), Reply(), Reply()
        question = {"role": "user", "content": "word " * 200}
        await engine.send(Prompt((question,), 50), first)
        answer = {"role": "assistant", "content": "".join(first.text)}
        await engine.send(Prompt((question, answer, {"role": "user", "content": "and then?"}), 50), second)
        await engine.send(asked("other " * 200), stranger)
        return second, stranger

    second, stranger = run(main())

    assert second.prompt_tokens == 3 + 3 * 4 + 200 + 50 + 2
    assert second.cached_tokens == (3 + 4 + 200 + 50 - 1) // 16 * 16
    assert stranger.cached_tokens == 0


def test_a_cut_request_keeps_what_was_seen() -> None:
    """Cancelled in mid-answer it leaves the server and keeps the tokens that had arrived."""

    async def main() -> tuple[Reply, dict[str, float], float]:
        engine = Simulated(**CALM)
        reply = Reply()
        task = asyncio.create_task(engine.send(asked(tokens=400), reply))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cut_at_s = clock()()
        await asyncio.sleep(1.0)
        return reply, await engine.gauges(), cut_at_s

    reply, gauges, cut_at_s = run(main())

    assert 10 < len(reply.chunk_at_s) < 100
    assert reply.chunk_at_s[-1] <= cut_at_s == reply.ended_at_s
    assert reply.output_tokens is None
    assert gauges["server_running_requests"] == 0
    assert gauges["server_kv_used_fraction"] == 0


def test_slots_make_people_wait() -> None:
    """With one slot the second answer begins after the first has ended."""
    first, second = answers([asked("a"), asked("b")], slots=1)

    assert second.chunk_at_s[0] > first.chunk_at_s[-1]
    assert second.server is not None
    assert second.server["queue_s"] == pytest.approx(first.chunk_at_s[-1])


def test_gauges_tell_the_queue() -> None:
    """Running and waiting are what was sent and not yet answered."""

    async def main() -> tuple[dict[str, float], dict[str, float]]:
        engine = Simulated(slots=2, **CALM)
        tasks = [asyncio.create_task(engine.send(asked(f"{n}", 50), Reply())) for n in range(5)]
        await asyncio.sleep(0.1)
        busy = await engine.gauges()
        await asyncio.gather(*tasks)
        return busy, await engine.gauges()

    busy, idle = run(main())

    assert (busy["server_running_requests"], busy["server_waiting_requests"]) == (2, 3)
    assert busy["server_kv_used_fraction"] > 0
    assert (idle["server_running_requests"], idle["server_waiting_requests"]) == (0, 0)
    assert idle["server_output_tokens_total"] == 250


def test_refusals_are_errors_of_the_reply() -> None:
    """Too long, too many, unknown: each with its status and kind."""
    (long,) = answers([asked("word " * 900, 200)], context_tokens=1024)
    crowd = answers([asked(f"{n}") for n in range(5)], slots=2, queue_limit=1)
    (unknown,) = answers([asked(model="nobody")])

    assert (long.status, long.error) == (400, "context_overflow")
    assert [r.error for r in crowd] == [None, None, None, "http_503", "http_503"]
    assert (unknown.status, unknown.error) == (404, "http_404")


def test_a_whole_reply_has_no_chunks() -> None:
    """Not streamed: no event times, but the end, the text and the usage."""
    (reply,) = answers([asked(streamed=False)])

    assert reply.chunk_at_s == []
    assert reply.first_answer_at_s is None
    assert reply.output_tokens == 40
    assert reply.first_byte_at_s == pytest.approx(reply.ended_at_s)


@pytest.mark.parametrize("kind", ["http_500", "disconnect", "server_error", "truncated"])
def test_errors_come_in_their_share(kind: str) -> None:
    """About the asked share fails, with the asked kind; what came before the failure is kept."""
    replies = answers([asked(f"{n}") for n in range(200)], error_share=0.2, error_kind=kind)
    failed = [r for r in replies if r.error is not None]

    assert 20 <= len(failed) <= 60
    assert {r.error for r in failed} == {kind}
    assert all(bool(r.chunk_at_s) == (kind in ("server_error", "truncated")) for r in failed)


def test_errors_come_in_bursts() -> None:
    """With a period, errors happen only in its beginning."""

    async def main() -> list[str | None]:
        engine = Simulated(error_share=1.0, error_every_s=10.0, error_for_s=3.0, **CALM)
        errors = []
        for _ in range(20):
            began_s, reply = clock()(), Reply()
            await engine.send(asked(tokens=1), reply)
            errors.append(reply.error)
            await asyncio.sleep(began_s + 1.0 - clock()())
        return errors

    assert [n for n, error in enumerate(run(main())) if error] == [0, 1, 2, 10, 11, 12]


def test_sick_servers_show_their_symptom() -> None:
    """Buffering, stalls, drift, throttling and a hidden cap each change what they are meant to change."""
    (well,) = answers([asked()])
    (buffered,) = answers([asked()], buffered=True)
    (stalled,) = answers([asked()], stall_share=1.0, stall_s=2.0)
    (slow,) = answers([asked()], throttle_after_s=0.0, throttle_factor=2.0)
    (drifting,) = answers([asked()], drift_per_hour=3600.0)
    capped = answers([asked("a"), asked("b")], proxy_limit=1)

    assert buffered.chunk_at_s == [well.chunk_at_s[-1]] * 40
    assert buffered.coalesced
    assert max(b - a for a, b in itertools.pairwise(stalled.chunk_at_s)) > 2.0
    assert stalled.ended_at_s == pytest.approx(well.chunk_at_s[-1] + 2.0)
    assert slow.chunk_at_s == pytest.approx([2.0 * at_s for at_s in well.chunk_at_s])
    assert drifting.chunk_at_s[-1] > well.chunk_at_s[-1]
    assert capped[1].chunk_at_s[0] > capped[0].chunk_at_s[-1]


def test_chunks_may_carry_several_tokens() -> None:
    """Fewer events, the first and the last token at their times."""
    (single,) = answers([asked(tokens=10)])
    (merged,) = answers([asked(tokens=10)], tokens_per_chunk=4)

    assert merged.output_tokens == 10
    assert merged.chunk_at_s == [single.chunk_at_s[n] for n in (0, 4, 8, 9)]


def test_it_runs_on_the_real_clock() -> None:
    """The same engine on an ordinary loop keeps its times, without a busy loop."""

    async def main() -> tuple[Reply, float]:
        engine = Simulated(overhead_s=0.002, weights_s=0.0, token_s=0.0, **CALM)
        began_s, reply = clock()(), Reply()
        await engine.send(asked(tokens=100), reply)
        return reply, began_s

    reply, began_s = asyncio.run(main())

    assert reply.output_tokens == len(reply.chunk_at_s) == 100
    assert reply.ended_at_s is not None
    assert 0.2 < reply.ended_at_s - began_s < 2.0


@pytest.mark.parametrize("tokens", [1, 2, 30])
def test_it_runs_on_uvloop(tokens: int) -> None:
    """Timers that fire a little early there lose no token."""

    async def main() -> Reply:
        engine, reply = Simulated(**CALM), Reply()
        await engine.send(asked(tokens=tokens), reply)
        return reply

    reply = uvloop.run(main())

    assert reply.error is None
    assert len(reply.chunk_at_s) == tokens
    assert reply.ended_at_s is not None
    assert reply.ended_at_s >= reply.chunk_at_s[-1]


def test_facts_name_the_server() -> None:
    """What a measured server would tell: model, context, slots, memory."""
    facts = run(Simulated(slots=20, adapters=["law"], **CALM).facts())

    assert facts.engine == "simulated"
    assert facts.slots == 20
    assert facts.models == ("simulated-8b-awq", "law")
    assert facts.context_tokens == 8192
    assert facts.details["policy"] == "vllm"


@pytest.mark.parametrize("policy", ["vllm", "sglang", "llamacpp", "ollama"])
def test_every_policy_answers(policy: str) -> None:
    """Forty questions at once are all answered under each engine's schedule."""
    replies = answers([asked(f"{n}") for n in range(40)], policy=policy)

    assert {r.error for r in replies} == {None}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slotz": 4}, "slots"),
        ({"slots": "many"}, "slots"),
        ({"server": "moon"}, "home"),
        ({"speed": 0.0}, "speed"),
        ({"error_kind": "http_abc"}, "http_503"),
        ({"slots": 4096}, "max_batched_tokens"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    """One sentence that names the option and what would do."""
    with pytest.raises(ScenarioError) as caught:
        Simulated(**options)

    assert words in caught.value.message + caught.value.hint


def test_hardware_from_the_catalogue() -> None:
    """A GPU and a model instead of a named server; two cards are faster; what does not fit says what would."""

    def last_token_s(**options: Any) -> float:
        async def main() -> float:
            engine, reply = Simulated(model="Qwen3-8B-AWQ", **CALM, **options), Reply()
            await engine.send(asked(tokens=100), reply)
            return reply.chunk_at_s[-1]

        return run(main())

    facts = run(Simulated(model="Qwen3-8B-AWQ", gpu="RTX 4090", **CALM).facts())

    assert (facts.model, facts.quantization, facts.slots) == ("Qwen3-8B-AWQ", "awq", 256)
    assert 80_000 < (facts.kv_pool_tokens or 0) < 130_000
    assert last_token_s(gpu="RTX 4090", gpus=2) < last_token_s(gpu="RTX 4090") < last_token_s(gpu="RTX 3060")
    with pytest.raises(ScenarioError) as caught:
        Simulated(model="Qwen3-32B", gpu="RTX 4090")
    assert "70.2 GB" in caught.value.message
    assert "A100" in caught.value.hint
    with pytest.raises(ScenarioError, match="needs a model"):
        Simulated(gpu="RTX 4090")
    with pytest.raises(ScenarioError, match="slots"):
        Simulated(model="Qwen3-8B", gpu="RTX 4090", policy="llamacpp", slots=8)
