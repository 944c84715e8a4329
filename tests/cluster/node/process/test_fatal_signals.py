"""A node that the system ends says so, for example when the disk cannot read a page of a mapped file."""

from __future__ import annotations

import signal

import pytest

from tests.cluster.fleet import MakeFleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.waiter import until


@pytest.mark.real
async def test_a_node_that_ends_by_sigbus_says_where(make_fleet: MakeFleet) -> None:
    with NodeProcess(make_fleet(1).write_toml(1)) as node:
        await until(lambda: "serves 127.0.0.1" in node.log, "it has started")
        node.send_signal(signal.SIGBUS)
        assert await node.ended() == -signal.SIGBUS
        assert "Fatal Python error: Bus error" in node.log
        assert "cluster/node/node.py" in node.log
