"""How tests share the machine when the workers of pytest-xdist run them side by side (`make test`).

Tests of one group run in one worker, one after the other. A file is a group, so each fixture of a module is made once.
Files that share something which exists once, such as the Spark session, are one group. A file whose tests are long and
independent is no group: each of its tests goes to the next free worker.

pytest-xdist's own groups (`--dist loadgroup`, `xdist_group`) have no effect under pytest 9.2: pytest-xdist writes the
group into a node id that pytest no longer reads. Hence this scheduler, which derives the group from the path.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# The groups of several files, each with its files and folders. These groups take longest, so they start first.
GROUPS = {
    "Spark": ("tests/ledger/spark",),
    "network namespaces": (
        "tests/chaos/live/test_local_run.py",
        "tests/chaos/live/test_upgrade_run.py",
        "tests/gates/test_gates.py",
    ),
    "containers": (
        "tests/chaos/live/test_containers.py",
        "tests/cluster/kubernetes/test_rolling_update.py",
        "tests/cluster/local/test_compose.py",
        "tests/cluster/local/test_docker_cluster.py",
        "tests/cluster/local/test_testcontainers.py",
    ),
}
# Simulators: these files are long, and their tests share nothing.
SPLIT = (
    "tests/chaos/sim/test_sim_protocol.py",
    "tests/chaos/sim/test_sim_stack.py",
    "tests/chaos/sim/test_sim_stack_seeds.py",
)


def worker() -> tuple[int, int]:
    """The number of this worker, from 0, and how many workers there are."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    return int(name.removeprefix("gw")), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def group_of(nodeid: str) -> str:
    """The name of the group, or the path of the file, or for a file that is split the whole node id."""
    file = nodeid.partition("::")[0]
    for group, places in GROUPS.items():
        if any(PurePosixPath(file).is_relative_to(place) for place in places):
            return group
    return nodeid if file in SPLIT else file


def start_order(nodeid: str) -> int:
    """The rank of the test's group: groups of several files, then single files, then what is split, to fill gaps."""
    group = group_of(nodeid)
    return list(GROUPS).index(group) if group in GROUPS else len(GROUPS) + (group == nodeid)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: start_order(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collection, because nearly all objects that this makes live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the collected tests and imported modules out of garbage collection.

    They are 300,000 objects that live to the end. With them, garbage collection takes half of the CPU time of
    tests that allocate much, such as the simulators.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """The scheduler of `--dist loadscope`, with our groups as its scopes."""
    from xdist.scheduler import LoadScopeScheduling  # here, since a run without workers does not need it

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log) if config.getoption("dist") == "loadscope" else None
