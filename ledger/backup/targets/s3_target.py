"""A target in a bucket of S3, or of a store with the same interface.

The client is boto3. It finds address, region and credentials where all programs for S3 look for them: in the variables
AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in a profile, or at the machine. It
repeats requests that fail. An object is stored with one request, so it is there whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import boto3.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from ledger.backup.errors import BackupError, TargetBusyError
from ledger.backup.targets.lock_object import LOCK, LockObject
from ledger.backup.targets.target import StoredObject

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_MISSING = ("NoSuchKey", "404", "NotFound")
_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class S3Target:
    def __init__(self, bucket: str, prefix: str) -> None:
        """`prefix` is the begin of the names of all objects, without a slash at its end; it may be empty. Raises
        BackupError if the client cannot be made."""
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        # A store under an address of its own rarely has a name for each bucket.
        style = "path" if any(os.environ.get(name) for name in _ENDPOINTS) else "auto"
        config = Config(
            retries={"mode": "standard", "max_attempts": 8},
            s3={"addressing_style": style},
            # Stores that are not S3 know few of its checksums. The manifest has a SHA-256 of each object.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        with self._telling(""):
            self._client: Any = boto3.session.Session().client("s3", config=config)
        self._lock = LockObject(self)

    @property
    def title(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def put(self, name: str, content: bytes) -> None:
        self._lock.check()
        self.put_always(name, content)

    def put_always(self, name: str, content: bytes) -> None:
        """Store an object without a look at the lock. Raises BackupError."""
        with self._telling(name):
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=content)

    def put_new(self, name: str, content: bytes) -> None:
        """Store an object if there is none of this name. Raises TargetBusyError if there is one, and BackupError."""
        with self._telling(name):
            try:
                self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=content, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) in _EXISTS:
                    raise TargetBusyError(f"another process has just locked {self.title}") from error
                raise

    def get(self, name: str) -> bytes | None:
        with self._telling(name):
            try:
                found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
                content: bytes = found["Body"].read()
                return content
            except ClientError as error:
                if _code(error) in _MISSING:
                    return None
                raise
        raise AssertionError

    def list(self, prefix: str = "") -> list[StoredObject]:
        found = []
        with self._telling(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for each in page.get("Contents", ()):
                    name = each["Key"].removeprefix(self._prefix)
                    if name != LOCK:
                        found.append(StoredObject(name, each["Size"]))
        return sorted(found)

    def delete(self, name: str) -> None:
        self._lock.check()
        with self._telling(name):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def lock(self) -> AbstractContextManager[None]:
        return self._lock.held()

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            place = f"s3://{self._bucket}/{self._prefix}{name}"
            raise BackupError(
                f"{place}: {error}. Address and credentials come from AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and AWS_REGION, or from a profile (AWS_PROFILE)"
            ) from error


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
