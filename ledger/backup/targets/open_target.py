"""Opens the target that a user names: a path, or s3://BUCKET/PREFIX."""

from __future__ import annotations

import re
from pathlib import Path

from ledger.backup.errors import BackupError
from ledger.backup.targets.directory_target import DirectoryTarget
from ledger.backup.targets.key_file import read_key_file
from ledger.backup.targets.target import BackupTarget

_S3 = "s3://"
# The names of objects, encrypted or not, for which no library is needed.
_KEY_CHECK = "key-check"


def open_target(name: str, key_file: Path | None = None) -> BackupTarget:
    """Return the target. With `key_file`, the target encrypts its objects with the key in this file. Raises BackupError
    if the name is not the name of a target, or if the key is not that of the target."""
    target = _named(name)
    if key_file is None:
        if target.get(_KEY_CHECK) is not None:
            raise BackupError(f"the backups in {target.title} are encrypted: give their key file with --key-file")
        return target
    key = read_key_file(key_file)
    try:
        from ledger.backup.targets.sealed_target import SealedTarget
    except ModuleNotFoundError as error:
        raise BackupError(
            "encrypted backups need the package cryptography, which is not installed: pip install 'ledgermq[server]'"
        ) from error
    return SealedTarget(target, key)


def _named(name: str) -> BackupTarget:
    if not name.strip():  # such as the value of a variable that is not set
        raise BackupError("the name of the target is empty: name a directory, or s3://BUCKET/PREFIX")
    if not name.startswith(_S3):
        if "://" in name:
            raise BackupError(f"{name} is no target: name a directory, or s3://BUCKET/PREFIX")
        return DirectoryTarget(Path(name))
    bucket, _, prefix = name.removeprefix(_S3).partition("/")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,255}", bucket, re.ASCII):
        raise BackupError(f"{name} names no bucket: write s3://BUCKET or s3://BUCKET/PREFIX")
    try:
        from ledger.backup.targets.s3_target import S3Target
    except ModuleNotFoundError as error:
        raise BackupError(
            "a target in S3 needs the package boto3, which is not installed: pip install 'ledgermq[s3]'"
        ) from error
    return S3Target(bucket, prefix.strip("/"))
