"""Which addresses of nodes a client is given: those that its language can use."""

from __future__ import annotations

import pytest

from ledger.broker.access.callers import ANYBODY
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.endpoints import HostPort, endpoints_for
from ledger.rocketmq.v2 import definition_pb2 as pb

NODES: list[HostPort] = [("10.0.0.1", 8081), ("10.0.0.2", 8082), ("10.0.0.3", 8083)]
NAMES: list[HostPort] = [("a.example", 8081), ("b.example", 8082)]


def given(
    language: str, addresses: list[HostPort], *, is_tls: bool = False, turn: int = 0, leader: int = 0
) -> list[HostPort]:
    """Return the addresses that a client gets from a cluster whose nodes, from 1 on, have these addresses."""
    call = FrontCall("client@1", language, ANYBODY, is_tls, "ipv4:10.0.0.9:1", 3.0)
    endpoints = endpoints_for(call, dict(enumerate(addresses, 1)), turn, leader)
    return [(address.host, address.port) for address in endpoints.addresses]


@pytest.mark.parametrize(("language", "is_tls"), [("JAVA", False), ("JAVA", True), ("RUST", False), ("PYTHON", False)])
def test_a_client_gets_all_nodes(language: str, is_tls: bool) -> None:
    assert sorted(given(language, NODES, is_tls=is_tls)) == NODES


def test_the_leader_of_the_queue_is_the_first() -> None:
    assert [given("RUST", NODES, leader=node)[0] for node in (1, 2, 3)] == NODES


@pytest.mark.parametrize("nodes", [2, 3, 9])
def test_java_which_shuffles_its_addresses_takes_the_leader_four_times_of_five(nodes: int) -> None:
    addresses = [(f"10.0.0.{node}", 8081) for node in range(1, nodes + 1)]
    found = given("JAVA", addresses, leader=2)
    assert set(found) == set(addresses)
    assert found.count(addresses[1]) / len(found) == 0.8


@pytest.mark.parametrize("is_tls", [False, True])
def test_node_js_gets_all_nodes_in_one_address(is_tls: bool) -> None:
    ((host, port),) = given("HTTP", NODES, is_tls=is_tls)
    text = f"{host}:{port}"
    assert text.startswith("ipv4:")
    assert sorted(text.removeprefix("ipv4:").split(",")) == [f"{host}:{port}" for host, port in NODES]


def test_python_with_tls_gets_the_leader_and_another_node_for_each_further_queue() -> None:
    """gRPC compares a certificate with the whole text of a list of addresses, and so refuses every certificate."""
    assert [given("PYTHON", NODES, is_tls=True, turn=turn, leader=2) for turn in range(4)] == [
        [NODES[at]] for at in (1, 2, 0, 1)
    ]


def test_names_are_given_one_for_each_queue() -> None:
    assert [given("JAVA", NAMES, turn=turn, leader=1) for turn in range(3)] == [[NAMES[0]], [NAMES[1]], [NAMES[0]]]


def test_a_client_gets_one_node_while_no_leader_is_known() -> None:
    ((*first,), (*second,)) = (given("JAVA", NAMES, turn=turn) for turn in range(2))
    assert sorted((*first, *second)) == NAMES


def test_the_scheme_says_what_the_addresses_are() -> None:
    call = FrontCall("client@1", "JAVA", ANYBODY, False, "ipv4:10.0.0.9:1", 3.0)
    assert endpoints_for(call, dict(enumerate(NODES, 1)), 0, 0).scheme == pb.IPv4
    assert endpoints_for(call, {1: ("::1", 1)}, 0, 0).scheme == pb.IPv6
    assert endpoints_for(call, dict(enumerate(NAMES, 1)), 0, 0).scheme == pb.DOMAIN_NAME
