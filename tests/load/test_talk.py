"""What one person does in one conversation, on the virtual clock."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headcount.load.talk import Talker
from headcount.records import Prompt, Reply, Request, Stage
from headcount.virtual import clock, run
from tests.load.scripted import Said, Scripted, failing, good, hold, turn
from tests.playback import Playback, Script, whole

ONE = {"users": 1}


def test_history_is_sent_again() -> None:
    """Every turn is sent with all that was said before it, the system prompt first."""
    engine = Scripted()

    hold(engine, Said(turn("a"), turn("b"), system="Be kind."), level=ONE | {"conversations_each": 1}, for_s=None)

    said = [[(m["role"], m["content"]) for m in prompt.messages] for _, prompt in engine.asked]
    first = [("system", "Be kind."), ("user", "0.0 a")]
    assert said == [first, [*first, ("assistant", "It is."), ("user", "0.0 b")]]


def test_a_pause_follows_every_answer() -> None:
    """A person thinks after each answer, the last of a conversation included."""
    requests = hold(Scripted(), Said(turn(think_s=0.5), turn(think_s=2.0)), level=ONE, for_s=9.2)

    assert [(r.conversation, r.turn) for r in requests] == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1)]
    assert [r.scheduled_at_s for r in requests] == pytest.approx([1.0, 2.5, 5.5, 7.0, 10.0])
    assert [r.think_s for r in requests] == [0.5, 2.0, 0.5, 2.0, 0.5]


def test_reading_takes_as_long_as_the_answer() -> None:
    """The time to read an answer is added to the pause, by its tokens."""
    requests = hold(Scripted(), Said(turn(think_s=1.0, reading_s_per_token=0.2)), level=ONE, for_s=8)

    assert requests[0].think_s == pytest.approx(1.0 + 8 * 0.2)
    assert requests[1].scheduled_at_s == pytest.approx(requests[0].ended_at_s + 2.6)


def test_a_failed_turn_ends_the_conversation_after_a_pause() -> None:
    """Whoever got an error starts afresh, never sooner than a second later, however little they think."""
    requests = hold(Scripted(failing), Said(turn(think_s=0.0), turn()), level=ONE, for_s=3.5)

    assert [(r.conversation, r.turn) for r in requests] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert [r.scheduled_at_s for r in requests] == pytest.approx([1, 2, 3, 4])
    assert {r.error for r in requests} == {"http_503"}
    assert {r.think_s for r in requests} == {1.0}, "by Little's law nobody is missing"
    assert {len(r.error_text or "") for r in requests} == {300}


def test_a_conversation_ends_before_the_context_overflows() -> None:
    """With a known limit no prompt is sent that would not fit."""

    def long(prompt: Prompt, reply: Reply) -> float:
        good(prompt, reply)
        reply.prompt_tokens = 100 * len(prompt.messages)
        return 1.0

    said = Said(*[turn(planned_prompt_tokens=100)] * 9)
    requests = hold(Scripted(long), said, level=ONE | {"conversations_each": 2}, for_s=None, context_tokens=615)

    assert Counter(r.conversation for r in requests) == {0: 3, 1: 3}
    assert {r.error for r in requests} == {None}


def test_the_first_overflow_teaches_the_limit() -> None:
    """Where nobody tells the context's length, one refused prompt is enough to know it."""

    def limited(prompt: Prompt, reply: Reply) -> float:
        good(prompt, reply)
        reply.prompt_tokens = 100 * len(prompt.messages)
        if reply.prompt_tokens + 8 > 520:
            reply.error, reply.status = "context_overflow", 400
        return 1.0

    said = Said(*[turn(planned_prompt_tokens=100)] * 9)
    requests = hold(Scripted(limited), said, level=ONE | {"conversations_each": 4}, for_s=None)

    assert [r.conversation for r in requests if r.error == "context_overflow"] == [0]
    assert Counter(r.conversation for r in requests)[3] == 3


def test_a_cut_request_keeps_what_was_seen() -> None:
    """An answer under way when its level ends is a request cut at its age, with the chunks that had come."""
    requests = hold(Scripted(), Said(turn()), level=ONE, for_s=0.5)

    (cut,) = requests
    assert (cut.error, cut.ended_at_s, cut.output_chars) == ("cut", 1.5, 3)
    assert cut.chunk_at_s == [1.25]


def test_who_gives_up_goes_on() -> None:
    """An unfinished answer is left alone when its time is up; the pause and the next turn follow."""
    said = Said(turn(think_s=0.5, cancel_after_s=0.4), turn(cancel_after_s=5.0))
    requests = hold(Scripted(), said, level=ONE | {"conversations_each": 1}, for_s=None)

    assert [(r.turn, r.error) for r in requests] == [(1, "cut"), (2, None)]
    assert [r.ended_at_s for r in requests] == pytest.approx([1.4, 2.9])
    assert requests[1].scheduled_at_s == pytest.approx(1.9)


def test_stages_lie_outside_the_answer() -> None:
    """A step before the question delays it, one after the answer delays the pause; neither is the server's time."""
    stages = (Stage("retrieval", 0.3), Stage("speech", 2.0, after=True))
    requests = hold(Scripted(), Said(turn(stages=stages)), level=ONE | {"conversations_each": 2}, for_s=None)

    assert [r.scheduled_at_s for r in requests] == pytest.approx([1.3, 1.3 + 1.0 + 2.0 + 0.5 + 0.3])
    assert [r.ended_at_s - r.scheduled_at_s for r in requests] == pytest.approx([1.0, 1.0])
    assert requests[0].stage_s == pytest.approx({"retrieval": 0.3, "speech": 2.0})
    assert {r.think_s for r in requests} == {0.5}


def test_an_answer_cut_in_a_later_stage_is_whole() -> None:
    """The level's end in the stage after an answer takes nothing from the answer."""
    requests = hold(Scripted(), Said(turn(stages=(Stage("speech", 9.0, after=True),))), level=ONE, for_s=3)

    assert [(r.error, r.ended_at_s) for r in requests] == [(None, 2.0)]


def test_a_stage_can_be_a_real_call() -> None:
    """A stage with an address is a GET of that address, timed; one that fails counts as long as it took."""

    async def main() -> None:
        async with Playback(Script([(0.05, whole(b"{}"))])) as service:
            requests: list[Request] = []
            talker = Talker(Scripted(), 0, requests.append, origin_s=0.0, context_tokens=None)
            urls = (Stage("found", url=f"{service.url}/find?q=1"), Stage("lost", url="http://127.0.0.1:9/"))
            conversation = next(Said(turn(stages=urls)).conversations(0, "level 0"))
            began_s = clock()()
            await talker.hold(0, 0, conversation, began_s)
            await talker.close()
            assert service.seen[0].line == "GET /find?q=1 HTTP/1.1"
            (request,) = requests
            assert request.stage_s is not None
            assert request.stage_s["found"] >= 0.05
            assert request.stage_s["lost"] >= 0.0
            assert request.scheduled_at_s - began_s == pytest.approx(sum(request.stage_s.values()), abs=0.05)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_fault_of_ours_is_no_silence() -> None:
    """An engine that raises ends the person's life: the request is recorded, and the crowd says what happened."""

    def broken(prompt: Prompt, reply: Reply) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hold(Scripted(broken), Said(turn()), level=ONE, for_s=None)


def test_the_clock_is_the_loops() -> None:
    """Nothing here waits in real time."""
    assert run(_an_hour()) == 3600.0


async def _an_hour() -> float:
    await asyncio.sleep(3600)
    return clock()()
