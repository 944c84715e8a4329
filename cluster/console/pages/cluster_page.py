"""The page of the cluster: its health, nodes, rooms, moves of replicas, the logs of all replicas, the newest events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import groupby

from aiohttp import web

from cluster.console.bars import bars_of
from cluster.console.charts import HEADERS
from cluster.console.console import ROOT, Route, Visit
from cluster.console.picture import Picture, SeenNode
from cluster.console.rates import KEEP_EVERY_S
from cluster.console.watch import ClusterWatch
from cluster.replica_moves import reason_of, state_of
from ledger.client.placement_records import Placement

# How many events the page shows. The page of a shard shows more.
MAX_EVENTS = 12


async def show(visit: Visit) -> web.StreamResponse:
    """Show the cluster. A user who may not see it is led to the topics, because every login leads here."""
    if not visit.visitor.may("describe"):
        return visit.goes_to("topics")
    watch = await visit.watch()
    with watch.watched():
        if not watch.turn:
            await watch.next(0)
        return visit.page("overview.html", title="Cluster", parts=parts_of(visit, watch))


async def live(visit: Visit) -> web.StreamResponse:
    visit.require("describe")
    watch = await visit.watch()
    with watch.watched():
        return await visit.console.streams.serve(
            visit.request,
            watch,
            lambda: watch.once_a_turn("cluster", lambda: parts_of(visit, watch)),
            lambda: visit.require("describe"),
        )


def parts_of(visit: Visit, watch: ClusterWatch) -> dict[str, str]:
    """Return the parts of the page by the ids of their elements."""
    picture = watch.picture
    parts = {
        "health": visit.text("parts/health.html", health=picture.health, error=watch.error),
        "rates": visit.text(
            "parts/rates.html",
            total=watch.rates.total,
            points=watch.rates.points,
            chart="charts/cluster.svg",
        ),
        "nodes": visit.text("parts/nodes.html", rooms=rooms_of(picture), states=states_of(watch.placement)),
        "moves": visit.text("parts/moves.html", placement=watch.placement, reason_of=reason_of),
        "map": _map(visit, picture),
        "events": visit.text("parts/events.html", events=picture.events[:MAX_EVENTS]),
    }
    for shard in picture.shards:
        parts[f"shard-{shard.shard}"] = visit.text("parts/shard.html", shard=shard, bars=bars_of(shard), alone=False)
    return parts


def states_of(placement: Placement | None) -> dict[int, str]:
    """Return the states of the nodes that do not simply have replicas: draining, leaving or gone."""
    nodes = () if placement is None else placement.nodes
    states = {node.node: state_of(node) for node in nodes}
    return {node: state for node, state in states.items() if state not in ("ok", "silent")}


def rooms_of(picture: Picture) -> list[tuple[str, list[SeenNode]]]:
    """Return the nodes by machine room."""
    nodes = sorted(picture.nodes, key=lambda node: (node.room, node.node))
    return [(room, list(members)) for room, members in groupby(nodes, key=lambda node: node.room)]


def _map(visit: Visit, picture: Picture) -> str:
    """Return the map of shards and nodes. A cluster with one shard needs none."""
    columns = len(picture.shards)
    return visit.text("parts/map.html", rows=map_of(picture), columns=columns) if columns > 1 else ""


@dataclass(frozen=True, slots=True)
class MapCell:
    """A replica on the map: the column of its shard, its role, and what is wrong with it."""

    column: int
    shard: int
    role: str
    marks: str


def map_of(picture: Picture) -> list[tuple[SeenNode, list[MapCell]]]:
    """Return a row for each node, with a cell for each of its replicas."""
    cells: dict[int, list[MapCell]] = {node.node: [] for node in picture.nodes}
    for column, shard in enumerate(picture.shards):
        for replica in shard.replicas:
            cell = MapCell(column, shard.shard, replica.role, ", ".join(replica.marks))
            cells.setdefault(replica.node, []).append(cell)
    return [(node, cells[node.node]) for room in rooms_of(picture) for node in room[1]]


async def chart(visit: Visit) -> web.StreamResponse:
    """Return the messages a second of the whole cluster, as an image."""
    visit.require("describe")
    watch = await visit.watch()
    rates = watch.rates
    lines = {
        "sent": [rate.messages_in for rate in rates.history],
        "received": [rate.messages_out for rate in rates.history],
    }
    painter = visit.console.painter
    drawing = watch.once_a_turn(
        "chart of the cluster", lambda: asyncio.create_task(painter.rate_chart(lines, KEEP_EVERY_S))
    )
    image = await asyncio.shield(drawing)  # other browsers wait for the same drawing
    return web.Response(body=image, content_type="image/svg+xml", headers=HEADERS)


ROUTES = [
    Route("GET", f"{ROOT}/", show),
    Route("GET", f"{ROOT}/live/cluster", live),
    Route("GET", f"{ROOT}/charts/cluster.svg", chart),
]
