"""The connections of a mirror to one cluster."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import PROCESS, Environment, cluster_of
from ledger.client.connection.lifetime import within
from ledger.client.connection.security import SecurityOptions
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.errors import UnknownTopicError

# How long a fetch waits for new messages, in ms. A mirror may have a thousand fetches under way.
_MAX_WAIT_MS = 5_000


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """The addresses of a cluster, and the proof of who the client is."""

    servers: str | Sequence[str]
    security: SecurityOptions = field(default_factory=SecurityOptions)


class ClusterAccess:
    """The clients of one cluster. Call `start` first and `stop` at the end."""

    def __init__(
        self,
        place: ClusterPlace,
        *,
        request_timeout_ms: int,
        client_id: str = "mirror",
        environment: Environment = PROCESS,
        rng: random.Random | None = None,
    ) -> None:
        """`environment` and `rng` are those of the clients; the simulator gives its own."""
        self._place = place
        self._timeout_ms = request_timeout_ms
        self._client_id = client_id
        self._environment = environment
        self._rng = rng or random.Random()
        servers, opened = cluster_of(environment, place.servers, place.security)
        self.client = ClusterClient(
            servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=20,
            rng=self._rng,
            environment=opened,
        )
        self.admin = within(environment, AsyncAdmin)(
            place.servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            rng=self._rng,
            **place.security,
        )

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.client.routes.table.cluster

    @property
    def addresses(self) -> frozenset[str]:
        """The addresses of the nodes."""
        return frozenset(self.client.routes.table.nodes.values())

    def now_ms(self) -> int:
        """Return the present time, in ms since 1970."""
        return self.client.environment.now_ms()

    async def start(self) -> None:
        """Connect. Raises UnavailableError, AuthenticationError."""
        await self.client.start()
        try:
            await self.admin.start()
        except BaseException:
            await self.client.close()
            raise

    async def stop(self) -> None:
        await self.admin.stop()
        if self.client.started:
            await self.client.close()

    async def has_topic(self, name: str) -> bool:
        try:
            await self.client.topic(name, newest=True)
        except UnknownTopicError:
            return False
        return True

    def consumer(self, topic: str, queue: int, offset: int) -> AsyncConsumer[bytes]:
        """Return a consumer of one queue, which is not started."""
        made: AsyncConsumer[bytes] = within(self._environment, AsyncConsumer)(
            topic,
            bootstrap_servers=self._place.servers,
            queues=[queue],
            start=offset,
            max_wait_ms=_MAX_WAIT_MS,
            client_id=self._client_id,
            request_timeout_ms=self._timeout_ms,
            rng=self._rng,
            **self._place.security,
        )
        return made
