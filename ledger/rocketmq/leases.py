"""The leases of messages that consumers of this node have, and their changes.

acknowledge       the message is consumed
change            the lease ends at another time, and then the message is handed out again
renewed           a push consumer's lease is extended by the node, as long as the client lives
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from ledger.broker.access.callers import Caller
from ledger.broker.access.places import Places
from ledger.client.shared.lease_ends import extended_end_s
from ledger.client.shared.shared_message import EXTEND, GIVE_BACK, PUT_OFF, MessageLease
from ledger.errors import BusyError, LedgerError
from ledger.rocketmq.members import LeaseChanger, LeaseOutcome, WantedLeaseChange
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.sessions import FrontSession, FrontSessions

log = logging.getLogger("ledgermq.rocketmq")

# The lease of a message that the node extends, when it is extended, and for how long at most.
RENEWED_MS = 60_000
RENEW_BEFORE_S = 30.0
RENEW_AT_MOST_S = 3 * 3_600.0
LOOK_S = 5.0
# Leases that this node extends, and those of one caller.
MAX_RENEWED, MAX_RENEWED_OF_A_CALLER = 100_000, 50_000
# Streams for changes of this node, and those of one user.
MAX_CHANGERS, MAX_CHANGERS_OF_A_USER = 20_000, 10_000
# After a consumer has ended, its messages are handed out again after this time.
RELEASE_MS = 1_000
# Streams for changes that were not used for this time are closed.
IDLE_S = 60.0

ClientsOf = Callable[[Caller], Awaitable[NativeClients]]
_Place = tuple[NativeClients, str, int, int]


@dataclass(eq=False, slots=True)
class _Renewed:
    session: FrontSession
    since_s: float
    ends_s: float
    # An extension has no answer yet.
    is_extending: bool = False


class FrontLeases:
    """Changes leases for all consumers of this node."""

    def __init__(self, sessions: FrontSessions, clients_of: ClientsOf, monotonic_s: Callable[[], float]) -> None:
        """`clients_of(caller)` returns the native clients that act for a caller. It raises LedgerError."""
        self._sessions = sessions
        self._clients_of = clients_of
        self._monotonic_s = monotonic_s
        # By clients, group, topic id and shard.
        self._changers: dict[_Place, LeaseChanger] = {}
        # By user.
        self._changer_places = Places(MAX_CHANGERS, MAX_CHANGERS_OF_A_USER)
        # By group and lease.
        self._renewed: dict[tuple[str, MessageLease], _Renewed] = {}
        # By holder.
        self._renewed_of = Counter[str]()
        self._tasks: set[asyncio.Task[object]] = set()
        sessions.on_end.append(self.release)

    @property
    def renewed(self) -> int:
        """The number of leases that this node extends."""
        return len(self._renewed)

    def is_full(self, holder: str) -> bool:
        """Return True if receives of this holder whose leases are extended must be refused. Those under way may pass
        the limit."""
        return len(self._renewed) >= MAX_RENEWED or self._renewed_of[holder] >= MAX_RENEWED_OF_A_CALLER

    async def change(
        self,
        clients: NativeClients,
        group: str,
        kind: int,
        lease: MessageLease,
        duration_ms: int = 0,
        *,
        in_time: bool = False,
    ) -> LeaseOutcome:
        """Change one lease; with `in_time`, only if it has not ended. Raises LedgerError."""
        if kind != EXTEND:
            self.drop(clients, group, lease)
        changer = self._changer(clients, group, lease)
        if changer.is_full:
            raise BusyError("This node has too many acknowledgements of this group under way: try again shortly.")
        changer.used_s = self._monotonic_s()
        return await changer.change(WantedLeaseChange(kind, lease, duration_ms, in_time))

    def renew(self, session: FrontSession, group: str, lease: MessageLease, ends_s: float) -> None:
        """Extend a lease from now on, as long as the client lives. `ends_s` is when it ends, by the node's steady
        clock."""
        self._renew_no_more(group, lease)
        self._renewed[group, lease] = _Renewed(session, self._monotonic_s(), ends_s)
        self._renewed_of[session.holder] += 1

    def drop(self, clients: NativeClients, group: str, lease: MessageLease) -> None:
        """Extend a lease no more, if it is extended for this caller: anybody can make the handle of a message."""
        renewed = self._renewed.get((group, lease))
        if renewed is not None and renewed.session.caller.user == clients.caller.user:
            self._renew_no_more(group, lease)

    def _renew_no_more(self, group: str, lease: MessageLease) -> None:
        renewed = self._renewed.pop((group, lease), None)
        if renewed is not None:
            holder = renewed.session.holder
            self._renewed_of[holder] -= 1
            if not self._renewed_of[holder]:
                del self._renewed_of[holder]

    def release(self, session: FrontSession) -> None:
        """Let the messages of a consumer that has ended be handed out again soon."""
        for (group, lease), renewed in list(self._renewed.items()):
            if renewed.session is session:
                self._renew_no_more(group, lease)
                self._later(self._change_for(session, group, PUT_OFF, lease, RELEASE_MS))

    def give_back(self, clients: NativeClients, group: str, lease: MessageLease) -> None:
        """Give back a message that was leased for a consumer that is gone: the attempt does not count."""
        self._later(self.change(clients, group, GIVE_BACK, lease))

    async def run(self) -> None:
        """Extend leases, and close what is not used, until the task is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._renew_due()
            await self._close_idle()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        changers, self._changers = list(self._changers.values()), {}
        await asyncio.gather(*self._tasks, *(each.close() for each in changers), return_exceptions=True)

    def _renew_due(self) -> None:
        now_s = self._monotonic_s()
        for (group, lease), renewed in list(self._renewed.items()):
            is_over = now_s - renewed.since_s > RENEW_AT_MOST_S or not self._sessions.is_alive(renewed.session)
            if is_over or renewed.ends_s < now_s:
                self._renew_no_more(group, lease)
            elif self._sessions.is_silent(renewed.session):
                continue  # the lease ends, unless the client is heard again before
            elif renewed.ends_s - now_s < RENEW_BEFORE_S and not renewed.is_extending:
                renewed.is_extending = True
                self._later(self._extend(group, lease, renewed))

    async def _extend(self, group: str, lease: MessageLease, renewed: _Renewed) -> None:
        asked_s = self._monotonic_s()
        try:
            outcome = await self._change_for(renewed.session, group, EXTEND, lease, RENEWED_MS)
        finally:
            renewed.is_extending = False
        renewed.ends_s = extended_end_s(RENEWED_MS, asked_s)
        if not outcome.changed and self._renewed.get((group, lease)) is renewed:
            self._renew_no_more(group, lease)

    async def _change_for(
        self, session: FrontSession, group: str, kind: int, lease: MessageLease, duration_ms: int
    ) -> LeaseOutcome:
        """Change a lease by the present rights of the client: its secret may be another one than when it got the
        message. Raises LedgerError."""
        return await self.change(await self._clients_of(session.caller), group, kind, lease, duration_ms)

    def _changer(self, clients: NativeClients, group: str, lease: MessageLease) -> LeaseChanger:
        key = (clients, group, lease.topic_id, lease.shard)
        changer = self._changers.get(key)
        if changer is None:
            if self._changer_places.take(clients.caller.user):
                raise BusyError("This node changes leases of too many groups and topics now: try again shortly.")
            changer = LeaseChanger(clients.cluster, "rocketmq-front", group, lease.topic_id, lease.shard)
            self._changers[key] = changer
        return changer

    async def _close_idle(self) -> None:
        now_s = self._monotonic_s()
        for key, changer in list(self._changers.items()):
            if changer.is_idle and now_s - changer.used_s > IDLE_S:
                del self._changers[key]
                self._changer_places.give_back(key[0].caller.user)
                await changer.close()

    def _later(self, work: Coroutine[None, None, object]) -> None:
        task = asyncio.get_running_loop().create_task(self._logged(work), name="change of a lease")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _logged(work: Coroutine[None, None, object]) -> None:
        try:
            await work
        except LedgerError as error:
            log.debug("a lease was not changed, and ends in its time: %s", error)
