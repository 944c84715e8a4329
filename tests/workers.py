"""How tests share the machine when pytest-xdist's workers run them side by side (`make test`).

Tests of one group run in one worker, one after the other. A group is a file, so that fixtures of a module are made
once. What would be made once for several files, or what the machine has once, is a group too: containers, Spark and
network namespaces. These groups take longest, so they are handed out first.
"""

from __future__ import annotations

import os

import pytest

CONTAINERS, SPARK, NAMESPACES = "containers", "spark", "namespaces"
_FIRST = (CONTAINERS, SPARK, NAMESPACES)


def worker() -> tuple[int, int]:
    """The number of this worker, from 0, and how many there are."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    return int(name.removeprefix("gw")), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _FIRST.index(groups[item]) if groups[item] in _FIRST else len(_FIRST))


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    if marker is not None:
        return str(marker.args[0])
    if "node_image" in getattr(item, "fixturenames", ()):
        return CONTAINERS
    return SPARK if SPARK in item.path.parts else item.nodeid.partition("::")[0]
