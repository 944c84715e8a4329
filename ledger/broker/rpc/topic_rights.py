"""The rights on topics for the methods that name many topics in one call: Produce, Fetch and GetRoute.

These methods serve the topics for which the caller has the right, and refuse the others one by one, so that one revoked
right does not stop the other topics of a client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ledger.access.rules import CLUSTER, Action, Resource, topic_resource
from ledger.batch import half_target_of, place_of, target_of
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller, present_caller
from ledger.broker.fetch.fetch_result import FetchedQueue, FetchResult, QueueFetch, detached
from ledger.broker.node_view import TopicRoutes
from ledger.broker.produce.proposals import Committed
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.produce_stream import Batches
from ledger.errors import AuthenticationError, LedgerError
from ledger.timed import TIMED_TOPIC
from ledger.transactions import HALF_TOPIC


class TopicRights:
    """Without `authorizer`, every caller has every right."""

    def __init__(self, replicas: Replicas, authorizer: Authorizer | None) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def checked_batches(self, batches: Batches) -> Batches:
        """Return `batches` with a check of the present caller's rights."""
        caller = present_caller()
        if self._authorizer is None or caller.has_every_right:
            return batches
        return CheckedBatches(batches, self, caller)

    def allowed(self, wanted: Sequence[QueueFetch]) -> tuple[Sequence[QueueFetch], list[FetchedQueue]]:
        """Return the queues that the present caller may read, and results that refuse the other queues."""
        caller = present_caller()
        if self._authorizer is None or caller.has_every_right:
            return wanted, []
        errors = {
            topic_id: self._error(caller, topic_id) for topic_id in dict.fromkeys(each.topic_id for each in wanted)
        }
        refused = [
            FetchedQueue(each.topic_id, each.queue, each.offset, error=errors[each.topic_id])
            for each in wanted
            if errors[each.topic_id] is not None
        ]
        return [each for each in wanted if errors[each.topic_id] is None], refused

    def withhold(self, result: FetchResult, wanted: Sequence[QueueFetch]) -> None:
        """Take the messages out of the result of a fetch that the present caller may not read any more. A fetch can
        wait for a minute, and a right can end meanwhile."""
        caller = present_caller()
        if self._authorizer is None or caller.has_every_right:
            return
        errors: dict[int, LedgerError | None] = {}
        for place, (asked, found) in enumerate(zip(wanted, result.queues, strict=False)):
            if not found.batches:
                continue
            if found.topic_id not in errors:
                errors[found.topic_id] = self._error(caller, found.topic_id)
            error = errors[found.topic_id]
            if error is not None:
                # Without an error, the client asks again, and is asked for a new proof.
                told = None if isinstance(error, AuthenticationError) else error
                result.queues[place] = FetchedQueue(found.topic_id, found.queue, asked.offset, error=told)

    def visible(self, routes: TopicRoutes) -> TopicRoutes:
        """Return the routes without the topics that the present caller may not see. Every caller sees where messages
        with delivery times and half batches wait, because the rights on them are those on their target topics."""
        caller, authorizer = present_caller(), self._authorizer
        if authorizer is None or caller.has_every_right:
            return routes
        topics = (
            topic
            for topic in routes.topics
            if topic.name in (TIMED_TOPIC, HALF_TOPIC) or authorizer.may(caller, "describe", topic_resource(topic.name))
        )
        return replace(routes, topics=tuple(topics))

    def visible_groups(self, names: Iterable[str]) -> set[str]:
        """Return those of the consumer groups that the present caller may see."""
        caller, authorizer = present_caller(), self._authorizer
        if authorizer is None or caller.has_every_right:
            return set(names)
        return {name for name in names if authorizer.may(caller, "describe", Resource("group", name))}

    def may_read(self, topic_id: int) -> bool:
        """Return True if the present caller may read the topic."""
        caller = present_caller()
        return self._authorizer is None or caller.has_every_right or self._error(caller, topic_id) is None

    @property
    def sees_all(self) -> bool:
        """True if the present caller has every right."""
        return self._authorizer is None or present_caller().has_every_right

    def check_member(self, consumer_group: str, topics: Iterable[int]) -> None:
        """Raise PermissionDeniedError or AuthenticationError if the present caller may not read these topics as a
        member of the group."""
        caller = present_caller()
        if self._authorizer is None or caller.has_every_right:
            return
        self._authorizer.check(caller, "subscribe", Resource("group", consumer_group))
        for topic_id in topics:
            self.check(caller, "subscribe", topic_id)

    @property
    def may_see_cluster(self) -> bool:
        """True if the present caller may see the state of the cluster."""
        caller, authorizer = present_caller(), self._authorizer
        return authorizer is None or caller.has_every_right or authorizer.may(caller, "describe", CLUSTER)

    def check_batch(self, caller: Caller, batch: bytes) -> None:
        """Raise PermissionDeniedError or AuthenticationError if the caller may not send the batch. A batch of messages
        with delivery times, or of a transaction, needs the right on its target topic, and none on `%TIMED` or `%HALF`.
        A batch of a transaction needs the right `subscribe` on its producer group too, because the messages may get
        into the dead letters of the group."""
        topic_id, _ = place_of(batch)
        half, target = half_target_of(batch), target_of(batch)
        if half is not None:
            self._check_group(caller, half.group)
            target = half.target
        topic = None if target is None else self._replicas.topic(topic_id)
        if target is not None:
            self.check(caller, "publish", target[0])
        if topic is None or topic.name not in (TIMED_TOPIC, HALF_TOPIC):
            self.check(caller, "publish", topic_id)

    def _check_group(self, caller: Caller, group: str) -> None:
        if self._authorizer is not None:
            self._authorizer.check(caller, "subscribe", Resource("group", group))

    def check(self, caller: Caller, action: Action, topic_id: int) -> None:
        """Raise PermissionDeniedError if the caller lacks the right on the topic, and AuthenticationError if its proof
        has ended."""
        if self._authorizer is not None:
            topic = self._replicas.topic(topic_id)
            self._authorizer.check(caller, action, topic_resource(topic.name if topic is not None else ""), topic_id)

    def _error(self, caller: Caller, topic_id: int) -> LedgerError | None:
        try:
            self.check(caller, "subscribe", topic_id)
        except LedgerError as error:
            return detached(error)
        return None


class CheckedBatches:
    """Appends the batches of one caller. Implements `ledger.broker.rpc.produce_stream.Batches`."""

    def __init__(self, batches: Batches, rights: TopicRights, caller: Caller) -> None:
        self._batches = batches
        self._rights = rights
        self._caller = caller

    @property
    def configuration_index(self) -> int:
        return self._batches.configuration_index

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        """Append a batch. Raises PermissionDeniedError or AuthenticationError, and the errors of a broker."""
        self._rights.check_batch(self._caller, batch)
        return self._batches.produce(batch)
