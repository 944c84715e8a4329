"""Carries out the faults of users and rights. Each fault brings a guest to a place where a mistake about rights shows.

    old_rules             a node that is cut off serves a guest, and the guest loses its rights
    stale_rules           the same, at once and for longer than a node may go on with rules that nobody confirms
    right_lost_waiting    a guest waits for messages at a node that is cut off, loses its rights, and the node returns:
                          the node hears of the lost rights and of new messages in one moment
    topic_unseen          a guest that sends does not see the topics any more, and then sees them again
    grant_cut_off         the leader of shard 0 is cut off, and an administrator asks it to grant a right: the leader
                          proposes an entry that is never committed, unless the cut ends soon

A fault has an administrator of its own, because the other one does one act after another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from chaos.sim.access.access_truth import AccessTruth
from chaos.sim.access.administrator import Rules, SimAdministrator
from chaos.sim.access.guests import Guest
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.network_faults import links_of
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.stack.node import StackNode
from ledger.client.admin.admin import AsyncAdmin

# The cut-off leader has this time to propose the grant. It steps down soon after the cut.
GRANT_MS = 1_000
# A guest goes on for this time after a node has returned, so that it meets what the node has learned.
AFTERWARDS_S = 5.0


class AccessFaults:
    """The faults of one run. `rules` are the rights that a guest has otherwise, `sees` those with which it only sees
    topics. `operator` is the user of `administrator`."""

    def __init__(
        self,
        loop: SimLoop,
        network: Network,
        administrator: SimAdministrator,
        operator: str,
        bootstrap: Sequence[str],
        guests: Sequence[Guest],
        rules: tuple[Rules, Rules],
        happened: Counter[str],
        truth: AccessTruth,
    ) -> None:
        # Guests whose rights are withheld by a fault, and must not come back meanwhile.
        self.withheld: set[str] = set()
        self.over = False
        self._loop = loop
        self._network = network
        self._administrator = administrator
        self._operator = operator
        self._bootstrap = bootstrap
        self._guests = guests
        self._rules, self._sees = rules
        self._happened = happened
        self._truth = truth

    def fire(self, event: FaultEvent, nodes: Sequence[StackNode]) -> bool:
        """Carry out the fault event if its kind concerns users and rights. Return True if the event had an effect."""
        guest = chance_of(event).choice(self._guests)
        node = next((each for each in nodes if each.node == guest.node and each.alive), None)
        leader, seconds = leader_of(nodes), event.for_ms / 1000
        if guest.name in self.withheld or not self._truth.newest.has_begun:
            return False
        if event.kind == "old_rules":
            return node is not None and self._old_rules(guest, node, nodes, seconds)
        if self._operator not in self._truth.newest.users:
            return False
        match event.kind:
            case "stale_rules":
                return node is not None and self._begin(guest, self._stale_rules(guest, node, nodes, seconds))
            case "right_lost_waiting":
                return node is not None and self._begin(guest, self._lost_waiting(guest, node, nodes, seconds))
            case "topic_unseen":
                return guest.producer.has_sent and self._begin(guest, self._unseen(guest, seconds))
            case "grant_cut_off":
                return leader is not None and self._begin(guest, self._grant_cut_off(guest, leader, nodes, seconds))
        return False

    def _begin(self, guest: Guest, fault: Coroutine[Any, Any, None]) -> bool:
        self.withheld.add(guest.name)
        life = self._administrator.process.life
        life.deliver(life.create_task, self._until_the_end(guest, fault))
        return True

    async def _until_the_end(self, guest: Guest, fault: Coroutine[Any, Any, None]) -> None:
        """Carry out the fault, and then give the guest its rights back."""
        await fault
        self.withheld.discard(guest.name)
        await self._administrator.add(guest.credentials.now, (*self._rules, *self._sees))

    # -- the faults

    def _old_rules(self, guest: Guest, node: StackNode, nodes: Sequence[StackNode], seconds: float) -> bool:
        """Cut the node off. The other administrator takes the guest its rights, when it comes to it."""
        mend = self._cut_off(node, nodes)

        def end() -> None:
            self.withheld.discard(guest.name)
            mend()

        self.withheld.add(guest.name)
        self._loop.call_later(seconds, end)
        return True

    async def _stale_rules(self, guest: Guest, node: StackNode, nodes: Sequence[StackNode], seconds: float) -> None:
        self._cut_off_for(node, nodes, seconds)
        await self._administrator.revoke(guest.name, self._rules)
        await asyncio.sleep(seconds)

    async def _lost_waiting(self, guest: Guest, node: StackNode, nodes: Sequence[StackNode], seconds: float) -> None:
        guest.waits = True
        self._cut_off_for(node, nodes, seconds)
        await asyncio.sleep(seconds / 3)
        await self._administrator.revoke(guest.name, self._rules)
        await asyncio.sleep(seconds + AFTERWARDS_S)
        guest.waits = False

    async def _unseen(self, guest: Guest, seconds: float) -> None:
        await self._administrator.revoke(guest.name, (*self._rules, *self._sees))
        await asyncio.sleep(seconds)

    async def _grant_cut_off(self, guest: Guest, leader: StackNode, nodes: Sequence[StackNode], seconds: float) -> None:
        home, guest.node = guest.node, leader.node
        await self._administrator.revoke(guest.name, self._rules)
        await asyncio.sleep(AFTERWARDS_S)
        if leader.alive and leader_of(nodes) is leader:
            self._cut_off_for(leader, nodes, seconds)
            grant = partial(AsyncAdmin.grant, user=guest.name, action="subscribe", resource="topic:*")
            confirmed = await self._administrator.tried(grant, self._bootstrap[leader.node - 1], GRANT_MS)
            self._happened["grant that was not confirmed"] += not confirmed
            await asyncio.sleep(seconds + AFTERWARDS_S)
        guest.node = home
        await self._administrator.revoke(guest.name, (("subscribe", "topic:*"),))

    # -- cuts

    def _cut_off_for(self, node: StackNode, nodes: Sequence[StackNode], seconds: float) -> None:
        self._loop.call_later(seconds, self._cut_off(node, nodes))

    def _cut_off(self, node: StackNode, nodes: Sequence[StackNode]) -> Callable[[], None]:
        """Cut the node off from the other nodes. Clients still reach it. Return the function that ends the cut. After
        the end of the faults, cut nothing: an administrator may have waited until then."""
        pairs = [] if self.over else links_of(node.node, nodes)
        self._network.cut_links(pairs)

        def mend() -> None:
            if not self.over:
                self._network.mend_links(pairs)

        return mend
