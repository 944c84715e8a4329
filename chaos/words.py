"""Words for nodes in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def node_names(nodes: Sequence[int]) -> str:
    """Return `node 2` or `nodes 1, 3`."""
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, nodes))
