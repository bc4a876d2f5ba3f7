"""The paged memory for keys and values, and the tree of histories kept in it. Counts blocks; knows no time.

Every block is in exactly one of three places: free, held by one sequence, or in the tree. Tree nodes are
message boundaries: a node's blocks are those between its parent's end and its own, whole blocks only. Nodes
somebody runs on are locked; the others are let go, least recently used leaf first, when memory is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

__all__ = ["Node", "Path", "Pool"]

Path = tuple[tuple[Hashable, int], ...]
"""The message boundaries of a prompt: a key that stands for *everything up to here*, and the tokens up to here."""


class Node:
    """One known history up to a message boundary."""

    __slots__ = ("blocks", "children", "end", "key", "locks", "parent")

    def __init__(self, key: Hashable, end: int, blocks: int, parent: Node | None) -> None:
        self.key = key
        self.end = end
        self.blocks = blocks
        self.parent = parent
        self.children = 0
        self.locks = 0


class Pool:
    """``total`` blocks of ``block_tokens`` tokens."""

    def __init__(self, total: int, block_tokens: int, max_idle: int | None = None) -> None:
        self.total = total
        self.block_tokens = block_tokens
        self.max_idle = max_idle
        self.held = 0
        """Blocks held by sequences, outside the tree."""
        self.in_tree = 0
        self.locked = 0
        """Of those in the tree: blocks somebody runs on."""
        self._nodes: dict[Hashable, Node] = {}
        self._idle: OrderedDict[Node, None] = OrderedDict()

    @property
    def available(self) -> int:
        """Blocks that are free or can be made free."""
        return self.total - self.held - self.locked

    def nodes(self) -> Iterable[Node]:
        """Every known history."""
        return self._nodes.values()

    def find(self, path: Path, most_tokens: int) -> tuple[Node | None, Path]:
        """The longest known part of ``path`` that is not longer than ``most_tokens``, and the boundaries beyond it."""
        nodes = self._nodes
        for index in range(len(path), 0, -1):
            node = nodes.get(path[index - 1][0])
            if node is not None and node.end <= most_tokens:
                return node, path[index:]
        return None, path

    def unlocked_blocks(self, node: Node | None) -> int:
        """Blocks that locking ``node`` would take from those available."""
        blocks = 0
        while node is not None and not node.locks:
            blocks += node.blocks
            node = node.parent
        return blocks

    def lock(self, node: Node, behind: Node | None = None) -> None:
        """Somebody runs on ``node``: it and all before it stay; those up to ``behind`` do so already."""
        self._idle.pop(node, None)
        above: Node | None = node
        while above is not None and above is not behind:
            if not above.locks:
                self.locked += above.blocks
            above.locks += 1
            above = above.parent

    def unlock(self, node: Node) -> None:
        """Undo one ``lock``; a leaf nobody runs on becomes the most recently used idle one."""
        above: Node | None = node
        while above is not None:
            above.locks -= 1
            if not above.locks:
                self.locked -= above.blocks
            above = above.parent
        if not node.locks and not node.children:
            self._idle[node] = None
            if self.max_idle is not None:
                while len(self._idle) > self.max_idle:
                    self._drop()

    def extend(self, node: Node | None, beyond: Path) -> Node | None:
        """Put the boundaries ``beyond`` behind ``node`` into the tree, their blocks taken from those held.

        The caller's lock on ``node`` moves to the node returned, the last boundary. Blocks of boundaries that
        somebody else has put there meanwhile become free.
        """
        nodes, block = self._nodes, self.block_tokens
        first = node
        start = node.end if node is not None else 0
        for key, end in beyond:
            known = nodes.get(key)
            if known is None:
                if end <= start:
                    continue
                blocks = end // block - start // block
                nodes[key] = known = Node(key, end, blocks, node)
                if node is not None:
                    node.children += 1
                    self._idle.pop(node, None)
                self.in_tree += blocks
                self.held -= blocks
            else:
                self.held -= known.end // block - start // block
            node, start = known, known.end
        if node is not None and node is not first:
            self.lock(node, behind=first)
        return node

    def make_room(self) -> None:
        """Let idle histories go until held and kept blocks fit into the total."""
        while self.held + self.in_tree > self.total and self._idle:
            self._drop()

    def _drop(self) -> None:
        node, _ = self._idle.popitem(last=False)
        del self._nodes[node.key]
        self.in_tree -= node.blocks
        parent = node.parent
        if parent is not None:
            parent.children -= 1
            if not parent.children and not parent.locks:
                self._idle[parent] = None
                self._idle.move_to_end(parent, last=False)
