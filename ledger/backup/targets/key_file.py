"""The key that encrypts backups: 32 random bytes in a file, as 64 hexadecimal digits on one line.

Everybody who has the key can read the backups, and nobody else. Keep a copy of it apart from the cluster and from the
backups.
"""

from __future__ import annotations

import secrets
import stat
from pathlib import Path

from ledger.backup.errors import BackupError
from ledger.private_file import make_private

KEY_BYTES = 32


def make_key_file(path: Path) -> None:
    """Write a new key to a file that does not exist. Raises BackupError."""
    try:
        make_private(path, f"{secrets.token_hex(KEY_BYTES)}\n".encode())
    except FileExistsError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}; an existing file is never replaced") from error
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}") from error


def read_key_file(path: Path) -> bytes:
    """Return the key in a file. Raises BackupError."""
    try:
        text = path.read_text(encoding="ascii").strip()
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not hexadecimal"
        raise BackupError(f"the key file {path} cannot be read: {reason}") from error
    if mode & 0o077:
        raise BackupError(f"others can read the key file {path}: run `chmod 600 {path}`")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BackupError(
            f"{path} is no key of backups: it needs {2 * KEY_BYTES} hexadecimal digits, as `ledgermq backup new-key` "
            "writes them"
        )
    return key
