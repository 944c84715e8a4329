"""To which addresses a node connects when a caller names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.node.formation.allowed_nodes import DEFAULT, check_pattern, is_allowed
from ledger.errors import NodeRefusedError
from ledgermq import AsyncAdmin
from tests.cluster.fleet import Fleet


@pytest.mark.parametrize("address", ["127.0.0.1:1", "10.1.2.3:1", "[::1]:1", "node-2:9871", "queue.example.com:1"])
def test_private_addresses_and_names_are_allowed_by_default(address: str) -> None:
    assert is_allowed(address, DEFAULT)


@pytest.mark.parametrize("address", ["8.8.8.8:1", "[2001:db8::1]:1", "0.0.0.0:1"])
def test_other_ip_addresses_are_not(address: str) -> None:
    assert not is_allowed(address, DEFAULT)


def test_the_operator_lists_names_and_ranges() -> None:
    allowed = ("*.example.com", "8.8.8.0/24", "9.9.9.9")
    assert is_allowed("a.EXAMPLE.com:1", allowed)
    assert is_allowed("8.8.8.8:1", allowed)
    assert is_allowed("9.9.9.9:1", allowed)
    assert not is_allowed("example.com.evil.org:1", allowed)
    assert not is_allowed("10.0.0.1:1", allowed)


@pytest.mark.parametrize("pattern", ["", "a b", "10.0.0.1/8", "host:1"])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        check_pattern(pattern)


@pytest.mark.real
async def test_a_node_is_not_added_at_another_address(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 1, allowed_nodes=("127.0.0.0/8",))
    await fleet.start()
    try:
        await fleet.leader()
        async with AsyncAdmin(fleet.bootstrap) as admin:
            with pytest.raises(NodeRefusedError, match="`allowed_nodes`"):
                await admin.add_node(2, "somewhere.example.com:9871")
    finally:
        await fleet.close()
