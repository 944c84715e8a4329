"""A target in S3 whose process loses the lock, with a client that keeps the objects in memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ledger.backup.catalogue import prune
from ledger.backup.errors import TargetBusyError
from ledger.backup.targets.lock_object import LOCK, WATCH_S, LockObject
from ledger.backup.targets.s3_target import S3Target


class Bucket:
    """The methods of a client of boto3 that a target uses. All names have the prefix "of/orders/"."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Key: str, Body: bytes, IfNoneMatch: str = "", **_: str) -> None:  # noqa: N803
        if IfNoneMatch and Key in self.objects:
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "PutObject")
        self.objects[Key] = Body

    def get_object(self, *, Key: str, **_: str) -> dict[str, io.BytesIO]:  # noqa: N803
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}

    def delete_object(self, *, Key: str, **_: str) -> None:  # noqa: N803
        self.objects.pop(Key, None)

    def get_paginator(self, _: str) -> Bucket:
        return self

    def paginate(self, *, Prefix: str, **_: str) -> Iterator[dict[str, Any]]:  # noqa: N803
        yield {
            "Contents": [
                {"Key": name, "Size": len(content)} for name, content in self.objects.items() if name.startswith(Prefix)
            ]
        }


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give boto3 credentials, so that it does not look for those of a machine at Amazon."""
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)


def target_in(bucket: Bucket, now_s: list[float]) -> S3Target:
    target = S3Target("backups", "of/orders")
    target._client = bucket
    target._lock = LockObject(target, write_s=60, monotonic_s=lambda: now_s[0])
    return target


def test_a_prune_whose_process_was_suspended_removes_nothing_of_the_next_backup() -> None:
    now_s = [0.0]

    class Suspending(Bucket):
        """When the prune lists the pieces, its process is suspended, and another process begins a backup."""

        def paginate(self, *, Prefix: str, **_: str) -> Iterator[dict[str, Any]]:  # noqa: N803
            if Prefix == "of/orders/shards/":
                now_s[0] = WATCH_S + 1
                self.objects["of/orders/" + LOCK] = b"of another process"
                self.objects["of/orders/shards/0/log/new"] = b"a new piece"
            yield from super().paginate(Prefix=Prefix)

    bucket = Suspending()
    target = target_in(bucket, now_s)
    with pytest.raises(TargetBusyError, match="start the command again"), target.lock():
        prune(target, 1)
    assert bucket.objects == {
        "of/orders/" + LOCK: b"of another process",
        "of/orders/shards/0/log/new": b"a new piece",
    }


def test_an_owner_of_the_lock_removes_objects_and_its_lock() -> None:
    bucket = Bucket()
    target = target_in(bucket, [0.0])
    with target.lock():
        target.put("shards/0/log/old", b"a piece")
        assert prune(target, 1) == ([], 7)
    assert bucket.objects == {}
