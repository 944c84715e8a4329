"""Quotas where requests come in: who the client is, what it is refused, and what it is charged.

    user agent "billing grpc-python-asyncio/1.x ..."  ──> client "billing"
    user agent "grpc-python-asyncio/1.x ..."          ──> whoever is at that host

A client is whoever calls itself so (`client_id`), and those of one host that call themselves nothing are one client.
Nobody proves a name: a quota keeps the careless from harming others, not the malicious.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from grpc import aio

from ledger.batch import BatchHeader
from ledger.broker.meter import Meter
from ledger.broker.produce.proposals import Committed
from ledger.broker.quotas.quota import Quota, Rates
from ledger.broker.rpc.produce_stream import Batches
from ledger.errors import ThrottledError

_AGENT = "grpc-python"
_LONGEST_NAME = 127


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of one node."""

    produce: Quota = field(default_factory=lambda: Quota("sends", Rates()))
    fetch: Quota = field(default_factory=lambda: Quota("fetches", Rates()))


class MeteredBatches:
    """Batches of one client, as far as its quota goes (`ledger.broker.rpc.produce_stream.Batches`)."""

    def __init__(self, batches: Batches, quota: Quota, client: str, meter: Meter) -> None:
        self._batches = batches
        self._quota = quota
        self._client = client
        self._meter = meter

    @property
    def configuration_index(self) -> int:
        return self._batches.configuration_index

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        """What is refused for another reason is not charged."""
        now = asyncio.get_running_loop().time()
        try:
            self._quota.admit(self._client, now)
        except ThrottledError:
            self._meter.throttled("producer")
            raise
        future = self._batches.produce(batch)
        self._quota.charge(self._client, BatchHeader.parse(batch).count, len(batch), now)
        return future


def client_of(context: aio.ServicerContext[Any, Any]) -> str:
    """Whose call that is."""
    agents = [value for key, value in context.invocation_metadata() or () if key == "user-agent"]
    name = str(agents[0]).rpartition(_AGENT)[0].strip() if agents else ""
    if name:
        return f"named {name[:_LONGEST_NAME]}"
    return f"at {context.peer().rpartition(':')[0]}"
