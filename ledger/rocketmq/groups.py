"""The consumer groups of RocketMQ clients: shared groups, which are created when a consumer first names them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from ledger.broker.shared.group_lookup import GroupLookup
from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.group.assigned_queues import prepare_retries
from ledger.errors import GroupConflictError
from ledger.rocketmq.topic_types import is_fifo
from ledger.state.group_modes import GroupMode

# How often a message is handed out before it goes to the dead letters: once, and 16 times again.
ATTEMPTS = 17
# How many groups are remembered. The cost of a forgotten one is one request.
_MOST_PREPARED = 10_000


class FrontGroups:
    """Finds the groups of consumers, and creates those that are missing."""

    def __init__(self, lookup: GroupLookup) -> None:
        self._lookup = lookup
        # By caller's client and group: the creation of the group under way. Each caller creates with its own rights.
        self._creating: dict[tuple[ClusterClient, str], asyncio.Task[GroupMode]] = {}
        # Groups whose topics for retries and dead letters are there.
        self._prepared: set[str] = set()

    def known(self, group: str) -> GroupMode | None:
        """Return the mode of a group that exists, as this node knows it."""
        return self._lookup.mode(group)

    async def require(self, group: str, cluster: ClusterClient, topics: Iterable[RoutedTopic]) -> GroupMode:
        """Return the mode of a group. Create the group if it is missing; a group that begins with topics of the type
        FIFO only has order by key. Raises GroupConflictError if the group's members own queues, and LedgerError."""
        if (mode := self._lookup.mode(group)) is not None and group in self._prepared:
            return mode
        key = (cluster, group)
        creating = self._creating.get(key)
        if creating is None:
            kinds = [is_fifo(topic) for topic in topics]
            by_key = bool(kinds) and all(kinds)
            creating = asyncio.create_task(self._prepare(group, cluster, by_key=by_key), name=f"new group {group}")
            self._creating[key] = creating
            creating.add_done_callback(lambda _: self._creating.pop(key, None))
        return await asyncio.shield(creating)

    async def _prepare(self, group: str, cluster: ClusterClient, *, by_key: bool) -> GroupMode:
        """Create what is missing: an operator may have created the group, but not its retry topic."""
        await prepare_retries(cluster, group)
        mode = self._lookup.mode(group) or await self._create(group, cluster, by_key=by_key)
        if len(self._prepared) >= _MOST_PREPARED:
            self._prepared.clear()
        self._prepared.add(group)
        return mode

    async def _create(self, group: str, cluster: ClusterClient, *, by_key: bool) -> GroupMode:
        with contextlib.suppress(GroupConflictError):  # another node has created it, or its members own queues
            await ConsumerGroupsAdmin(cluster).create(group, "shared", "key" if by_key else None, ATTEMPTS)
        return await self._lookup.require(group)
