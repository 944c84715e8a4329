"""The addresses that clients are given for the queues of a topic: those of all nodes.

Every node serves every queue, so a client whose node dies goes on at the next address. The first address is that of
the leader of the queue's shard, which takes a message without asking another node. Some clients take several addresses
only in a certain form:

    addresses are numbers             all addresses (Node.js: in the form that grpc-js reads; Java: see below)
    names, or both                    one address for each queue, because most clients refuse several names
    Python's client with TLS          one address for each queue, because it finds no list of addresses in a certificate

With one address for each queue, this address is that of the leader too. If one node leads all queues of a topic, the
queues take turns at the nodes, because a client that repeats a send takes the next queue. A push consumer, which asks
again for its assignment every few seconds, is always given the leader, which is alive.

Java's client shuffles the list before it uses the first address. It is given the leader's address several times, so
that four of five clients call the leader.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

import xxhash

from ledger.client.connection.route_table import RocketmqEndpoint
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.v2 import definition_pb2 as pb

# How often Java's client is given the leader's address, for each other node.
_LEADER_FOR_EACH = 4

_LOOPBACK = "127.0.0.1"

HostPort = tuple[str, int]


def node_addresses(known: Mapping[int, RocketmqEndpoint], *, is_tls: bool, outside: bool) -> dict[int, HostPort]:
    """Return the addresses of the nodes' ports with or without TLS, by node. With `outside`, they are those for clients
    outside the nodes' network."""
    found = {}
    for node, endpoint in known.items():
        if address := endpoint.tls if is_tls else endpoint.plain:
            host, port = _split(address)
            found[node] = (_numeric(endpoint.outside_host if outside and endpoint.outside_host else host), port)
    return found


def is_outside(access_point: pb.Endpoints, known: Mapping[int, RocketmqEndpoint]) -> bool:
    """Return True if the client began at an address that only clients outside the nodes' network use."""
    begun = {(_numeric(each.host.strip("[]")), each.port) for each in access_point.addresses}
    inside, outside = set[HostPort](), set[HostPort]()
    for endpoint in known.values():
        for address in (endpoint.plain, endpoint.tls):
            if address:
                host, port = _split(address)
                inside.add((_numeric(host), port))
                if endpoint.outside_host:
                    outside.add((_numeric(endpoint.outside_host), port))
    return bool(begun & (outside - inside))


def endpoints_for(call: FrontCall, nodes: Mapping[int, HostPort], turn: int, leader: int) -> pb.Endpoints:
    """Return the endpoints of a queue for the client that makes the call. `leader` is the node that leads the queue's
    shard, as far as it is known. A client that takes one address gets that of the leader for turn 0, and those of the
    other nodes for the turns after it."""
    addresses = [*nodes.values()]
    scheme = scheme_of(host for host, _ in addresses)
    # Most clients use the first address that answers. While no leader is known, clients share the nodes.
    first = xxhash.xxh3_64_intdigest(call.client_id.encode()) % len(addresses)
    if leader in nodes:
        first = addresses.index(nodes[leader])
    if scheme == pb.DOMAIN_NAME or (call.is_tls and call.is_python):
        addresses = [addresses[(first + turn) % len(addresses)]]
    elif len(addresses) > 1:
        addresses = [*addresses[first:], *addresses[:first]]
        if call.is_node_js:
            return pb.Endpoints(scheme=scheme, addresses=[_for_grpc_js(scheme, addresses)])
        if call.is_java and leader in nodes:
            others = addresses[1:]
            addresses = [nodes[leader]] * (_LEADER_FOR_EACH * len(others)) + others
    return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=host, port=port) for host, port in addresses])


def scheme_of(hosts: Iterable[str]) -> pb.AddressScheme:
    versions = {_version(host) for host in hosts}
    if versions == {4}:
        return pb.IPv4
    return pb.IPv6 if versions == {6} else pb.DOMAIN_NAME


def _for_grpc_js(scheme: pb.AddressScheme, addresses: Sequence[HostPort]) -> pb.Address:
    """Return one address that holds all. The Node.js client makes the text "host:port" of it, and grpc-js reads this
    text as a list."""
    name = "ipv4" if scheme == pb.IPv4 else "ipv6"
    hosts = [host if scheme == pb.IPv4 else f"[{host}]" for host, _ in addresses]
    listed = ",".join(f"{host}:{port}" for host, (_, port) in zip(hosts[:-1], addresses[:-1], strict=True))
    return pb.Address(host=f"{name}:{listed},{hosts[-1]}", port=addresses[-1][1])


def _split(address: str) -> HostPort:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _numeric(host: str) -> str:
    return _LOOPBACK if host == "localhost" else host


def _version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
