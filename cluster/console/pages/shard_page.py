"""The page of one shard: each replica's log, the elections, and the newest entries of all replicas side by side.

The entries of the replicas are compared by their chain values: the chain of an entry is a checksum over this entry and
all earlier ones. Equal chains mean equal logs up to this entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from cluster.console.bars import bars_of
from cluster.console.clients import ConsoleAdmin
from cluster.console.console import ROOT, Route, Visit
from cluster.console.picture import Picture, SeenShard
from cluster.console.timeline import Timeline, timeline_of
from cluster.console.watch import ClusterWatch
from ledger.errors import InvalidArgumentError, LedgerError
from ledger.v1 import inspection_pb2

MAX_ENTRIES = 100
MAX_EVENTS = 100
ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class NodeEntries:
    """What one node says of the entries of its replica. `error` says why it says nothing."""

    node: int
    entries: dict[int, inspection_pb2.ListedEntry]
    commit: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One index of the log, with the entry of each node; None if the node does not have the entry."""

    index: int
    entries: tuple[inspection_pb2.ListedEntry | None, ...]
    is_committed: bool
    # Whether all nodes that have the entry have the same chain.
    agrees: bool

    @property
    def any(self) -> inspection_pb2.ListedEntry:
        return next(entry for entry in self.entries if entry is not None)


async def show(visit: Visit) -> web.StreamResponse:
    visit.require("describe")
    number, last = visit.number("shard", most=2**32 - 1), visit.number("last")
    watch = await visit.watch()
    with watch.watched():
        if not watch.turn:
            await watch.next(0)
        shard = _shard(watch.picture, number)
        admin = await visit.admin()
        nodes = await entries_of_nodes(admin, watch.picture, shard, last)
        rows = rows_of(nodes)
        return visit.page(
            "shard.html",
            title=f"Shard {number}",
            number=number,
            parts=parts_of(visit, watch, number),
            nodes=nodes,
            rows=rows,
            topic_name=admin.topic_name,
            older=rows[-1].index - 1 if rows and rows[-1].index > 1 else 0,
        )


async def live(visit: Visit) -> web.StreamResponse:
    visit.require("describe")
    number = visit.number("shard", most=2**32 - 1)
    watch = await visit.watch()
    with watch.watched():
        return await visit.console.streams.serve(
            visit.request,
            watch,
            lambda: watch.once_a_turn(f"shard {number}", lambda: parts_of(visit, watch, number)),
            lambda: visit.require("describe"),
        )


def parts_of(visit: Visit, watch: ClusterWatch, number: int) -> dict[str, str]:
    """Return the live parts of the page by the ids of their elements."""
    shard = watch.picture.shard(number)
    if shard is None:
        return {}
    events = [event for event in watch.picture.events if event.shard == number]
    timeline: Timeline = timeline_of(events, shard.replicas, watch.picture.time_ms)
    return {
        "shard": visit.text("parts/shard.html", shard=shard, bars=bars_of(shard), alone=True),
        "replicas": visit.text("parts/replicas.html", shard=shard),
        "timeline": visit.text("parts/timeline.html", timeline=timeline),
        "events": visit.text("parts/events.html", events=events[:MAX_EVENTS]),
    }


async def entries_of_nodes(admin: ConsoleAdmin, picture: Picture, shard: SeenShard, last: int) -> list[NodeEntries]:
    """Return the entries of each replica that end at `last`, or at the end of the longest log if `last` is 0."""
    addresses = {node.node: node.address for node in picture.nodes}
    end = last or shard.last_index
    return await asyncio.gather(
        *(_entries(admin, addresses[replica.node], replica.node, shard.shard, end) for replica in shard.replicas)
    )


async def _entries(admin: ConsoleAdmin, address: str, node: int, shard: int, last: int) -> NodeEntries:
    request = inspection_pb2.ListEntriesRequest(shard=shard, last=last, count=MAX_ENTRIES)
    try:
        response = await admin.ask(address, lambda stub, seconds: stub.ListEntries(request, timeout=seconds), ANSWER_S)
    except LedgerError as error:
        return NodeEntries(node, {}, error=str(error))
    return NodeEntries(node, {entry.index: entry for entry in response.entries}, response.commit)


def rows_of(nodes: Sequence[NodeEntries]) -> list[EntryRow]:
    """Return the entries of all nodes by index, the newest first."""
    indexes = sorted({index for node in nodes for index in node.entries}, reverse=True)[:MAX_ENTRIES]
    commit = max((node.commit for node in nodes), default=0)
    rows = []
    for index in indexes:
        entries = tuple(node.entries.get(index) for node in nodes)
        chains = {entry.chain for entry in entries if entry is not None}
        rows.append(EntryRow(index, entries, index <= commit, len(chains) == 1))
    return rows


def _shard(picture: Picture, number: int) -> SeenShard:
    shard = picture.shard(number)
    if shard is None:
        raise InvalidArgumentError(f"There is no shard {number}, or no node with a replica of it has answered.")
    return shard


ROUTES = [
    Route("GET", f"{ROOT}/shards/{{shard}}", show),
    Route("GET", f"{ROOT}/live/shards/{{shard}}", live),
]
