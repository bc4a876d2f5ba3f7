"""Stock aiohttp, as most load generators use it; called like ``floor.py``, closed loop only."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from array import array
from pathlib import Path

import aiohttp

now_ns = time.monotonic_ns


async def ask(session: aiohttp.ClientSession, url: str, body: dict[str, object]) -> tuple[int, array[int]]:
    """One answer, line by line."""
    began_ns, at_ns = now_ns(), array("q")
    async with session.post(url, json=body) as response:
        async for line in response.content:
            if line.startswith(b"data: "):
                read_ns, data = now_ns(), line[6:].strip()
                if data != b"[DONE]":
                    said = json.loads(data)
                    if said["choices"] and said["choices"][0]["delta"].get("content"):
                        at_ns.append(read_ns)
    return began_ns, at_ns


async def measure() -> list[tuple[int, array[int]]]:
    """Everybody starts at once and asks again at once."""
    port, people, answers, tokens = map(int, sys.argv[1:5])
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    messages = [{"role": "user", "content": "hello"}]
    options: dict[str, object] = {"model": "mock", "stream": True, "max_tokens": tokens, "messages": messages}
    found: list[tuple[int, array[int]]] = []
    unasked = iter(range(answers))
    connector, patience = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=patience) as session:

        async def person() -> None:
            for _ in unasked:
                answer = await ask(session, url, options)
                found.append(answer)

        await asyncio.gather(*(person() for _ in range(people)))
    return found


if __name__ == "__main__":
    lines = (json.dumps([began_ns, *at_ns]) for began_ns, at_ns in asyncio.run(measure()))
    Path(sys.argv[5]).write_text("\n".join(lines))
