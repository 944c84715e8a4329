"""All gRPC methods that nodes and name servers serve, from the generated descriptors. So the attack includes a new
method at once."""

from __future__ import annotations

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from ledger.rocketmq.v2 import admin_pb2, service_pb2
from ledger.v1 import (
    broker_pb2,
    consumer_group_operations_pb2,
    consumer_group_pb2,
    inspection_pb2,
    nameserver_pb2,
    operations_pb2,
    security_pb2,
    transaction_pb2,
)
from raft.v1 import raft_pb2

_FILES: tuple[FileDescriptor, ...] = (
    broker_pb2.DESCRIPTOR,
    consumer_group_pb2.DESCRIPTOR,
    consumer_group_operations_pb2.DESCRIPTOR,
    operations_pb2.DESCRIPTOR,
    inspection_pb2.DESCRIPTOR,
    security_pb2.DESCRIPTOR,
    transaction_pb2.DESCRIPTOR,
    raft_pb2.DESCRIPTOR,
)
_OF_A_NAME_SERVER = ("/ledger.v1.Broker/GetRoute", "/raft.v1.NodeProof/Prove")


def methods() -> list[MethodDescriptor]:
    """Return the methods of all services of a node, in the order of their files."""
    return [method for file in _FILES for method in _methods_of(file)]


def name_server_methods() -> list[MethodDescriptor]:
    """Return the methods of a name server."""
    shared = [method for method in methods() if path_of(method) in _OF_A_NAME_SERVER]
    return [*_methods_of(nameserver_pb2.DESCRIPTOR), *shared]


def rocketmq_methods() -> list[MethodDescriptor]:
    """Return the methods of a node's port for RocketMQ clients."""
    return [*_methods_of(service_pb2.DESCRIPTOR), *_methods_of(admin_pb2.DESCRIPTOR)]


def path_of(method: MethodDescriptor) -> str:
    """Return the path of a method, as gRPC sends it."""
    return f"/{method.containing_service.full_name}/{method.name}"


def _methods_of(file: FileDescriptor) -> list[MethodDescriptor]:
    return [method for service in file.services_by_name.values() for method in service.methods]
