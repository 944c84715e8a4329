"""The page of one topic: its queues, rates, groups and holds, and the forms that change or delete it."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from cluster.console.charts import HEADERS as CHART_HEADERS
from cluster.console.clients import ConsoleAdmin
from cluster.console.console import ROOT, Route, Visit, number_in
from cluster.console.pages.topics_page import to, topic_path, watch_of
from cluster.console.rates import KEEP_EVERY_S, TopicRate
from cluster.console.reading import bounded
from cluster.console.topic_groups import TopicGroups
from cluster.console.watch import ClusterWatch
from ledger.access.rules import Action
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.records import LogHold, QueueOffsets
from ledger.errors import InvalidArgumentError, LedgerError, PermissionDeniedError
from ledger.topics import MAX_QUEUES, TOPIC_TYPES, is_system_topic

# How many queues one page shows, and how long the page waits for groups and holds.
PAGE_QUEUES = 64
EXTRAS_S = 3.0


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a topic has, and who reads it. `groups` and `holds` are None if they cannot be shown; `reasons` says why."""

    topic: RoutedTopic
    offsets: list[QueueOffsets]
    groups: TopicGroups | None
    holds: list[LogHold] | None
    reasons: list[str]

    @property
    def messages(self) -> int:
        return sum(one.end_offset - one.first_offset for one in self.offsets)


def named(visit: Visit) -> str:
    """Return the name of the topic in the path."""
    return visit.request.match_info["topic"]


async def show(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    facts = await facts_of(await visit.admin(), name)
    watch = await watch_of(visit)
    first = visit.number("from", most=MAX_QUEUES)
    return visit.page(
        "topic.html",
        title=f"Topic {name}",
        name=name,
        path=topic_path(name),
        facts=facts,
        queues=[one for one in facts.offsets if first <= one.queue < first + PAGE_QUEUES],
        first=first,
        page_queues=PAGE_QUEUES,
        parts={} if watch is None else _parts(visit, watch, name),
        types=list(TOPIC_TYPES),
        max_queues=MAX_QUEUES,
        may=lambda action: may(visit, action, name),
    )


def may(visit: Visit, action: Action, name: str) -> bool:
    """Return True if the user may do this with the topic. Nobody changes a topic of the broker by hand."""
    is_change = action in ("alter", "delete", "publish")
    return visit.visitor.may_on_topic(action, name) and not (is_change and is_system_topic(name))


async def facts_of(admin: ConsoleAdmin, name: str) -> TopicFacts:
    """Raises UnknownTopicError if the topic does not exist, or if the user may not see it."""
    topic = await admin.reader.topic(name)
    offsets = await admin.reader.offsets(topic, sizes=True)
    groups, holds, reasons = None, None, []
    try:
        async with bounded("The search for groups", EXTRAS_S):
            groups = await admin.groups_of(topic)
    except LedgerError as error:
        reasons.append(f"The groups of the topic are not shown: {error}")
    try:
        async with bounded("The search for holds", EXTRAS_S):
            holds = [hold for hold in await admin.log_holds() if hold.shard in topic.shards]
    except PermissionDeniedError:
        pass  # holds are for users who may describe the cluster
    except LedgerError as error:
        reasons.append(f"The holds are not shown: {error}")
    return TopicFacts(topic, offsets, groups, holds, reasons)


async def live(visit: Visit) -> web.StreamResponse:
    visit.require("describe")
    name = named(visit)
    check(visit, "describe", name)
    watch = await visit.watch()
    with watch.watched():
        return await visit.console.streams.serve(
            visit.request, watch, lambda: _parts(visit, watch, name), lambda: check(visit, "describe", name)
        )


def check(visit: Visit, action: Action, name: str) -> None:
    """Raise PermissionDeniedError if the user does not have the right on the topic."""
    if not may(visit, action, name):
        raise PermissionDeniedError(f"User {visit.visitor.name} has no right to {action} topic {name}.")


def _parts(visit: Visit, watch: ClusterWatch, name: str) -> dict[str, str]:
    rate = watch.rates.topics.get(name, TopicRate())
    chart_path = f"charts{topic_path(name).removeprefix(ROOT)}"
    return {"rates": visit.text("parts/rates.html", total=rate, points=watch.rates.points, chart=chart_path)}


async def chart(visit: Visit) -> web.StreamResponse:
    """Return the messages a second of the topic, as an image."""
    visit.require("describe")
    name = named(visit)
    check(visit, "describe", name)
    history = (await visit.watch()).rates.history_of(name)
    lines = {
        "sent": [rate.messages_in for rate in history],
        "received": [rate.messages_out for rate in history],
    }
    image = await visit.console.painter.rate_chart(lines, KEEP_EVERY_S)
    return web.Response(body=image, content_type="image/svg+xml", headers=CHART_HEADERS)


# -- changes


async def add_queues(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    queues = number_in(visit.form, "queues", least=1, most=MAX_QUEUES)
    if not queues:
        raise InvalidArgumentError("Give the new number of queues.")
    await (await visit.admin()).alter_topic(name, queues)
    return to(topic_path(name))


async def change_type(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    await (await visit.admin()).alter_topic(name, type=visit.form.get("type", ""))
    return to(topic_path(name))


async def ask_delete(visit: Visit) -> web.StreamResponse:
    """Show what is lost if the topic is deleted."""
    return await _delete_page(visit, "")


async def _delete_page(visit: Visit, error: str) -> web.Response:
    name = named(visit)
    check(visit, "delete", name)
    return visit.page(
        "topic_delete.html",
        400 if error else 200,
        title=f"Delete topic {name}",
        name=name,
        path=topic_path(name),
        facts=await facts_of(await visit.admin(), name),
        error=error,
    )


async def delete(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    if visit.form.get("name") != name:
        return await _delete_page(visit, "The name that you typed is not the name of the topic. Nothing was deleted.")
    await (await visit.admin()).delete_topic(name)
    return to(f"{ROOT}/topics")


TOPIC = f"{ROOT}/topics/{{topic}}"
ROUTES = [
    Route("GET", TOPIC, show),
    Route("GET", f"{ROOT}/live/topics/{{topic}}", live),
    Route("GET", f"{ROOT}/charts/topics/{{topic}}", chart),
    Route("POST", f"{TOPIC}/queues", add_queues),
    Route("POST", f"{TOPIC}/type", change_type),
    Route("GET", f"{TOPIC}/delete", ask_delete),
    Route("POST", f"{TOPIC}/delete", delete),
]
