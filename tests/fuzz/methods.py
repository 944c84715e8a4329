"""All gRPC methods that nodes serve, from the generated descriptors: the attack includes a new method at once."""

from __future__ import annotations

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from ledger.v1 import broker_pb2, consumer_group_operations_pb2, consumer_group_pb2, operations_pb2, security_pb2
from raft.v1 import raft_pb2

_FILES: tuple[FileDescriptor, ...] = (
    broker_pb2.DESCRIPTOR,
    consumer_group_pb2.DESCRIPTOR,
    consumer_group_operations_pb2.DESCRIPTOR,
    operations_pb2.DESCRIPTOR,
    security_pb2.DESCRIPTOR,
    raft_pb2.DESCRIPTOR,
)


def methods() -> list[MethodDescriptor]:
    """Return the methods of all services of a node, in the order of their files."""
    return [method for file in _FILES for service in file.services_by_name.values() for method in service.methods]


def path_of(method: MethodDescriptor) -> str:
    """Return the path of a method, as gRPC sends it."""
    return f"/{method.containing_service.full_name}/{method.name}"
