"""Locust as its documentation has it, with its faster client: answers are read line by line as they come.

``python locust_people.py PORT PEOPLE ANSWERS TOKENS OUT``, as ``floor.py``, closed loop only.
"""

# ruff: noqa: E402 - gevent has to be first
from gevent import monkey

monkey.patch_all()

import json
import sys
import time
from pathlib import Path

import gevent
from locust import FastHttpUser
from locust.env import Environment

now_ns = time.monotonic_ns
PORT, PEOPLE, ANSWERS, TOKENS = map(int, sys.argv[1:5])
MESSAGES = [{"role": "user", "content": "hello"}]
BODY = {"model": "mock", "stream": True, "max_tokens": TOKENS, "messages": MESSAGES}
found: list[list[int]] = []


class Person(FastHttpUser):  # type: ignore[misc]
    """Asks again at once."""

    host = f"http://127.0.0.1:{PORT}"

    def ask(self) -> None:
        """One answer."""
        at_ns = [now_ns()]
        for line in self.client.iter_lines("/v1/chat/completions", "POST", json=BODY):
            if line.startswith("data: ") and line != "data: [DONE]":
                said = json.loads(line[6:])
                if said["choices"] and said["choices"][0]["delta"].get("content"):
                    at_ns.append(now_ns())
        found.append(at_ns)

    tasks = (ask,)


def main() -> None:
    """Everybody starts at once; enough answers end it."""
    environment = Environment(user_classes=[Person])
    runner = environment.create_local_runner()
    runner.start(PEOPLE, spawn_rate=PEOPLE)
    while len(found) < ANSWERS:
        gevent.sleep(0.1)
    Path(sys.argv[5]).write_text("\n".join(map(json.dumps, [line for line in found if len(line) == TOKENS + 1])))
    runner.quit()


if __name__ == "__main__":
    main()
