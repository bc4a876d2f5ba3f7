"""The client asks as it should, gets whole answers however they are framed, and says clearly when there are none."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headcount.errors import ScenarioError, ServerError
from headcount.http import Client, Response, Target
from tests.playback import CHUNKED, Playback, Script, chunk, head, whole

Run = Callable[[Any], Any]
CERT = Path(__file__).parent.parent / "data" / "tls" / "cert.pem"
OK = whole(b'{"a":1}')


async def get(server: Playback, **target: Any) -> Response:
    """One answer from the server."""
    client = Client(Target(url=server.url, **target))
    try:
        return await client.get("/a")
    finally:
        await client.close()


def tls() -> ssl.SSLContext:
    """The server's side, with a certificate for localhost that nobody trusts by itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERT, CERT.with_name("key.pem"))
    return context


# --- asking ----------------------------------------------------------------------------------


def test_what_is_asked(run: Run) -> None:
    """Line, host, length, key and headers are right; compression is never asked for; given headers replace ours."""

    async def main() -> None:
        async with Playback(Script([(0, OK)])) as server:
            headers = {"X-Team": "a", "User-Agent": "mine", "Content-Length": "99"}
            client = Client(Target(url=f"{server.url}/base/v1", api_key="k3y", headers=headers))
            answer = await client.post("/v1/chat", b'{"b":2}')
            await client.get("/metrics")
            await client.close()

            assert (answer.status, answer.body) == (200, b'{"a":1}')
            assert answer.headers["content-type"] == "application/json"
            post, metrics = server.seen
            assert post.line == "POST /base/v1/chat HTTP/1.1"
            assert post.body == b'{"b":2}'
            assert metrics.line == "GET /base/metrics HTTP/1.1"
            assert post.headers == {
                "host": f"127.0.0.1:{server.port}",
                "user-agent": "mine",
                "accept": "*/*",
                "accept-encoding": "identity",
                "content-type": "application/json",
                "authorization": "Bearer k3y",
                "x-team": "a",
                "content-length": "7",
            }

    run(main())


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0b", "✅"])
def test_headers_cannot_be_smuggled(run: Run, value: str) -> None:
    """A key or header that HTTP cannot carry is refused before anything is sent."""

    async def main() -> None:
        with pytest.raises(ScenarioError):
            Client(Target(url="http://a", api_key=value))
        with pytest.raises(ScenarioError):
            Client(Target(url="http://a", headers={"x": value}))

    run(main())


def test_sockets_and_addresses(run: Run, tmp_path: Path) -> None:
    """IPv6 and Unix sockets."""

    async def main() -> None:
        async with Playback(Script([(0, OK)]), host="::1") as server:
            assert (await get(server)).status == 200
            assert server.seen[0].headers["host"] == f"[::1]:{server.port}"
        async with Playback(Script([(0, OK)]), socket_path=str(tmp_path / "s")) as server:
            assert (await get(server)).status == 200
            assert server.seen[0].headers["host"] == "localhost"

    run(main())


def test_a_name_with_several_addresses(run: Run) -> None:
    """The address that answers is found, and remembered."""

    async def main() -> None:
        async with Playback(Script([(0, OK)])) as server:
            client = Client(Target(url=f"http://localhost:{server.port}"))
            client._places = [("::1", server.port, socket.AF_INET6), ("127.0.0.1", server.port, socket.AF_INET)]
            assert (await client.get("/")).status == 200
            assert client._places[0][0] == "127.0.0.1"
            await client.close()

    run(main())


def test_tls(run: Run) -> None:
    """A given CA is trusted, an unknown one refused with a remedy, and anything believed only when told to."""

    async def main() -> None:
        async with Playback(Script([(0, OK)]), tls=tls()) as server:
            assert (await get(server, ca_file=str(CERT))).body == b'{"a":1}'
            assert (await get(server, insecure=True)).body == b'{"a":1}'
            with pytest.raises(ServerError, match="certificate is not trusted") as caught:
                await get(server)
            assert "ca_file" in caught.value.hint

    run(main())


def test_tls_where_there_is_none(run: Run) -> None:
    """https to a plain server, and http to one that speaks TLS: told apart, with the remedy."""

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ServerError) as caught:
            await Client(Target(url=f"https://127.0.0.1:{port}")).get("/")
        assert "http://" in caught.value.hint
        server.close()
        await server.wait_closed()
        async with Playback(Script([(0, OK)]), tls=tls()) as secret:
            with pytest.raises(ServerError) as caught:
                await Client(Target(url=f"http://127.0.0.1:{secret.port}")).get("/")
            assert "https://" in caught.value.hint

    run(main())


def test_a_ca_file_that_is_none(run: Run) -> None:
    """A CA file that cannot be read is the scenario's fault."""

    async def main() -> None:
        with pytest.raises(ScenarioError, match="nowhere"):
            Client(Target(url="https://a", ca_file="/nowhere.pem"))

    run(main())


# --- answers ---------------------------------------------------------------------------------

FRAMED: list[tuple[str, list[bytes]]] = [
    ("length", [whole(b"hello", "text/plain")]),
    ("length, in pieces", [head("text/plain", 200, "Content-Length: 5"), b"he", b"llo"]),
    ("no body", [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]),
    ("no content", [b"HTTP/1.1 204 No Content\r\n\r\n"]),
    ("chunked", [head("text/plain", 200, CHUNKED), chunk(b"he"), chunk(b"llo") + chunk(b"")]),
    ("chunk extensions", [head("text/plain", 200, CHUNKED), b"5;a=b\r\nhello\r\n0\r\n\r\n"]),
    ("trailers", [head("text/plain", 200, CHUNKED), b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"]),
    ("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", whole(b"hello", "text/plain")]),
    ("interim, one read", [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + whole(b"hello", "text/plain")]),
]
NO_BODY = ("no body", "no content")


@pytest.mark.parametrize(("name", "pieces"), FRAMED, ids=[name for name, _ in FRAMED])
def test_framing(run: Run, name: str, pieces: list[bytes]) -> None:
    """The body is whole, interim answers are passed over, and the connection is used again."""

    async def main() -> None:
        async with Playback(Script([(0.002 * i, piece) for i, piece in enumerate(pieces)])) as server:
            client = Client(Target(url=server.url))
            for _ in range(3):
                answer = await client.get("/")
                assert answer.body == (b"" if name in NO_BODY else b"hello")
                assert answer.status == (204 if name == "no content" else 200)
                assert "link" not in answer.headers
            assert server.connections == 1
            assert (client.counts.opened, client.counts.reused) == (1, 2)
            await client.close()

    run(main())


@pytest.mark.parametrize(
    ("pieces", "end"),
    [
        ([head("text/plain"), b"hel", b"lo"], "eof"),
        ([whole(b"hello", "text/plain", 200, "Connection: close")], "eof"),
        ([whole(b"hello", "text/plain", 200, "Connection: close")], "keep"),
        ([b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"], "keep"),
    ],
)
def test_connections_that_close(run: Run, pieces: list[bytes], end: Any) -> None:
    """A body without a length ends with its connection; one that is announced to close is not used again."""

    async def main() -> None:
        async with Playback(Script([(0.01 * i, piece) for i, piece in enumerate(pieces)], end)) as server:
            client = Client(Target(url=server.url))
            for _ in range(3):
                assert (await client.get("/")).body == b"hello"
                assert client.closed_behind
            assert server.connections == 3
            assert client.counts.resends == 0
            await client.close()

    run(main())


def test_other_statuses_are_answers(run: Run) -> None:
    """404 and 500 are for the caller to judge."""

    async def main() -> None:
        async with Playback(
            Script([(0, whole(b"x", "text/plain", 404))]), Script([(0, whole(b"", "", 500))])
        ) as server:
            assert (await get(server)).status == 404
            assert (await get(server)).status == 500

    run(main())


def test_redirects_are_refused(run: Run) -> None:
    """A redirect is not followed: where to is said."""

    async def main() -> None:
        async with Playback(Script([(0, whole(b"", "", 307, "Location: https://b/llm"))])) as server:
            with pytest.raises(ServerError, match="https://b/llm") as caught:
                await get(server)
            assert "address" in caught.value.hint

    run(main())


# --- no answers ------------------------------------------------------------------------------

BROKEN: list[tuple[str, Script, str]] = [
    ("closed at once", Script([], "eof"), "closed the connection"),
    ("reset", Script([(0, b"HTTP/1.1 2")], "reset"), "lost|closed"),
    ("cut head", Script([(0, b"HTTP/1.1 200 OK\r\nContent-")], "eof"), "closed the connection"),
    ("cut body", Script([(0, head("a/b", 200, "Content-Length: 9") + b"abc")], "eof"), "closed the connection"),
    ("cut chunk", Script([(0, head("a/b", 200, CHUNKED) + b"9\r\nabc")], "eof"), "closed the connection"),
    ("no HTTP", Script([(0, b"SSH-2.0-OpenSSH_9.2\r\n")], "hang"), "not HTTP"),
    ("bad chunk", Script([(0, head("a/b", 200, CHUNKED) + b"zz\r\nabc\r\n")], "hang"), "not HTTP"),
    ("bad length", Script([(0, head("a/b", 200, "Content-Length: abc"))], "hang"), "not HTTP"),
    ("two framings", Script([(0, head("a/b", 200, CHUNKED, "Content-Length: 3"))], "hang"), "not HTTP"),
    ("other protocol", Script([(0, head("a/b", 101, "Upgrade: h2c", "Connection: upgrade"))], "hang"), "not HTTP"),
]


@pytest.mark.parametrize(("name", "script", "says"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_broken_answers(run: Run, name: str, script: Script, says: str) -> None:
    """One sentence with the address, and a hint; nothing of the broken connection is used again."""

    async def main() -> None:
        async with Playback(script, Script([(0, OK)])) as server:
            client = Client(Target(url=server.url))
            with pytest.raises(ServerError, match=says) as caught:
                await client.get("/")
            assert server.url in caught.value.message
            assert caught.value.hint
            assert (await client.get("/")).status == 200
            assert server.connections == 2
            await client.close()

    run(main())


def test_nobody_there(run: Run, tmp_path: Path) -> None:
    """A port where nobody listens, and a socket that is not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def main() -> None:
        for url in (f"http://127.0.0.1:{port}", f"unix:{tmp_path / 'none'}"):
            client = Client(Target(url=url))
            with pytest.raises(ServerError, match="no connection") as caught:
                await client.get("/")
            assert "running" in caught.value.hint
            assert client.counts.failed == 1

    run(main())


def test_time_out(run: Run) -> None:
    """Silence ends with an error, both while connecting and after."""

    async def main() -> None:
        async with Playback(Script([], "hang")) as server:
            with pytest.raises(ServerError, match=r"0\.05 s"):
                await Client(Target(url=server.url)).get("/", timeout_s=0.05)
        async with Playback(Script([], "hang")) as server:  # a plain server waits for more of TLS's greeting
            with pytest.raises(ServerError, match=r"no connection within 0\.05 s") as caught:
                await Client(Target(url=f"https://127.0.0.1:{server.port}", connect_timeout_s=0.05)).get("/")
            assert "plain HTTP" in caught.value.hint

    run(main())
