"""Where a server is and how long to wait for it. Knows nothing of sockets."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import msgspec

from headcount.errors import ScenarioError

__all__ = ["Address", "Target", "parse_url"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One server, as the user named it. Never written anywhere: it holds the API key."""

    url: str
    """``http://host:port[/base]``, ``https://…``, or ``unix:/path/to/socket``; ``host:port`` means http."""
    headers: dict[str, str] = {}
    """Sent with every request; they replace ours of the same name."""
    api_key: str | None = None
    """Sent as ``Authorization: Bearer``."""
    ca_file: str | None = None
    """Certificates to trust instead of the system's."""
    insecure: bool = False
    """Believe any certificate."""
    connect_timeout_s: float = 10.0
    first_token_timeout_s: float = 120.0
    """From sending to the first output of a streamed answer."""
    idle_timeout_s: float = 60.0
    """The longest silence after the first output of a streamed answer; a comment line ends a silence."""
    total_timeout_s: float = 600.0

    def __repr__(self) -> str:
        """The address alone: a key or a secret header must not reach a log."""
        return f"Target({self.url!r})"


class Address(msgspec.Struct, frozen=True):
    """A URL taken apart."""

    host: str
    """Without brackets; ``localhost`` for a Unix socket."""
    port: int
    tls: bool
    base: str
    """Put before every path: empty, or ``/like/this`` without a slash at its end."""
    socket_path: str | None = None

    @property
    def host_header(self) -> str:
        """What the ``Host`` header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.socket_path is not None or self.port == (443 if self.tls else 80)
        return host if usual else f"{host}:{self.port}"


def parse_url(url: str) -> Address:
    """``ScenarioError`` for what cannot be an address.

    A ``/v1`` at the end is dropped, since engines ask for ``/v1/…`` and ``/metrics`` themselves.

    >>> parse_url("localhost:8000/v1")
    Address(host='localhost', port=8000, tls=False, base='', socket_path=None)
    """
    if url.startswith("unix:"):
        path = url.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path.startswith("/"):
            raise ScenarioError(f"url {url!r} names no socket", "write unix:/path/to/socket")
        return Address("localhost", 0, False, "", path)
    if not re.match(r"[a-z][a-z0-9+.-]*://", url, re.IGNORECASE):
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        host = host and host.encode("idna").decode("ascii")
    except ValueError as error:
        raise ScenarioError(f"url {url!r} is not understood: {error}", "write http://host:port") from error
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\x00-\x20\x7f]", url):
        raise ScenarioError(f"url {url!r} is not understood", "write http://host:port, https://… or unix:/path")
    if parts.username is not None or parts.password is not None:
        raise ScenarioError("the url holds a user name or a password", "give an API key or a header instead")
    if parts.query or parts.fragment:
        raise ScenarioError(f"url {url!r} has a query or a fragment", "give only http://host:port[/base]")
    tls = parts.scheme == "https"
    base = quote(parts.path.rstrip("/").removesuffix("/v1").rstrip("/"), safe="/%:@!$&'()*+,;=~")
    return Address(host, port if port is not None else (443 if tls else 80), tls, base)
