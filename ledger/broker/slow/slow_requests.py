"""Keeps the slow requests of one node: the recent ones, and the slowest since the node started.

A request that is not slow costs two or three readings of the clock. Everything else happens only for a slow request,
after its answer was sent: the driver already remembers when entries were written, acknowledged and committed, once for
each group write (raft/entry_times.py).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import Committed
from ledger.broker.replicas import Replicas
from ledger.broker.slow.entry_parts import EntryParts, entry_parts
from ledger.broker.slow.senders import Senders
from ledger.errors import LedgerError, from_wire
from ledger.slow_request import CallingClient, RequestPart, SlowRequest

# The kinds of requests in the metric.
KINDS = ("produce", "fetch", "group", "other")
# How many requests are kept.
MOST_RECENT = 256
MOST_SLOWEST = 64

# Methods that wait by design, or that measure themselves.
_UNMEASURED = ("Broker/Fetch", "ConsumerGroups/AwaitAssignment")


class ProducedRequest(NamedTuple):
    """What a produce stream knows of a request that it has answered. Times are in ms of `SlowRequests.now_ms`."""

    received_ms: float
    # When all its batches had been given to the broker.
    proposed_ms: float
    topic_id: int
    queue: int
    # The results of its batches.
    results: Sequence[Committed | LedgerError]
    # The context of a span in which the request is to be shown, in W3C's form, or "".
    traceparent: str = ""


class RequestTracer(Protocol):
    """Shows in a trace what a node did with a request."""

    def produced(self, request: SlowRequest, traceparent: str) -> None:
        """Show a produce request, which need not be slow. `traceparent` comes from the client: it may be anything."""


class SlowRequests:
    """The slow requests of one node. `senders` are the clients of the producers that send to this node."""

    def __init__(
        self,
        threshold_ms: float,
        replicas: Replicas,
        monotonic_ms: Callable[[], float],
        wall_ms: Callable[[], int],
        tracer: RequestTracer | None = None,
    ) -> None:
        """A request that takes at least `threshold_ms` is slow. `tracer` shows requests that are traced; None: they are
        not shown. `monotonic_ms()` is the clock of the drivers, in ms,
        and `wall_ms()` the time of day, in ms since 1970."""
        self.threshold_ms = threshold_ms
        self.now_ms = monotonic_ms
        self.senders = Senders()
        # How many requests were slow, by (kind, slowest part). The kinds are KINDS.
        self.counts: Counter[tuple[str, str]] = Counter()
        self._replicas = replicas
        self._wall_ms = wall_ms
        self._tracer = tracer
        self._recent: deque[SlowRequest] = deque(maxlen=MOST_RECENT)
        # A heap: the fastest of the slowest is first. The number makes every item different.
        self._slowest: list[tuple[float, int, SlowRequest]] = []
        self._added = 0

    def kept(self, threshold_ms: float = 0.0) -> list[SlowRequest]:
        """Return the requests that are kept and took at least this time, the newest first."""
        found = {id(each): each for each in self._recent}
        found.update((id(each), each) for _, _, each in self._slowest)
        return sorted(
            (each for each in found.values() if each.total_ms >= threshold_ms),
            key=lambda each: each.began_ms,
            reverse=True,
        )

    def is_slow(self, began_ms: float) -> bool:
        """Return True if a request that began then, and ends now, is slow."""
        return self.now_ms() - began_ms >= self.threshold_ms

    # -- what the services report, after a request was answered

    def produced(self, request: ProducedRequest, client: CallingClient) -> None:
        """Record a produce request, if it was slow, and show it in its trace, if it has one."""
        ended_ms = self.now_ms()
        replica, topic = self._place(request.topic_id, request.queue)
        last, error = None, ""
        for each in request.results:
            if isinstance(each, LedgerError):
                error = error or each.code
            elif last is None or each.index > last.index:
                last = each
        queued = RequestPart("queue", request.proposed_ms - request.received_ms)
        found = EntryParts((RequestPart("commit", ended_ms - request.proposed_ms),), None, ())
        if replica is not None and last is not None and last.index:
            found = entry_parts(replica.driver.times, last.index, request.proposed_ms, ended_ms)
        described = SlowRequest(
            self._began(request.received_ms),
            ended_ms - request.received_ms,
            "Produce",
            client,
            (queued, *found.parts),
            error,
            topic,
            request.queue,
            count=len(request.results),
            shard=0 if replica is None else replica.shard,
            index=0 if last is None else last.index,
            flush_ms=found.flush_ms,
            followers=found.followers,
        )
        if described.total_ms >= self.threshold_ms:
            self._add("produce", described)
        if request.traceparent and self._tracer is not None:
            self._tracer.produced(described, request.traceparent)

    def fetched(
        self,
        began_ms: float,
        waited_ms: float,
        queued_ms: float,
        queues: Sequence[tuple[int, int]],
        client: CallingClient,
        error: str,
    ) -> None:
        """Record a fetch of these queues (topic id and queue) that was slow. It waited `waited_ms` for new messages,
        and `queued_ms` for its turns."""
        total_ms = self.now_ms() - began_ms - waited_ms
        topic_id, queue = queues[0] if queues else (0, 0)
        replica, topic = self._place(topic_id, queue) if queues else (None, "")
        self._add(
            "fetch",
            SlowRequest(
                self._began(began_ms),
                total_ms,
                "Fetch",
                client,
                (RequestPart("queue", queued_ms), RequestPart("read", total_ms - queued_ms)),
                error,
                topic,
                queue,
                count=len(queues),
                shard=0 if replica is None else replica.shard,
            ),
        )

    def measures(self, method: str) -> bool:
        """Return True if calls of the method, such as "/ledger.v1.Broker/CreateTopic", are to be reported to
        `called`."""
        return method.startswith("/ledger.v1.") and _short(method) not in _UNMEASURED

    def called(self, method: str, request: Any, response: Any, client: CallingClient, began_ms: float) -> None:
        """Record a call of a method with one request that was slow."""
        ended_ms = self.now_ms()
        shard, name = getattr(request, "shard", 0), _short(method)
        found, index = self._entry_of(shard, began_ms, ended_ms)
        self._add(
            "group" if name.startswith("ConsumerGroup") else "other",
            SlowRequest(
                self._began(began_ms),
                ended_ms - began_ms,
                name,
                client,
                found.parts,
                _error_of(response),
                consumer_group=getattr(request, "consumer_group", ""),
                shard=shard,
                index=index,
                flush_ms=found.flush_ms,
                followers=found.followers,
            ),
        )

    def _entry_of(self, shard: int, began_ms: float, ended_ms: float) -> tuple[EntryParts, int]:
        """Return the parts of a call, and the index of the entry that it probably waited for, or 0.

        The newest entry that the shard had applied when the call ended is the entry that the call waited for, if it
        waited for one, or an entry of the same group write."""
        replica = self._replicas.get(shard)
        if replica is not None and replica.driver.leads:
            times = replica.driver.times
            index = times.applied.last
            begun = times.begun.time_of(index)
            if begun is not None and begun >= began_ms:
                found = entry_parts(times, index, began_ms, ended_ms)
                named = (RequestPart("work", each.ms) if each.name == "turn" else each for each in found.parts)
                return found._replace(parts=tuple(named)), index
        return EntryParts((RequestPart("work", ended_ms - began_ms),), None, ()), 0

    def _place(self, topic_id: int, queue: int) -> tuple[BrokerReplica | None, str]:
        """Return this node's replica of the queue's shard, and the topic's name. The topic may be deleted since."""
        try:
            topic = self._replicas.topic(topic_id)
            return self._replicas.of_queue(topic_id, queue), "" if topic is None else topic.name
        except LedgerError:
            return None, ""

    def _began(self, began_ms: float) -> int:
        return self._wall_ms() - round(self.now_ms() - began_ms)

    def _add(self, kind: str, slow: SlowRequest) -> None:
        self.counts[kind, slow.slowest_part] += 1
        self._recent.append(slow)
        self._added += 1
        item = (slow.total_ms, self._added, slow)
        if len(self._slowest) < MOST_SLOWEST:
            heapq.heappush(self._slowest, item)
        else:
            heapq.heappushpop(self._slowest, item)


def _error_of(response: Any) -> str:
    """Return the code of the error in a response, or "" if it has none."""
    try:
        return from_wire(response.error).code if response.HasField("error") else ""
    except (AttributeError, ValueError):  # the response is not a message, or has no field for errors
        return ""


def _short(method: str) -> str:
    """Return service and method without the package: "/ledger.v1.Broker/Fetch" -> "Broker/Fetch"."""
    return method.rpartition(".")[2]
