"""Serves the segments of the logs over HTTP, for validation, Spark and copies of a replica.

    GET /shards                                     node, cluster and the numbers of its shards, as JSON
    GET /shards/0/snapshot                          the snapshot that the log begins with; 404 if it begins at entry 1
    GET /shards/0/segments                          the list of segments, as JSON
    GET /shards/0/segments/00000000000067108864     one segment up to its last entry; with Range, and HEAD

The node sends the bytes of a segment file by sendfile, up to the end of the last entry. After its last entry, a
segment file contains only zero bytes, which are not sent. A segment is *sealed* when all its entries are committed and
the log continues in a later segment. A sealed segment never changes, and it has the same ETag on every replica. An
active segment grows, and Raft can replace its uncommitted entries. Therefore a reader of an active segment checks the
CRC and the chain of each entry.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from aiohttp import web

from cluster.node.http.downloads import RETRY_AFTER_S, DownloadLimits, DownloadPace, Downloads
from cluster.node.http.file_sender import FileSender, send_bytes
from store import UNREADABLE, CommitLog, SegmentSpan, Snapshot


class ServedReplica(Protocol):
    """`ServedReplica` is the interface through which `segment_routes` uses this node's replica of one shard."""

    @property
    def number(self) -> int: ...
    @property
    def is_closed(self) -> bool:
        """Return True if the log cannot be read, because startup repair has not finished."""

    def not_ready(self) -> str:
        """Return the reason why the replica is not ready, or "" if it is ready."""

    @property
    def log(self) -> CommitLog: ...
    @property
    def snapshot(self) -> Snapshot | None:
        """Return the snapshot with which the log begins, or None if the log begins at entry 1."""

    @property
    def commit(self) -> int:
        """Return the commit index that this node knows. The leader's commit index can be higher."""


class SegmentRoutes:
    def __init__(
        self, node: int, cluster: str, shards: Mapping[int, ServedReplica], limits: DownloadLimits | None = None
    ) -> None:
        """`shards` maps shard numbers to this node's replicas. The caller is allowed to add shards to the mapping
        `shards` later."""
        self._node = node
        self._cluster = cluster
        self._shards = shards
        limits = limits or DownloadLimits()
        self._threads = ThreadPoolExecutor(limits.most, "segments")
        self._downloads = Downloads(limits)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes for GET requests. aiohttp adds a HEAD route to each."""
        return [
            web.get("/shards", self._list_shards),
            web.get(r"/shards/{shard:\d{1,9}}/snapshot", self._snapshot),
            web.get(r"/shards/{shard:\d{1,9}}/segments", self._list),
            web.get(r"/shards/{shard:\d{1,9}}/segments/{name:\d{20}}", self._segment),
        ]

    def close(self) -> None:
        """Stop the threads that send files. Call `close` after the server has ended all requests."""
        self._threads.shutdown(wait=False)

    async def _list_shards(self, _: web.Request) -> web.Response:
        return web.json_response({"node": self._node, "cluster": self._cluster, "shards": sorted(self._shards)})

    async def _snapshot(self, request: web.Request) -> web.StreamResponse:
        snapshot = self._shard(request).snapshot
        if snapshot is None:
            raise web.HTTPNotFound(text="the log of this node begins at entry 1, so there is no snapshot before it")
        content = snapshot.encode()
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = len(content)
        if request.method == "HEAD":
            return response
        with self._downloads.place(request) as pace:
            try:
                writer = await response.prepare(request)
                assert writer is not None
                await send_bytes(request, writer, content, pace)
                await response.write_eof()
            except ConnectionError:
                pass  # the client has disconnected or is too slow, so there is no one to answer
        return response

    async def _list(self, request: web.Request) -> web.Response:
        shard = self._shard(request)
        log, spans = shard.log, _spans(shard.log)
        return web.json_response(
            {
                "shard": shard.number,
                "first_index": log.first_index,
                "last_index": log.last_index,
                "start": log.start,
                "end": log.end,
                "chain": log.tail.chain,
                "commit": shard.commit,
                "segments": [_fields(span, shard.commit) for span in spans],
            }
        )

    async def _segment(self, request: web.Request) -> web.StreamResponse:
        shard, name = self._shard(request), request.match_info["name"]
        span = _span(shard.log, int(name))
        etag = f"{name}-{span.length}-{span.chain:08x}" if _is_sealed(span, shard.commit) else None
        headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        headers |= {"Cache-Control": "no-store"} if etag is None else {"ETag": f'"{etag}"'}
        if etag is not None and any(etag == known.value for known in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        part = _part(request, span.length, etag)
        if part is not None:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{span.length}"
        wanted = range(span.length) if part is None else part
        response = web.StreamResponse(status=200 if part is None else 206, headers=headers)
        response.content_length = len(wanted)
        if request.method == "HEAD":
            return response
        with self._downloads.place(request) as pace:
            await self._send(request, response, span, wanted, pace)
        return response

    async def _send(
        self, request: web.Request, response: web.StreamResponse, span: SegmentSpan, wanted: range, pace: DownloadPace
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            descriptor = await loop.run_in_executor(self._threads, os.open, span.path, os.O_RDONLY)
        except FileNotFoundError as error:  # retention has moved the log start meanwhile
            raise _gone(self._shard(request).log) from error
        except OSError as error:
            reason = f"{span.path} cannot be opened ({error.strerror}): try again shortly"
            raise web.HTTPServiceUnavailable(text=reason, headers={"Retry-After": str(RETRY_AFTER_S)}) from error
        sender = FileSender(self._threads, descriptor, pace)  # an open file stays readable after retention removes it
        try:
            writer = await response.prepare(request)
            assert writer is not None
            await sender.send(request, writer, wanted.start, len(wanted))
            await response.write_eof()
        except ConnectionError:
            pass  # the client has disconnected or is too slow, so there is no one to answer
        finally:
            sender.close()

    def _shard(self, request: web.Request) -> ServedReplica:
        number = int(request.match_info["shard"])
        if number not in self._shards:
            raise web.HTTPNotFound(
                text=f"this node has no replica of shard {number}: it has replicas of the shards {sorted(self._shards)}"
            )
        shard = self._shards[number]
        if shard.is_closed:
            raise _damaged(shard.not_ready())
        return shard


def _is_sealed(span: SegmentSpan, commit: int) -> bool:
    return not span.is_last and span.last_index <= commit


def _fields(span: SegmentSpan, commit: int) -> dict[str, Any]:
    return {
        "name": span.path.name,
        "position": span.base,
        "start": span.start,
        "length": span.length,
        "state": "sealed" if _is_sealed(span, commit) else "active",
        "first_index": span.first_index,
        "last_index": span.last_index,
        "chain": span.chain,
    }


def _spans(log: CommitLog) -> list[SegmentSpan]:
    """Return the segments that have entries. Raises HTTP 503 if the last entry of a segment cannot be read."""
    try:
        return log.reading.spans()
    except UNREADABLE as damage:
        raise _damaged(str(damage)) from damage


def _damaged(reason: str) -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(text=reason, headers={"Retry-After": str(RETRY_AFTER_S)})


def _span(log: CommitLog, base: int) -> SegmentSpan:
    """Return the segment that begins at position `base`. Raises HTTP 410 if `base` is before the log start, 404 if
    no segment with entries begins at `base`, and 503 if the segment is damaged."""
    spans = _spans(log)
    found = next((span for span in spans if span.base == base), None)
    if found is not None:
        if (bad := log.reading.damaged) and base < bad.stop and base + found.length > bad.start:
            raise _damaged(
                f"segment {found.path.name} is damaged from position {bad.start} to {bad.stop}; this node is repairing "
                "it: try again shortly"
            )
        return found
    if base < (spans[0].base if spans else log.start):
        raise _gone(log)
    raise web.HTTPNotFound(text=f"no segment with entries begins at position {base}; the log ends at {log.end}")


def _gone(log: CommitLog) -> web.HTTPGone:
    first = next(
        (f": the first segment is {span.path.name}" for span in log.reading.spans()), "; it has no entries now"
    )
    return web.HTTPGone(text=f"the log of this node begins at position {log.start}, entry {log.first_index}{first}")


def _part(request: web.Request, length: int, etag: str | None) -> range | None:
    """Return the range of bytes that the client requests, or None for the whole segment. If the request has an
    If-Range header that differs from `etag`, return None too. Raise HTTP 416 if the segment has no byte of the
    requested range."""
    if_range = request.headers.get("If-Range")
    if "Range" not in request.headers or (if_range is not None and (etag is None or if_range != f'"{etag}"')):
        return None
    try:
        part = range(*request.http_range.indices(length))
        if not part:
            raise ValueError("it begins after the end")
    except ValueError as error:
        raise web.HTTPRequestRangeNotSatisfiable(
            text=f"this segment has {length} bytes: no such range ({error})",
            headers={"Content-Range": f"bytes */{length}"},
        ) from error
    return part
