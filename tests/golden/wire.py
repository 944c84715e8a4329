"""Writes down the messages and methods of the gRPC services, one line each, as `wire.txt` keeps them.

    python -m tests.golden.wire        adds what is new to wire.txt; do this for each release

    ledger.v1.FetchRequest 3 max_bytes uint64
    ledger.v1.Broker/Fetch ledger.v1.FetchRequest -> ledger.v1.FetchResponse

A line of a release never goes: a program of that release sends and reads what the line says.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from tests.golden.program import ROOT

WIRE = Path(__file__).with_name("wire.txt")
_TYPES = {
    value: name[5:].lower() for name, value in vars(FieldDescriptor).items() if re.fullmatch("TYPE_[A-Z0-9]+", name)
}


def files() -> list[FileDescriptor]:
    """Return the descriptors of all our .proto files. Those of RocketMQ are Apache's."""
    names = sorted(path.relative_to(ROOT / "proto").with_suffix("") for path in (ROOT / "proto").rglob("*.proto"))
    ours = [name for name in names if "rocketmq" not in name.parts]
    return [importlib.import_module(f"{'.'.join(name.parts)}_pb2").DESCRIPTOR for name in ours]


def lines(of: Iterable[FileDescriptor]) -> Iterator[str]:
    for file in of:
        for message in file.message_types_by_name.values():
            yield from _fields(message)
        for enum in file.enum_types_by_name.values():
            yield from (f"{enum.full_name} {value.number} {value.name}" for value in enum.values)
        for service in file.services_by_name.values():
            for method in service.methods:
                arrow = f"{'stream ' * method.client_streaming}-> {'stream ' * method.server_streaming}"
                yield (
                    f"{service.full_name}/{method.name} {method.input_type.full_name} {arrow}"
                    f"{method.output_type.full_name}"
                )


def _fields(message: Descriptor) -> Iterator[str]:
    for field in message.fields:
        kind = field.message_type or field.enum_type
        type_name = kind.full_name if kind is not None else _TYPES[field.type]
        repeated = "repeated " * field.is_repeated
        yield f"{message.full_name} {field.number} {field.name} {repeated}{type_name}"
    for nested in message.nested_types:
        yield from _fields(nested)
    for enum in message.enum_types:
        yield from (f"{enum.full_name} {value.number} {value.name}" for value in enum.values)


if __name__ == "__main__":
    known = WIRE.read_text().splitlines() if WIRE.exists() else []
    WIRE.write_text("".join(f"{line}\n" for line in sorted({*known, *lines(files())})))
