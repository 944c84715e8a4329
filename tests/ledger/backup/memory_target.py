"""A target in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.backup.errors import TargetBusyError
from ledger.backup.targets.target import StoredObject


class MemoryTarget:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    @property
    def title(self) -> str:
        return "memory"

    def put(self, name: str, content: bytes) -> None:
        self.objects[name] = content

    put_always = put

    def put_new(self, name: str, content: bytes) -> None:
        if name in self.objects:
            raise TargetBusyError("locked")
        self.put(name, content)

    def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def list(self, prefix: str = "") -> list[StoredObject]:
        return sorted(
            StoredObject(name, len(content)) for name, content in self.objects.items() if name.startswith(prefix)
        )

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    @contextmanager
    def lock(self) -> Iterator[None]:
        yield
