"""Reads the bytes of a replica: from a directory, over HTTP from a running node, or from a backup.

A reader asks for a range of a segment, or for a whole small file. A SourceError says why a segment or a file cannot be
read. A SegmentGoneError says that retention has removed a segment since the start of the validation, which is no
fault.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import platform
import ssl
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ledger.client.connection.security import Security, security_of
from ledger.errors import InvalidArgumentError
from ledger.validation.sources.backup_access import BackupAccess, is_backup
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.replica import Segment

# How long a request is repeated while a node is busy or is opening its log, in seconds.
_PATIENCE_S = 30.0
_AGAIN_S = 0.25
_TIMEOUT_S = 20.0


class Access(Protocol):
    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        """Return bytes [begin, end) of the log, or fewer if the file is shorter. The bytes lie in `segment`.

        Raises SourceError or SegmentGoneError.
        """

    def file(self, path: str) -> bytes | None:
        """Return a whole small file, or None if it does not exist. Raises SourceError."""


def access_to(path: str) -> Access:
    """Return the access for a path, a URL or a backup."""
    if is_backup(path):
        return BackupAccess(path)
    return HttpAccess() if is_url(path) else FileAccess()


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


class FileAccess:
    """Reads files. Reads the files of a directory. The files are not mapped, because a mapped file that becomes
    shorter would end the process."""

    def __init__(self) -> None:
        self._path = ""
        self._descriptor = -1

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        try:
            descriptor = self._open(segment.path)
            return _pread(descriptor, end - begin, begin - segment.base)
        except FileNotFoundError as error:
            directory = Path(segment.path).parent
            # Retention removes files only. So this is another host, or the shard was removed.
            if not directory.is_dir():
                raise SourceError(
                    f"{directory} does not exist on host {platform.node()}: give a directory that all hosts of Spark's "
                    "executors have, or http://HOST:PORT of the running node"
                ) from error
            raise SegmentGoneError(f"{segment.path} was removed") from error
        except OSError as error:
            raise SourceError(f"{segment.path} cannot be read: {error.strerror or error}") from error

    def file(self, path: str) -> bytes | None:
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error

    def _open(self, path: str) -> int:
        if path != self._path:
            self.close()
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._path = path
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self._path = -1, ""

    def __del__(self) -> None:
        self.close()


def read_part(path: Path, offset: int, count: int) -> bytes:
    """Return `count` bytes of a file from `offset` on, or fewer if the file ends first. Raises OSError, which names
    the path."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _pread(descriptor, count, offset)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


def _pread(descriptor: int, count: int, offset: int) -> bytes:
    data = os.pread(descriptor, count, offset)
    while 0 < len(data) < count:  # one call gives 2 GiB at most, and may be interrupted
        more = os.pread(descriptor, count - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


class HttpAccess:
    """Reads from the HTTP port of a node (cluster/node/http/segment_routes.py), over one connection.

    The user, the password or the delegated token, and the authorities for https come from the environment or a profile
    (ledger/client/connection/security.py), so that no plan of Spark has a password."""

    def __init__(self) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._host = ""
        # The header that proves who this reader is; empty if it proves nothing.
        self._proof: dict[str, str] = {}
        # By host: why no further request is sent to it.
        self._silent: dict[str, str] = {}

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        first, last = begin - segment.base, end - segment.base - 1
        status, body = self._get(segment.path, {"Range": f"bytes={first}-{last}"})
        if status in (404, 410):
            raise SegmentGoneError(f"the node does not serve {segment.path} any more: {_words(body)}")
        if status == 416:
            return b""  # it has fewer bytes than that by now
        if status not in (200, 206):
            raise SourceError(f"{segment.path}: the node answered {status}: {_words(body)}")
        return body if status == 206 else body[first : last + 1]

    def file(self, path: str) -> bytes | None:
        status, body = self._get(path, {})
        if status in (404, 410):
            return None
        if status != 200:
            raise SourceError(f"{path}: the node answered {status}: {_words(body)}")
        return body

    def json(self, url: str) -> Any:
        body = self.file(url)
        if body is None:
            raise SourceError(
                f"the node does not serve {url}: use a node of this version, with `serve_segments = true`"
            )
        try:
            return json.loads(body)
        except ValueError as error:
            raise SourceError(f"{url}: the server there is not a ledgermq node ({error})") from error

    def _get(self, url: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send a request; repeat it while the node is busy, and once if an open connection was closed."""
        until = time.monotonic() + _PATIENCE_S
        host = urlsplit(url).netloc
        if host in self._silent:
            raise SourceError(f"{url} cannot be read: {self._silent[host]}")
        while True:
            try:
                status, body = self._once(url, headers)
            except TimeoutError as error:
                self._connection = None
                self._silent[host] = f"the node did not answer within {_TIMEOUT_S:g} s"
                raise SourceError(f"{url} cannot be read: {self._silent[host]}") from error
            except (OSError, http.client.HTTPException) as error:
                kept, self._connection = self._connection is not None, None
                if kept:
                    continue
                if isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
                    raise SourceError(
                        f"{url} cannot be read: the server there does not answer by HTTP: give the HTTP port of a node"
                    ) from error
                raise SourceError(f"{url} cannot be read: {error or type(error).__name__}") from error
            if status != 503 or time.monotonic() > until:
                return status, body
            time.sleep(_AGAIN_S)

    def _connected(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        """Return a new connection. Raises OSError, and SourceError if the security settings cannot be used."""
        try:
            security = security_of({}, [netloc])
            self._proof = proof_headers(security)
        except InvalidArgumentError as error:
            raise SourceError(f"{netloc} cannot be read: {error}") from error
        connection: http.client.HTTPConnection
        if scheme == "https":
            context = ssl.create_default_context(cafile=None if security.ca is None else str(security.ca))
            connection = http.client.HTTPSConnection(netloc, timeout=_TIMEOUT_S, context=context)
        else:
            connection = http.client.HTTPConnection(netloc, timeout=_TIMEOUT_S)
        connection.connect()  # before it counts as kept
        return connection

    def _once(self, url: str, headers: dict[str, str]) -> tuple[int, bytes]:
        parts = urlsplit(url)
        connection = self._connection
        if connection is None or self._host != parts.netloc:
            connection = self._connected(parts.scheme, parts.netloc)
            self._connection, self._host = None, parts.netloc
        connection.request("GET", parts.path or "/", headers={**headers, **self._proof})
        answer = connection.getresponse()
        body = answer.read()
        self._connection = connection
        return answer.status, body


def proof_headers(security: Security) -> dict[str, str]:
    """Return the HTTP header by which a client proves who it is."""
    if security.token:
        return {"Authorization": f"Bearer {security.token}"}
    if security.user:
        pair = f"{security.user}:{security.current_password()}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _words(body: bytes) -> str:
    return body[:300].decode(errors="replace").strip()
