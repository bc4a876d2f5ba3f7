"""Which processes serve an address on this machine, from ``/proc``. Knows nothing of GPUs and HTTP.

Everything here is a best effort: another user's processes, containers and other systems show nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["environment", "is_local", "serving"]

_LISTEN = "0A"


def is_local(address: str) -> bool:
    """Whether ``http://host:port`` or ``unix:…`` is this very machine: one can bind to the host's address.

    A tunnel on loopback looks local; nothing tells it apart.
    """
    if address.startswith("unix:"):
        return True
    host = urlsplit(address).hostname
    if not host:
        return False
    try:
        places = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(place)
        except OSError:
            continue
        return True
    return False


def serving(port: int, proc: str | Path = "/proc") -> frozenset[int]:
    """The processes that listen on a TCP port, their descendants and their process groups.

    An engine's GPU worker is often a child of the listener, or its sibling under one launcher. Empty when
    nothing can be seen.
    """
    root = Path(proc)
    inodes = _listening(root, port)
    if not inodes:
        return frozenset()
    family = _family(root)
    listeners = {pid for pid in family if inodes & _sockets(root / str(pid) / "fd")}
    groups = {family[pid][1] for pid in listeners}
    found = listeners | {pid for pid, (_, group) in family.items() if group in groups}
    while grown := {pid for pid, (parent, _) in family.items() if parent in found} - found:
        found |= grown
    return frozenset(found)


def environment(pid: int, name: str, proc: str | Path = "/proc") -> str | None:
    """One variable of another process's environment; None when it is not set or not ours to read."""
    try:
        entries = (Path(proc) / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = name.encode() + b"="
    return next((entry[len(prefix) :].decode() for entry in entries if entry.startswith(prefix)), None)


def _listening(root: Path, port: int) -> set[str]:
    """Inodes of the sockets that listen on ``port``."""
    found = set()
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (root / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _sockets(folder: Path) -> set[str]:
    """Inodes of the sockets one process holds; empty for a process that is gone or not ours."""
    found: set[str] = set()
    try:
        names = os.listdir(folder)  # noqa: PTH208  (Path.iterdir costs twice as much over thousands of entries)
    except OSError:
        return found
    for name in names:
        # Between listing and looking a descriptor may be gone: the one that listed, for a start.
        with contextlib.suppress(OSError):
            link = os.readlink(f"{folder}/{name}")  # noqa: PTH115
            if link.startswith("socket:["):
                found.add(link[len("socket:[") : -1])
    return found


def _family(root: Path) -> dict[int, tuple[int, int]]:
    """Parent and process group of every process."""
    found = {}
    for folder in root.glob("[0-9]*"):
        try:
            # The name in brackets may itself hold spaces and brackets.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = (int(fields[1]), int(fields[2]))
    return found
