"""Collects the offsets that consumers acknowledge, and proposes at most one log entry for each consumer group in 0.1
s.

    member 1   q0: 120   q1: 40  ┐
    member 2   q2: 7             ├──(100 ms)──> one entry ──> committed ──> each request receives its own results
    member 1   q0: 180           ┘

The first acknowledgement of a consumer group is proposed at once. An acknowledgement that arrives less than 0.1 s
after the last entry of its consumer group waits until 0.1 s have passed. A response is sent only after the commit, so
acknowledged offsets are never lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ledger.broker.produce.proposals import end, new_future
from ledger.consumer_groups import MAX_QUEUES_OF_ENTRY
from ledger.errors import BusyError, LedgerError
from ledger.state import QueueResults
from ledger.state.commands import AcknowledgedOffset, AcknowledgeOffsets

INTERVAL_S = 0.1
# Of one consumer group: offsets that may wait, and also requests that may wait.
MAX_WAITING = 50_000
# Consumer groups whose acknowledgements may wait.
MAX_GATHERING = 10_000

# Proposes a command. Raises LedgerError.
Propose = Callable[[AcknowledgeOffsets], asyncio.Future[Any]]
_Owed = list[tuple[int, asyncio.Future[QueueResults]]]


class Acknowledgements:
    """Stores the acknowledgements of one shard that are not proposed yet."""

    def __init__(self, propose: Propose) -> None:
        self._propose = propose
        self._gathering: dict[str, _Gathering] = {}

    def add(self, consumer_group: str, offsets: Sequence[AcknowledgedOffset]) -> asyncio.Future[QueueResults]:
        """Add the acknowledged offsets of one request. The returned future has one result for each offset, in
        order, or ends in LedgerError. Raises BusyError if too many acknowledgements wait for the log."""
        gathering = self._gathering.get(consumer_group)
        if gathering is None and len(self._gathering) >= MAX_GATHERING:
            raise BusyError(f"{MAX_GATHERING} consumer groups acknowledge offsets at this moment: try again soon.")
        if gathering is None:
            gathering = self._gathering[consumer_group] = _Gathering(
                consumer_group, self._propose, lambda: self._gathering.pop(consumer_group, None)
            )
        return gathering.add(offsets)


class _Gathering:
    """Stores the acknowledgements of one consumer group that wait for the group's next entry. The object is removed
    after 0.1 s without an acknowledgement."""

    def __init__(self, consumer_group: str, propose: Propose, on_idle: Callable[[], object]) -> None:
        self._consumer_group = consumer_group
        self._propose = propose
        self._on_idle = on_idle
        self._offsets: list[AcknowledgedOffset] = []
        # For each request, in order: the number of its offsets, and the future of its results.
        self._owed: _Owed = []
        asyncio.get_running_loop().call_soon(self._send)

    def add(self, offsets: Sequence[AcknowledgedOffset]) -> asyncio.Future[QueueResults]:
        if len(self._offsets) + len(offsets) > MAX_WAITING or len(self._owed) >= MAX_WAITING:
            raise BusyError(
                f"{len(self._offsets)} offsets of {self._consumer_group!r} wait for the log already: try again soon."
            )
        future: asyncio.Future[QueueResults] = new_future()
        self._offsets.extend(offsets)
        self._owed.append((len(offsets), future))
        return future

    def _send(self) -> None:
        """Propose collected acknowledgements in one entry, and schedule the next call of this method: in 0.1 s, or if
        there are more than fit into the entry, when it is applied."""
        if not self._owed:
            self._on_idle()
            return
        offsets, owed = self._taken()
        is_all = not self._owed
        if is_all:
            asyncio.get_running_loop().call_later(INTERVAL_S, self._send)
        try:
            future = self._propose(AcknowledgeOffsets(self._consumer_group, tuple(offsets)))
        except LedgerError as refusal:
            for _, each in owed:
                end(each, refusal)
            if not is_all:
                asyncio.get_running_loop().call_soon(self._send)
        else:
            future.add_done_callback(lambda done: _share_out(done, owed))
            if not is_all:
                future.add_done_callback(lambda _: self._send())

    def _taken(self) -> tuple[list[AcknowledgedOffset], _Owed]:
        """Take the oldest requests whose offsets fit into one entry, and at least one."""
        requests = size = 0
        for count, _ in self._owed:
            if requests and size + count > MAX_QUEUES_OF_ENTRY:
                break
            requests, size = requests + 1, size + count
        offsets, self._offsets = self._offsets[:size], self._offsets[size:]
        owed, self._owed = self._owed[:requests], self._owed[requests:]
        return offsets, owed


def _share_out(done: asyncio.Future[QueueResults], owed: _Owed) -> None:
    failure, at = done.exception(), 0
    for count, each in owed:
        end(each, failure if failure is not None else done.result()[at : at + count])
        at += count
