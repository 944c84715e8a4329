"""Finds the name of the client that sent a request, and applies the quotas of this client.

    user agent "billing grpc-python-asyncio/1.x ..."  ──> client "billing"
    user agent "grpc-python-asyncio/1.x ..."          ──> the clients without a name at that host, as one client

On a node with authentication, each user has one quota, whatever its clients state. Without authentication, a client
states its name itself (`client_id`), and the broker does not verify the name: then a quota protects against careless
clients and not against malicious clients.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from grpc import aio

from ledger.batch import BatchHeader
from ledger.broker.access.callers import present_caller
from ledger.broker.meter import Meter
from ledger.broker.produce.proposals import Committed
from ledger.broker.quotas.quota import Quota, QuotaRates
from ledger.broker.rpc.produce_stream import Batches
from ledger.errors import ThrottledError
from ledger.slow_request import CallingClient

_AGENT = "grpc-python"
_LONGEST_NAME = 127


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of one node for sends and for fetches. The default is no limit."""

    produce: Quota = field(default_factory=lambda: Quota("sends", QuotaRates()))
    fetch: Quota = field(default_factory=lambda: Quota("fetches", QuotaRates()))


class MeteredBatches:
    """Appends the batches of one client within the client's quota. `MeteredBatches` implements
    `ledger.broker.rpc.produce_stream.Batches`."""

    def __init__(self, batches: Batches, quota: Quota, client: str, meter: Meter) -> None:
        self._batches = batches
        self._quota = quota
        self._client = client
        self._meter = meter

    @property
    def configuration_index(self) -> int:
        return self._batches.configuration_index

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        """Append a batch. Raises ThrottledError if the client has exceeded its quota. A refused batch does not
        count for the quota."""
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
    """Return the name under which quotas count the client: its user, if the node has authentication. Otherwise it is
    the name that the client states or, if the client states no name, its host."""
    caller = present_caller()
    if not caller.has_every_right:
        return f"user {caller.user}"
    if name := stated_name(context):
        return f"named {name}"
    return f"at {context.peer().rpartition(':')[0]}"


def stated_name(context: aio.ServicerContext[Any, Any]) -> str:
    """Return the name that the client of a call states, or "". Nothing verifies it."""
    agents = [value for key, value in context.invocation_metadata() or () if key == "user-agent"]
    name = str(agents[0]).rpartition(_AGENT)[0].strip() if agents else ""
    return name[:_LONGEST_NAME]


def calling_client(context: aio.ServicerContext[Any, Any]) -> CallingClient:
    """Return the client of the present call, as far as the node knows it."""
    caller = present_caller()
    return CallingClient(stated_name(context), context.peer(), "" if caller.has_every_right else caller.user)
