"""The built-in server keeps its schedule and tells when its tokens really left."""

from __future__ import annotations

import asyncio
import sys

from headcount.engine.openai import OpenAI
from headcount.http import Client, Target
from headcount.loopback import FIRST_TOKEN_S, TOKEN_S
from headcount.records import Prompt, Reply

ASKED = Prompt(({"role": "user", "content": "why?"},), 10)


def test_answers_come_on_schedule() -> None:
    """Asked as any server is: it has a model, streams so many tokens, and never writes one before its time."""

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headcount.loopback"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        engine = OpenAI(Client(Target(url=f"http://127.0.0.1:{port}")))
        facts = await engine.facts()
        await engine.prepare(facts, ASKED)
        replies = [Reply() for _ in range(20)]
        await asyncio.gather(*(engine.send(ASKED, reply) for reply in replies))
        await engine.close()
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0

        assert facts.model == "loopback"
        for reply in replies:
            assert (reply.error, reply.output_tokens, reply.finish_reason) == (None, 10, "length")
            assert reply.sent_at_s is not None
            assert reply.chunk_at_s[0] - reply.sent_at_s >= FIRST_TOKEN_S - 0.001
            assert reply.chunk_at_s[-1] - reply.sent_at_s >= FIRST_TOKEN_S + 9 * TOKEN_S - 0.001
            assert reply.server is not None
            assert FIRST_TOKEN_S <= reply.server["ttft_s"] < reply.chunk_at_s[0] - reply.sent_at_s + 0.001

    asyncio.run(asyncio.wait_for(main(), 60))
