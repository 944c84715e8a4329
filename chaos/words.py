"""Words for numbers in sentences: plurals, and lists of nodes and queues."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as `1 message` or `71,304 messages`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def node_names(nodes: Sequence[int]) -> str:
    """Return `node 2` or `nodes 1, 3`."""
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, nodes))
