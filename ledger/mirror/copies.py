"""Which topics of a cluster are copies. A mirror leaves a mark at the target: the progress of a broadcast in each topic
that it writes (mirror_progress.py). The mark does not go with old messages, and operators see it in the list of
consumer groups. So a mirror in the other direction does not copy a copy."""

from __future__ import annotations

from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.client.connection.cluster_client import ClusterClient
from ledger.errors import UnknownGroupError

# The consumer group of the marks.
COPIES_GROUP = "ledgermq-copies"


async def topics_that_are_copies(client: ClusterClient) -> set[str]:
    """Return the topics of a cluster that mirrors have marked as copies. Raises LedgerError."""
    groups = ConsumerGroupsAdmin(client)
    found: set[str] = set()
    for each in await groups.list_all():
        if each.name.startswith(f"{COPIES_GROUP}@"):
            try:
                found |= {queue.topic for queue in (await groups.describe(each.name)).queues}
            except UnknownGroupError:  # deleted meanwhile
                continue
    return found
