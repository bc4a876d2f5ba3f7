"""Where each model's servers answer, and under which names keys and places stand in configuration files.

Knows nothing of formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from headcount.deployment.advice import Advice
from headcount.deployment.capacity import Measured
from headcount.errors import ScenarioError
from headcount.http.target import parse_url

__all__ = ["AUTO", "Place", "by_model", "places_of", "variable", "word"]

FIRST_PORT = 8001
AUTO = "auto"
"""The model name under which a gateway decides itself who answers."""


class Place(msgspec.Struct, frozen=True):
    """One server of the plan."""

    name: str
    """The model."""
    number: int
    """Among the servers of this model, from 1."""
    url: str
    """``http://host:port[/base]``, without ``/v1``."""
    cap_requests: int
    streamed: bool
    role: str

    @property
    def label(self) -> str:
        """One word, unlike that of any other place."""
        return f"{word(self.name)}_{self.number}"

    @property
    def key_variable(self) -> str:
        """The environment variable that holds the server's key."""
        return f"{variable(self.name)}_API_KEY"

    @property
    def host(self) -> str:
        """``host:port``."""
        address = parse_url(self.url)
        host = f"[{address.host}]" if ":" in address.host else address.host
        return f"{host}:{address.port}"

    @property
    def base(self) -> str:
        """What stands before ``/v1``: empty, or ``/like/this``."""
        return parse_url(self.url).base

    @property
    def tls(self) -> bool:
        """Whether it is reached by HTTPS."""
        return parse_url(self.url).tls


def places_of(advice: Advice, measured: Sequence[Measured], given: Sequence[tuple[str, str]] = ()) -> tuple[Place, ...]:
    """A place for each server there is: as ``given`` (model, address), else as measured, else on this machine from port
    ``FIRST_PORT`` on. Raises ``ScenarioError`` for an address of a model that the plan does not have."""
    urls: dict[str, list[str]] = {part.name: [] for part in advice.parts}
    for name, url in given:
        if name not in urls:
            raise ScenarioError(f"--server {name}={url}: the plan has no such model", f"it has: {', '.join(urls)}")
        parse_url(url)
        urls[name].append(url)
    known: dict[str, list[str]] = {name: [] for name in urls}
    for each in measured:
        known[each.name].append(_plain(each.facts.engine.address))
    places: list[Place] = []
    for part in advice.parts:
        addresses = urls[part.name] or known[part.name]
        for number, url in enumerate(addresses, 1):
            here = f"http://127.0.0.1:{FIRST_PORT + len(places)}"
            places.append(Place(part.name, number, url or here, part.cap_requests, part.streamed, part.role))
    return tuple(places)


def by_model(places: Sequence[Place]) -> Mapping[str, list[Place]]:
    """Places in the plan's order."""
    found: dict[str, list[Place]] = {}
    for place in places:
        found.setdefault(place.name, []).append(place)
    return found


def variable(name: str) -> str:
    """A name as part of an environment variable.

    >>> variable("Qwen/Qwen3-8B-AWQ")
    'QWEN_QWEN3_8B_AWQ'
    """
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "MODEL"


def word(name: str) -> str:
    """A name as one word of letters, digits and underscores that begins with a letter.

    >>> word("Qwen/Qwen3-8B-AWQ"), word("70b")
    ('qwen_qwen3_8b_awq', 'model_70b')
    """
    plain = variable(name).lower()
    return plain if plain[0].isalpha() else f"model_{plain}"


def _plain(address: str) -> str:
    """An address that a gateway can use; empty for none."""
    return address.rstrip("/") if address.startswith(("http://", "https://")) else ""
