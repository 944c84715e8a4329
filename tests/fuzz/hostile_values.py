"""Builds hostile protobuf messages from descriptors: values of every kind that a correct caller would never send.

Some values are plausible, such as the number of a real shard. Without plausible values, the first check of a method
would refuse nearly every message, and the later checks would never be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_MOST_NESTED = 4
_SIGNED_64 = {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64}
_SIGNED_32 = {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32}
_UNSIGNED_32 = {FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32}
_TEXTS = ("", " ", "..", "a/b", "\0", "%RETRY%orders", "%DLQ%orders", "ü" * 40, "x" * 64, "x" * 70_000)


@dataclass(frozen=True, slots=True)
class Plausible:
    """Values that mean something in the attacked cluster."""

    numbers: Sequence[int]
    texts: Sequence[str]
    blobs: Sequence[bytes]
    # By path: a first request of a stream that its method accepts, so that streams are open for what follows.
    openings: Mapping[str, bytes]


class HostileMessages:
    """Makes hostile messages. Equal seeds give equal messages."""

    def __init__(self, random: Random, plausible: Plausible) -> None:
        self._random = random
        self._plausible = plausible

    def encoded(self, message: Message) -> bytes:
        """Return the bytes of a message. For one message of ten, the bytes are cut short, changed or random."""
        data = message.SerializeToString()
        if self._random.random() < 0.9:
            return data
        return self._spoiled(data)

    def message(self, kind: Descriptor, nested: int = 0) -> Message:
        message = GetMessageClass(kind)()
        for oneof in kind.oneofs:
            self._set(message, self._random.choice(oneof.fields), nested)
        for field in kind.fields:
            if field.containing_oneof is None and self._random.random() < 0.8:
                self._set(message, field, nested)
        return message

    def _set(self, message: Message, field: FieldDescriptor, nested: int) -> None:
        is_message = field.type == FieldDescriptor.TYPE_MESSAGE
        if is_message and nested >= _MOST_NESTED:
            return
        if is_message and cast("Descriptor", field.message_type).GetOptions().map_entry:
            entry = cast(Any, self.message(cast("Descriptor", field.message_type), nested + 1))
            if isinstance(entry.value, Message):
                getattr(message, field.name)[entry.key].CopyFrom(entry.value)
            else:
                getattr(message, field.name)[entry.key] = entry.value
        elif field.is_repeated:
            count = self._random.choice((0, 1, 1, 2, 3, 3, 40 if is_message else 500))
            values = [self._value(field, nested) for _ in range(count)]
            getattr(message, field.name).extend(values)
        elif is_message:
            getattr(message, field.name).CopyFrom(self._value(field, nested))
        else:
            setattr(message, field.name, self._value(field, nested))

    def _value(self, field: FieldDescriptor, nested: int) -> Any:
        random = self._random
        match field.type:
            case FieldDescriptor.TYPE_MESSAGE:
                return self.message(cast("Descriptor", field.message_type), nested + 1)
            case FieldDescriptor.TYPE_BOOL:
                return random.random() < 0.5
            case FieldDescriptor.TYPE_STRING:
                return random.choice(self._plausible.texts if random.random() < 0.6 else _TEXTS)
            case FieldDescriptor.TYPE_BYTES:
                return self._blob()
            case FieldDescriptor.TYPE_ENUM:
                known = cast("EnumDescriptor", field.enum_type).values
                return random.choice([*(value.number for value in known), 77, -1])
            case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
                return random.choice([0.0, -1.0, float("inf"), float("nan"), 1e300])
            case _:
                return self._number(field.type)

    def _number(self, kind: int) -> int:
        if self._random.random() < 0.6:
            return self._random.choice(self._plausible.numbers)
        bits = 32 if kind in _SIGNED_32 | _UNSIGNED_32 else 64
        if kind in _SIGNED_32 | _SIGNED_64:
            extremes = [-1, -(1 << bits - 1), (1 << bits - 1) - 1]
        else:
            extremes = [1 << bits - 1, (1 << bits) - 1]
        return self._random.choice([*extremes, self._random.getrandbits(bits - 1)])

    def _blob(self) -> bytes:
        chosen = self._random.choice(self._plausible.blobs)
        return chosen if self._random.random() < 0.5 else self._spoiled(chosen)

    def _spoiled(self, data: bytes) -> bytes:
        random = self._random
        match random.randrange(4):
            case 0:
                return data[: random.randrange(len(data) + 1)]
            case 1:
                return random.randbytes(random.choice((0, 1, 16, 300, 20_000)))
            case 2:
                return data + random.randbytes(7)
            case _:
                changed = bytearray(data)
                for _ in range(min(len(changed), 3)):
                    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
                return bytes(changed)
