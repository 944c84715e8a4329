"""Copies topics of a cluster to another one until it is stopped: connects the parts of a mirror."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ledger.broker.quotas.token_bucket import TokenBucket
from ledger.client.admin.offsets import list_offsets
from ledger.client.background import all_done, spawn
from ledger.client.connection.backoff import Backoff
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.connection.routes import topic_of
from ledger.client.records import TopicQueue
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST
from ledger.errors import InvalidTopicNameError, LedgerError, UnknownQueueError, UnknownTopicError
from ledger.mirror.cluster_access import ClusterAccess
from ledger.mirror.copied_end import TargetQueue
from ledger.mirror.copies import COPIES_GROUP, topics_that_are_copies
from ledger.mirror.copy_tally import CopyTally
from ledger.mirror.group_offsets import GroupOffsets
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledger.mirror.mirror_progress import MIRROR_GROUP, RUNS_GROUP, MirrorProgress
from ledger.mirror.numbering import CopyNumbering
from ledger.mirror.queue_copier import CopierParts, QueueCopier
from ledger.mirror.send_window import CopyStreams
from ledger.mirror.target_topics import TargetTopics
from ledger.mirror.topic_patterns import TopicPatterns
from ledger.topics import TOPICS_SHARD
from ledger.v1 import broker_pb2

# How often the mirror looks for new topics and queues, stores its progress, moves offsets, and looks at the lag, in
# seconds.
TOPICS_S = 5.0
PROGRESS_S = 5.0
GROUPS_S = 5.0
LAG_S = 2.0
# Batches in flight have at most so many bytes, in each queue and together; one batch of each queue may always be.
_WINDOW_BYTES = 4 << 20
_FLIGHT_BYTES = 64 << 20
_WATCH_S = 0.5
_LOOK_S = 0.1
# A topic was deleted, on either side.
_GONE = (UnknownTopicError, UnknownQueueError)
_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """What a mirror copies, and how.

    topics       the topics, and their names at the target
    groups       patterns of consumer groups whose offsets are moved
    name         the name of the mirror; "": the name of the target cluster
    start        where a mirror that has never run begins: "earliest" or "latest". New topics and queues are always
                 copied from their first message
    skips_lost   go on behind messages that the source no longer has
    creates      create missing topics and queues at the target
    bytes_per_s  send at most so many bytes a second on average; None: no limit
    """

    topics: TopicPatterns
    groups: tuple[str, ...] = ()
    name: str = ""
    start: Literal["earliest", "latest"] = "earliest"
    skips_lost: bool = False
    creates: bool = True
    bytes_per_s: float | None = None


class ClusterMirror:
    """Copies topics from `source` to `target`. Call `open`, then `run`, and `close` at the end."""

    def __init__(
        self, source: ClusterAccess, target: ClusterAccess, settings: MirrorSettings, rng: random.Random | None = None
    ) -> None:
        self.tally = CopyTally()
        self._source, self._target, self._settings = source, target, settings
        self._backoff = Backoff(100, 2_000, rng or random.Random())
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # By topic id and queue at the source.
        self._copiers: dict[tuple[int, int], tuple[QueueCopier, asyncio.Task[None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._started: list[ClusterAccess] = []
        self._is_first_start = False
        self._bucket: TokenBucket | None = None

    async def open(self) -> None:
        """Connect to both clusters, and begin to copy. Raises MirrorRefusedError or LedgerError."""
        for access in (self._source, self._target):
            await access.start()
            self._started.append(access)
        source, target, settings = self._source, self._target, self._settings
        if source.addresses & target.addresses and not settings.topics.prefix:
            raise MirrorRefusedError(
                "The source and the target are the same cluster: give topics other names there (--prefix)."
            )
        name = settings.name or re.sub(r"[^A-Za-z0-9_.-]", "-", target.name)[:40] or "target"
        self._name = name
        self._progress = MirrorProgress(source.client, MIRROR_GROUP, name)
        self._runs = MirrorProgress(source.client, RUNS_GROUP, name)
        self._copies = MirrorProgress(target.client, COPIES_GROUP, name)
        self._topics = TargetTopics(target, creates=settings.creates)
        self._streams: CopyStreams = CopyStreams(target.client.connections, target.client.routes.heard_of)
        if settings.bytes_per_s is not None:
            self._bucket = TokenBucket(settings.bytes_per_s, asyncio.get_running_loop().time())
        self._parts = CopierParts(
            source,
            self._streams,
            self.tally,
            settings.skips_lost,
            self._pace,
            self._window_bytes,
            self._progress,
            self._runs,
            self._copies,
            self._backoff,
        )
        self._groups = GroupOffsets(source.client, target.client, settings.groups, self._copier_of, self.tally)
        self._is_first_start = await self._progress.is_new()
        await self._look()
        self._is_first_start = False
        self._note_missing_topics()

    async def run(self, *, once: bool = False) -> None:
        """Copy until the task is cancelled; with `once`, until the target has all messages that the source has now.
        Raises MirrorRefusedError, or the LedgerError because of which the mirror cannot go on."""
        goals = await self._ends() if once else {}
        self._tasks = [
            spawn(self._watch_streams(), "streams of a mirror", self._fail),
            spawn(self._every(TOPICS_S, self._look), "topics of a mirror", self._fail),
            spawn(self._every(PROGRESS_S, self._progress.store), "progress of a mirror", self._fail),
            spawn(self._every(PROGRESS_S, self._copies.store), "marks of a mirror", self._fail),
            spawn(self._every(LAG_S, self._look_at_lags), "lags of a mirror", self._fail),
        ]
        if self._settings.groups:
            self._tasks.append(spawn(self._every(GROUPS_S, self._groups.move), "groups of a mirror", self._fail))
        while not once or not self._has_reached(goals):
            await asyncio.wait([self._failure], timeout=_LOOK_S)
            if self._failure.done():
                await self._failure
        if self._settings.groups:
            await self._groups.move()
        await self._look_at_lags()

    async def close(self) -> None:
        """End the copying, store the progress, and close the connections."""
        ended = [*self._tasks, *(task for _, task in self._copiers.values())]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        if len(self._started) == 2 and hasattr(self, "_streams"):
            await self._streams.close()
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await all_done(self._progress.store(), self._copies.store())
            except (LedgerError, TimeoutError) as error:  # it only serves as a hint
                self.tally.note_trouble(f"the progress of the mirror was not stored: {error}")
        for access in self._started:
            await access.stop()
        if self._failure.done():
            self._failure.exception()
        else:
            self._failure.cancel()

    # -- topics

    async def _look(self) -> None:
        """Begin to copy topics and queues that are new. Raises LedgerError."""
        patterns = self._settings.topics
        request = broker_pb2.GetRouteRequest(linearizable=True)
        client = self._source.client
        response = await client.call(TOPICS_SHARD, lambda stub, seconds: stub.GetRoute(request, timeout=seconds))
        client.routes.learn(response)
        topics = {each.name: topic_of(each) for each in response.topics}
        copies = await topics_that_are_copies(client)
        if self._is_first_start and (missing := [each for each in patterns.names if each not in topics]):
            raise UnknownTopicError(f"The source has no topic {missing[0]!r}: create it, or check the name.")
        for name, topic in sorted(topics.items()):
            if patterns.takes(name, copies):
                await self._prepare(topic)

    def _note_missing_topics(self) -> None:
        """Note the topics that are given by name and that the source does not have: they were deleted since an earlier
        run of this mirror, or this run names other topics than the first one."""
        known = self._source.client.routes.table.topics
        for name in self._settings.topics.names:
            if name not in known:
                self.tally.note_trouble(f"the source has no topic {name!r}, so nothing of it is copied")

    async def _prepare(self, topic: RoutedTopic) -> None:
        new = [queue for queue in range(len(topic.shards)) if (topic.topic_id, queue) not in self._copiers]
        if not new:
            return
        try:
            name = self._settings.topics.target(topic.name)
        except InvalidTopicNameError as error:
            raise MirrorRefusedError(f"Topic {topic.name!r} cannot be copied: {error}") from error
        there = await self._topics.prepare(topic, name)
        goes_back = self._settings.start == "earliest"
        first = BEHIND_THE_LAST if self._is_first_start and not goes_back else AT_THE_FIRST
        await self._copies.claim(there, dict.fromkeys(new, AT_THE_FIRST))
        starts = await self._progress.claim(topic, dict.fromkeys(new, first))
        runs = await self._runs.claim(topic, starts)
        for queue in new:
            numbering = CopyNumbering.of(self._name, self._source.name, topic.topic_id, topic.created_ms, queue)
            target = TargetQueue(self._target.client, there, queue, numbering)
            copier = QueueCopier(topic, target, starts[queue], runs[queue], self._parts, goes_back=goes_back)
            task = asyncio.create_task(copier.run(), name=f"copies of queue {queue} of {topic.name}")
            self._copiers[topic.topic_id, queue] = (copier, task)
            task.add_done_callback(partial(self._ended, (topic.topic_id, queue)))

    def _ended(self, key: tuple[int, int], task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, _GONE):  # the next look finds the topic anew, if it is there
            copier, _ = self._copiers.pop(key)
            self._progress.forget(*key)
            self._runs.forget(*key)
            self._copies.forget(copier.target.topic.topic_id, copier.target.queue)
            self.tally.lags.pop((copier.source.name, copier.target.queue), None)
            self.tally.note_trouble(str(error))
            return
        self._fail(error)

    def _copier_of(self, place: TopicQueue) -> QueueCopier | None:
        topic = self._source.client.routes.table.topics.get(place.topic)
        found = None if topic is None else self._copiers.get((topic.topic_id, place.queue))
        return None if found is None else found[0]

    # -- looking

    async def _ends(self) -> dict[tuple[int, int], int]:
        """Return the end offset at the source of each queue that is copied."""
        topics = {copier.source.topic_id: copier.source for copier, _ in self._copiers.values()}
        ends: dict[tuple[int, int], int] = {}
        for topic_id, topic in topics.items():
            queues = [queue for of, queue in self._copiers if of == topic_id]
            offsets = await list_offsets(self._source.client, topic, queues)
            ends |= {(topic_id, queue): offsets[queue].end_offset for queue in queues}
        return ends

    async def _look_at_lags(self) -> None:
        lags = {}
        for key, end in (await self._ends()).items():
            if key in self._copiers:
                copier = self._copiers[key][0]
                lags[copier.source.name, copier.target.queue] = max(0, end - (copier.copied or 0))
        self.tally.lags = lags

    def _has_reached(self, goals: dict[tuple[int, int], int]) -> bool:
        return all(
            key not in self._copiers or (self._copiers[key][0].copied or 0) >= goal for key, goal in goals.items()
        )

    # -- running

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` again and again. What is wrong for a while is noted, and anything else ends the mirror."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except LedgerError as error:
                if not error.retriable and not isinstance(error, _GONE):
                    self._fail(error)
                    return
                self.tally.note_trouble(str(error))
            except Exception as error:
                self._fail(error)
                return

    async def _watch_streams(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            self._streams.end_stalled(self._target.client.routes, self._target.client.request_timeout_ms)

    def _window_bytes(self) -> int:
        return min(_WINDOW_BYTES, _FLIGHT_BYTES // max(1, len(self._copiers)))

    async def _pace(self, size: int) -> None:
        if self._bucket is None:
            return
        loop = asyncio.get_running_loop()
        # All copiers wait for what this one takes.
        wait_s = self._bucket.wait_s(loop.time())
        self._bucket.take(size, loop.time())
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)
