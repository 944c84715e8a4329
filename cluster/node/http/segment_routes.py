"""The log's segments over HTTP: for replicas that are made by copying, for Spark, for whoever wants to look.

    GET /shards                                     whose node this is, and which shards it has, as JSON
    GET /shards/0/snapshot                            the base where the log begins; 404 where it begins at entry 1
    GET /shards/0/segments                          what there is, as JSON
    GET /shards/0/segments/00000000000067108864     the file up to its last entry; with Range, and HEAD

A segment file goes out as it lies on the disk, by sendfile, but only up to the end of its last entry: what is behind
is blank, and no part of the log. A segment is *sealed* when all its entries are committed and later ones follow
elsewhere; then it never changes, and has an ETag, the same on every replica. Of an active one the end grows, and a
tail that was not committed may be replaced: its readers go by CRC and chain, as the entries have them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from aiohttp import web

from cluster.node.http.file_sender import FileSender
from store import CommitLog, RangeDamagedError, SegmentSpan, Snapshot
from store.log.entry import EntryFlawError

MAX_DOWNLOADS = 8
"""At the same time; whoever comes then is told to come again."""
RETRY_AFTER_S = 1


class Shard(Protocol):
    """One shard as this node has it."""

    @property
    def number(self) -> int: ...
    @property
    def is_closed(self) -> bool:
        """Whether the log cannot be read at all, and is being repaired."""

    def not_ready(self) -> str:
        """Why not."""

    @property
    def log(self) -> CommitLog: ...
    @property
    def snapshot(self) -> Snapshot | None:
        """Where the log begins; None: at entry 1."""

    @property
    def commit(self) -> int:
        """Index up to which the log is surely committed."""


class SegmentRoutes:
    def __init__(self, node: int, cluster: str, shards: Mapping[int, Shard]) -> None:
        """`shards`: by number, as they come to this node."""
        self._node = node
        self._cluster = cluster
        self._shards = shards
        self._threads = ThreadPoolExecutor(MAX_DOWNLOADS, "segments")
        self._downloads = 0

    def routes(self) -> list[web.RouteDef]:
        """HEAD comes with GET."""
        return [
            web.get("/shards", self._list_shards),
            web.get(r"/shards/{shard:\d{1,9}}/snapshot", self._snapshot),
            web.get(r"/shards/{shard:\d{1,9}}/segments", self._list),
            web.get(r"/shards/{shard:\d{1,9}}/segments/{name:\d{20}}", self._segment),
        ]

    def close(self) -> None:
        """Once no request is served any more."""
        self._threads.shutdown(wait=False)

    async def _list_shards(self, _: web.Request) -> web.Response:
        return web.json_response({"node": self._node, "cluster": self._cluster, "shards": sorted(self._shards)})

    async def _snapshot(self, request: web.Request) -> web.Response:
        snapshot = self._shard(request).snapshot
        if snapshot is None:
            raise web.HTTPNotFound(text="the log of this node begins at entry 1: it has no base")
        return web.Response(body=snapshot.encode(), content_type="application/octet-stream")

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
        if self._downloads >= MAX_DOWNLOADS:
            reason = f"{MAX_DOWNLOADS} segments are being served: try again shortly"
            raise web.HTTPServiceUnavailable(text=reason, headers={"Retry-After": str(RETRY_AFTER_S)})
        self._downloads += 1
        try:
            await self._send(request, response, span, wanted)
        finally:
            self._downloads -= 1
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, span: SegmentSpan, wanted: range) -> None:
        loop = asyncio.get_running_loop()
        try:
            descriptor = await loop.run_in_executor(self._threads, os.open, span.path, os.O_RDONLY)
        except FileNotFoundError as error:  # the log's start has moved on meanwhile
            raise _gone(self._shard(request).log) from error
        except OSError as error:
            reason = f"{span.path} cannot be opened ({error.strerror}): try again shortly"
            raise web.HTTPServiceUnavailable(text=reason, headers={"Retry-After": str(RETRY_AFTER_S)}) from error
        sender = FileSender(self._threads, descriptor)  # an open file stays, whatever becomes of its name
        try:
            writer = await response.prepare(request)
            assert writer is not None
            await sender.send(request, writer, wanted.start, len(wanted))
            await response.write_eof()
        except ConnectionError:
            pass  # nobody is there to be told
        finally:
            sender.close()

    def _shard(self, request: web.Request) -> Shard:
        number = int(request.match_info["shard"])
        if number not in self._shards:
            raise web.HTTPNotFound(text=f"there is no shard {number} on this node: it has {sorted(self._shards)}")
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
    """Raises 503 where their last entries cannot be read."""
    try:
        return log.reading.spans()
    except (RangeDamagedError, EntryFlawError) as damage:
        raise _damaged(str(damage)) from damage


def _damaged(reason: str) -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(text=reason, headers={"Retry-After": str(RETRY_AFTER_S)})


def _span(log: CommitLog, base: int) -> SegmentSpan:
    """Of the segment that begins there. Raises 410 before the log's start, 404 where there is none, 503 where it is
    damaged."""
    spans = _spans(log)
    found = next((span for span in spans if span.base == base), None)
    if found is not None:
        if (bad := log.reading.damaged) and base < bad.stop and base + found.length > bad.start:
            raise _damaged(f"{found.path.name} is damaged from {bad.start} to {bad.stop}, and being repaired")
        return found
    if base < (spans[0].base if spans else log.start):
        raise _gone(log)
    raise web.HTTPNotFound(text=f"no segment with entries begins at position {base}; the log ends at {log.end}")


def _gone(log: CommitLog) -> web.HTTPGone:
    first = next((f": the first segment is {span.path.name}" for span in log.reading.spans()), " any more")
    return web.HTTPGone(text=f"the log of this node begins at position {log.start}, entry {log.first_index}{first}")


def _part(request: web.Request, length: int, etag: str | None) -> range | None:
    """The bytes that are asked for; None for all, which a range with another If-Range than `etag` means too. Raises 416
    where there is no such byte."""
    if_range = request.headers.get("If-Range")
    if "Range" not in request.headers or (if_range is not None and (etag is None or if_range != f'"{etag}"')):
        return None
    try:
        part = range(*request.http_range.indices(length))
        if not part:
            raise ValueError("it begins behind the end")
    except ValueError as error:
        raise web.HTTPRequestRangeNotSatisfiable(
            text=f"this segment has {length} bytes: no such range ({error})",
            headers={"Content-Range": f"bytes */{length}"},
        ) from error
    return part
