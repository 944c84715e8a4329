"""The list of topics, with their rates, and the form that creates a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from aiohttp import web

from cluster.console.console import ROOT, Route, Visit, number_in
from cluster.console.page import HEADERS
from cluster.console.rates import TopicRate
from cluster.console.reading import bounded
from cluster.console.watch import ClusterWatch
from ledger.client.records import TopicDescription
from ledger.topics import MAX_NAME_LENGTH, MAX_QUEUES, TOPIC_TYPES, is_system_topic

PAGE_TOPICS = 50
SORTS = ("name", "sent", "received")


@dataclass(frozen=True, slots=True)
class TopicList:
    """What the query of the page asks for. `text` is a part of the names."""

    text: str
    sort: str
    with_system: bool
    page: int

    @property
    def query(self) -> str:
        """Return the query of a link to this list."""
        return self.query_with()

    def query_with(self, **other: str | int) -> str:
        """Return the query of a link to a similar list."""
        values: dict[str, str | int] = {
            "q": self.text,
            "sort": self.sort,
            "system": int(self.with_system),
            "page": self.page,
        }
        return urlencode(values | other)


def topic_path(topic: str) -> str:
    """Return the path of a topic's page."""
    return f"{ROOT}/topics/{quote(topic, safe='')}"


async def show(visit: Visit) -> web.StreamResponse:
    wanted = wanted_of(visit)
    watch = await watch_of(visit)
    rates = {} if watch is None else watch.rates.topics
    topics, count, page = listed(await _topics(visit), wanted, rates)
    return visit.page(
        "topics.html",
        title="Topics",
        wanted=wanted,
        topics=topics,
        count=count,
        page=page,
        pages_count=max(1, -(-count // PAGE_TOPICS)),
        rates=rates,
        has_rates=watch is not None,
        types=list(TOPIC_TYPES),
        max_queues=MAX_QUEUES,
        max_name=MAX_NAME_LENGTH,
        may_create=visit.visitor.may_somewhere("create", "topic"),
    )


async def live(visit: Visit) -> web.StreamResponse:
    """Send the rates of the topics that the page shows."""
    visit.require("describe")
    wanted = wanted_of(visit)
    watch = await visit.watch()
    topics, _, _ = listed(await _topics(visit), wanted, watch.rates.topics)
    with watch.watched():
        return await visit.console.streams.serve(
            visit.request, watch, lambda: _parts(visit, watch, topics), lambda: visit.require("describe")
        )


def _parts(visit: Visit, watch: ClusterWatch, topics: Sequence[TopicDescription]) -> dict[str, str]:
    parts = {}
    for topic in topics:
        rate = watch.rates.topics.get(topic.name, TopicRate())
        for way in ("sent", "received"):
            parts[f"{way}-{topic.topic_id}"] = visit.text("parts/topic_rate.html", rate=rate, way=way)
    return parts


async def create(visit: Visit) -> web.StreamResponse:
    name = visit.form.get("name", "").strip()
    queues = number_in(visit.form, "queues", 4, least=1, most=MAX_QUEUES)
    await (await visit.admin()).create_topic(name, queues, type=visit.form.get("type", "mixed"))
    return to(topic_path(name))


def to(path: str) -> web.Response:
    """Return the answer that leads the browser to another page of the console."""
    return web.Response(status=303, headers={**HEADERS, "Location": path})


async def watch_of(visit: Visit) -> ClusterWatch | None:
    """Return the watch with the rates, or None if the user may not describe the cluster."""
    if not visit.visitor.may("describe"):
        return None
    watch = await visit.watch()
    with watch.watched():
        pass  # it runs for some seconds from now on
    return watch


async def _topics(visit: Visit) -> list[TopicDescription]:
    admin = await visit.admin()
    async with bounded("The list of topics"):
        return await admin.list_topics()


def wanted_of(visit: Visit) -> TopicList:
    query = visit.request.query
    sort = query.get("sort", SORTS[0])
    return TopicList(
        query.get("q", "").strip()[:MAX_NAME_LENGTH],
        sort if sort in SORTS else SORTS[0],
        query.get("system") == "1",
        visit.number("page", 1, least=1, most=10**6),
    )


def listed(
    topics: Sequence[TopicDescription], wanted: TopicList, rates: Mapping[str, TopicRate]
) -> tuple[list[TopicDescription], int, int]:
    """Return the topics of one page, how many topics there are on all pages, and the number of the page."""
    text = wanted.text.lower()
    found = [
        topic
        for topic in topics
        if text in topic.name.lower() and (wanted.with_system or not is_system_topic(topic.name))
    ]
    if wanted.sort != "name":
        nothing = TopicRate()
        field = "messages_in" if wanted.sort == "sent" else "messages_out"
        found.sort(key=lambda topic: (-getattr(rates.get(topic.name, nothing), field), topic.name))
    page = min(wanted.page, max(1, -(-len(found) // PAGE_TOPICS)))
    return found[(page - 1) * PAGE_TOPICS : page * PAGE_TOPICS], len(found), page


ROUTES = [
    Route("GET", f"{ROOT}/topics", show),
    Route("POST", f"{ROOT}/topics", create),
    Route("GET", f"{ROOT}/live/topics", live),
]
