"""How the bytes of a replica are got: from a directory, or over HTTP from a running node.

A reader asks for a range of a segment, or for a small file whole, and gets exactly that, or an error that says why
nothing can be judged from here. What was there when the validation began and is gone now because the log's start has
moved on (retention) is told apart: that is no fault of anybody.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ledger.validation.sources.replica import Segment

# How long a node that is busy, or just opening its log, is asked again.
_PATIENCE_S = 30.0
_AGAIN_S = 0.25
_TIMEOUT_S = 20.0


class SourceError(Exception):
    """A source cannot be read: what it holds cannot be judged. The sentence says which, and why."""


class SegmentGoneError(Exception):
    """The log begins later by now."""


class Access(Protocol):
    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        """Bytes [begin, end) of the log, in that segment; fewer where the file is shorter. Raises SourceError,
        SegmentGoneError."""

    def file(self, path: str) -> bytes | None:
        """All of a small file; None where there is none. Raises SourceError."""


def access_to(path: str) -> Access:
    """Whichever fits a path or URL."""
    return HttpAccess() if is_url(path) else FileAccess()


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


class FileAccess:
    """The operating system's files. Read, not mapped: a file that is cut while it is read must not end the process."""

    def __init__(self) -> None:
        self._path = ""
        self._descriptor = -1

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        try:
            descriptor = self._open(segment.path)
            return _pread(descriptor, end - begin, begin - segment.base)
        except FileNotFoundError as error:
            raise SegmentGoneError(f"{segment.path} is not there any more") from error
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
    """Of a file beside a log; fewer bytes where it ends before. Raises OSError with the path."""
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
    """A node's HTTP port, as `cluster/node/http/segment_routes.py` serves it; one connection, kept while it lasts."""

    def __init__(self) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._host = ""
        # Why nobody is waited for a second time, by host.
        self._silent: dict[str, str] = {}

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        first, last = begin - segment.base, end - segment.base - 1
        status, body = self._get(segment.path, {"Range": f"bytes={first}-{last}"})
        if status in (404, 410):
            raise SegmentGoneError(f"{segment.path} is not served any more: {_words(body)}")
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
                f"{url} is not served: a node of this version is needed, with `serve_segments` as it is by default"
            )
        try:
            return json.loads(body)
        except ValueError as error:
            raise SourceError(f"{url}: what answers there is no node of ledgermq ({error})") from error

    def _get(self, url: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Asks again while the node says that it is busy, and once more where a kept connection was closed."""
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
                raise SourceError(f"{url} cannot be read: {error or type(error).__name__}") from error
            if status != 503 or time.monotonic() > until:
                return status, body
            time.sleep(_AGAIN_S)

    def _once(self, url: str, headers: dict[str, str]) -> tuple[int, bytes]:
        parts = urlsplit(url)
        connection = self._connection
        if connection is None or self._host != parts.netloc:
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(parts.netloc, timeout=_TIMEOUT_S)
            connection.connect()  # before it counts as kept
            self._connection, self._host = None, parts.netloc
        connection.request("GET", parts.path or "/", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        self._connection = connection
        return answer.status, body


def _words(body: bytes) -> str:
    return body[:300].decode(errors="replace").strip()
