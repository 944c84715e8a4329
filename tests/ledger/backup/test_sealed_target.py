"""Encrypted objects: what they hide, and what is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.backup.errors import BackupError, DamagedBackupError
from ledger.backup.targets.key_file import make_key_file, read_key_file
from ledger.backup.targets.open_target import open_target
from ledger.backup.targets.sealed_target import KEY_CHECK, SealedTarget
from tests.ledger.backup.memory_target import MemoryTarget

KEY = bytes(range(32))
SECRET = b"a secret message " * 20


def test_objects_are_hidden_and_read_again() -> None:
    inner = MemoryTarget()
    SealedTarget(inner, KEY).put("shards/1/log/1", SECRET)
    SealedTarget(inner, KEY).put("shards/1/log/2", SECRET)
    assert inner.objects.keys() == {KEY_CHECK, "shards/1/log/1", "shards/1/log/2"}
    assert not any(b"secret" in content for content in inner.objects.values())
    assert inner.objects["shards/1/log/1"][40:] != inner.objects["shards/1/log/2"][40:]
    again = SealedTarget(inner, KEY)
    assert again.get("shards/1/log/1") == SECRET
    assert again.get("shards/1/log/3") is None


def test_every_change_of_an_object_is_noticed() -> None:
    inner = MemoryTarget()
    target = SealedTarget(inner, KEY)
    target.put("one", b"ten bytes.")
    sealed = inner.objects["one"]
    for place in range(len(sealed)):
        inner.objects["one"] = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        with pytest.raises(DamagedBackupError, match="one "):
            target.get("one")
    for length in (0, 39, 55, len(sealed) - 1):
        inner.objects["one"] = sealed[:length]
        with pytest.raises(DamagedBackupError, match="one "):
            target.get("one")
    inner.objects["two"] = sealed  # another name
    with pytest.raises(DamagedBackupError, match="two is damaged"):
        target.get("two")


def test_a_wrong_key_and_a_missing_key_are_told(tmp_path: Path) -> None:
    key, other = tmp_path / "key", tmp_path / "other"
    make_key_file(key)
    make_key_file(other)
    path = tmp_path / "backups"
    open_target(str(path), key).put("manifests/1.json", b"{}")
    with pytest.raises(BackupError, match="the key is not that of the backups in"):
        open_target(str(path), other)
    with pytest.raises(BackupError, match="are encrypted: give their key file with --key-file"):
        open_target(str(path))
    plain = tmp_path / "plain"
    open_target(str(plain)).put("manifests/1.json", b"{}")
    with pytest.raises(BackupError, match="are not encrypted: leave out the key file"):
        open_target(str(plain), key)


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    make_key_file(path)
    assert len(read_key_file(path)) == 32
    with pytest.raises(BackupError, match="an existing file is never replaced"):
        make_key_file(path)
    path.chmod(0o644)
    with pytest.raises(BackupError, match=f"run `chmod 600 {path}`"):
        read_key_file(path)
    path.chmod(0o600)
    for text in ("", "00" * 31, "00" * 33, "xy" * 32):
        path.write_text(text)
        with pytest.raises(BackupError, match="is no key of backups"):
            read_key_file(path)
    path.write_bytes(b"\xff" * 32)
    with pytest.raises(BackupError, match="it is not hexadecimal"):
        read_key_file(path)
    with pytest.raises(BackupError, match="No such file"):
        read_key_file(tmp_path / "missing")
