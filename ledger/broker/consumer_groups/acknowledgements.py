"""Offsets that consumers acknowledge, gathered: one entry of the log for each consumer group and interval.

    member 1   q0: 120   q1: 40  ┐
    member 2   q2: 7             ├──(100 ms)──> one entry ──> committed ──> each is told what became of its own
    member 1   q0: 180           ┘

An acknowledgement that comes alone goes at once; those that come within an interval of the last entry wait for the
end of it. Nobody is answered before the entry is committed, so what was answered is never lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ledger.broker.produce.proposals import end, new_future
from ledger.errors import BusyError, LedgerError
from ledger.state import QueueResults
from ledger.v1 import command_pb2

INTERVAL_S = 0.1
MAX_WAITING = 50_000
"""Offsets of one consumer group that may wait, and calls that brought them."""
MAX_GATHERING = 10_000
"""Consumer groups of which some may wait."""

Propose = Callable[[command_pb2.Command], asyncio.Future[Any]]
"""Raises LedgerError."""


class Acknowledgements:
    """Of one shard. Consumer groups of which nothing waits are forgotten."""

    def __init__(self, propose: Propose) -> None:
        self._propose = propose
        self._gathering: dict[str, _Gathering] = {}

    def add(
        self, consumer_group: str, offsets: Sequence[command_pb2.AcknowledgedOffset]
    ) -> asyncio.Future[QueueResults]:
        """The future has what became of each, in order, or ends in LedgerError. Raises BusyError."""
        gathering = self._gathering.get(consumer_group)
        if gathering is None and len(self._gathering) >= MAX_GATHERING:
            raise BusyError(f"{MAX_GATHERING} consumer groups acknowledge at this moment: try again soon.")
        if gathering is None:
            gathering = self._gathering[consumer_group] = _Gathering(
                consumer_group, self._propose, lambda: self._gathering.pop(consumer_group, None)
            )
        return gathering.add(offsets)


class _Gathering:
    """Of one consumer group, from an acknowledgement to the first interval without any."""

    def __init__(self, consumer_group: str, propose: Propose, on_idle: Callable[[], object]) -> None:
        self._consumer_group = consumer_group
        self._propose = propose
        self._on_idle = on_idle
        self._offsets: list[command_pb2.AcknowledgedOffset] = []
        self._owed: list[tuple[int, asyncio.Future[QueueResults]]] = []
        """How many of the offsets each future is about, in order."""
        asyncio.get_running_loop().call_soon(self._send)

    def add(self, offsets: Sequence[command_pb2.AcknowledgedOffset]) -> asyncio.Future[QueueResults]:
        if len(self._offsets) + len(offsets) > MAX_WAITING or len(self._owed) >= MAX_WAITING:
            raise BusyError(f"{len(self._offsets)} offsets of {self._consumer_group!r} wait already: try again soon.")
        future: asyncio.Future[QueueResults] = new_future()
        self._offsets.extend(offsets)
        self._owed.append((len(offsets), future))
        return future

    def _send(self) -> None:
        """What has come; and again after an interval."""
        offsets, self._offsets = self._offsets, []
        owed, self._owed = self._owed, []
        if not owed:
            self._on_idle()
            return
        asyncio.get_running_loop().call_later(INTERVAL_S, self._send)
        wanted = command_pb2.AcknowledgeOffsets(consumer_group=self._consumer_group, offsets=offsets)
        try:
            future = self._propose(command_pb2.Command(acknowledge_offsets=wanted))
        except LedgerError as refusal:
            for _, each in owed:
                end(each, refusal)
        else:
            future.add_done_callback(lambda done: _share_out(done, owed))


def _share_out(done: asyncio.Future[QueueResults], owed: list[tuple[int, asyncio.Future[QueueResults]]]) -> None:
    failure, at = done.exception(), 0
    for count, each in owed:
        end(each, failure if failure is not None else done.result()[at : at + count])
        at += count
