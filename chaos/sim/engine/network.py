"""Simulates a network that connects numbered endpoints. The endpoints 1 to 9 are nodes, and the endpoints from 100 on
are clients.

A message of the network is a callable, which delivers the message when it is called. The network decides when and how
often it calls the callable of each message. The network can lose, duplicate, reorder or delay a datagram, or deliver a
datagram a second time much later. A connection delivers its messages in order until the connection breaks. When a
connection breaks, both ends are notified, as with gRPC's streams. After a connection has broken, an endpoint must open
a new connection to continue.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from random import Random

from chaos.sim.engine.links import Conditions, Link
from chaos.sim.engine.loop import SimLoop

Deliver = Callable[[], None]


class Network:
    """Holds all links and connections between endpoints. `counts` has the number of messages for each kind of
    event: sent, loss, duplicate, reorder, replay, cut, clog, down."""

    def __init__(self, loop: SimLoop, random: Random, conditions: Conditions) -> None:
        self.conditions = conditions
        self.counts: Counter[str] = Counter()
        self._loop = loop
        self._random = random
        self._links: dict[tuple[int, int], Link] = {}
        self._down: set[int] = set()
        self._connections: list[SimConnection] = []

    def link(self, sender: int, receiver: int) -> Link:
        """Return the link from one endpoint to another."""
        pair = (sender, receiver)
        link = self._links.get(pair)
        if link is None:
            link = self._links[pair] = Link()
        return link

    # -- datagrams

    def send(self, sender: int, receiver: int, deliver: Deliver) -> None:
        """Send a datagram. The network delivers the datagram once, twice or not at all."""
        link, conditions, now = self.link(sender, receiver), self.conditions, self._loop.time()
        self.counts["sent"] += 1
        if link.cuts or sender in self._down:
            self.counts["cut"] += 1
            return
        if link.clogged_until > now:
            self.counts["clog"] += 1
        chance = self._random.random()
        if (chance := chance - conditions.loss) < 0:
            self.counts["loss"] += 1
            return
        at = link.waiter(now, conditions, self._random)
        if (chance := chance - conditions.duplicate) < 0:
            self.counts["duplicate"] += 1
            self._arrive(link, receiver, deliver, at + self._random.random() * conditions.reorder_ms / 1000)
        elif (chance := chance - conditions.replay) < 0:
            self.counts["replay"] += 1
            self._arrive(link, receiver, deliver, at + self._random.random() * conditions.replay_ms / 1000)
        elif chance - conditions.reorder < 0:
            self.counts["reorder"] += 1
            at += self._random.random() * conditions.reorder_ms / 1000
        self._arrive(link, receiver, deliver, at)

    def _arrive(self, link: Link, receiver: int, deliver: Deliver, at: float) -> None:
        self._loop.call_at(at, self._hand_over, link, receiver, deliver)

    def _hand_over(self, link: Link, receiver: int, deliver: Deliver) -> None:
        if link.cuts:
            self.counts["cut"] += 1
        elif receiver in self._down:
            self.counts["down"] += 1
        else:
            deliver()

    # -- connections

    def connection(self, a: int, b: int, on_broken: Callable[[int], None]) -> SimConnection:
        """Open and return a connection from endpoint `a` to endpoint `b`.

        When the connection breaks, the callback `on_broken` is called once for each end that is up. A connection to an
        endpoint that is down breaks after one round trip.
        """
        opened = SimConnection(self, self._loop, self._random, (a, b), on_broken)
        self._connections.append(opened)
        if self.is_down(a) or self.is_down(b):
            opened._break_after(2 * self.conditions.delay_ms)
        elif self.is_cut(a, b):
            opened._break_after(self.conditions.detect_ms)
        return opened

    def is_cut(self, a: int, b: int) -> bool:
        """Return True if at least one of the two links between the endpoints is cut."""
        return self.link(a, b).cut or self.link(b, a).cut

    def is_down(self, endpoint: int) -> bool:
        return endpoint in self._down

    def _forget(self, connection: SimConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)

    # -- faults and healing

    def cut(self, sender: int, receiver: int) -> None:
        """Cut the one-way link from the endpoint `sender` to the endpoint `receiver`. If two faults have cut the
        same link, `mend` must be called twice before the link carries messages again."""
        self.link(sender, receiver).cuts += 1
        for connection in [*self._connections]:
            if connection.joins(sender, receiver):
                connection._break_after(self.conditions.detect_ms)

    def mend(self, sender: int, receiver: int) -> None:
        """Undo one call of `cut` for this one-way link, unless `heal` has already undone the call."""
        link = self.link(sender, receiver)
        link.cuts = max(0, link.cuts - 1)
        if not link.cuts:
            for connection in [*self._connections]:
                if connection.joins(sender, receiver):
                    connection._resume()

    def cut_links(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Cut each of these one-way links, from the first to the second endpoint."""
        for pair in pairs:
            self.cut(*pair)

    def mend_links(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Undo one call of `cut` for each of these links."""
        for pair in pairs:
            self.mend(*pair)

    def heal(self) -> None:
        """End every cut, every clog and every additional delay of a link."""
        for link in self._links.values():
            link.clogged_until = link.slow_s = 0.0
        for pair, link in sorted(self._links.items()):
            if link.cut:
                link.cuts = 1
                self.mend(*pair)

    def calm(self) -> None:
        """From now on, the network does not lose, duplicate, reorder or replay messages."""
        self.conditions = Conditions(delay_ms=self.conditions.delay_ms, spread_ms=self.conditions.spread_ms)

    def partition(self, groups: Sequence[Iterable[int]]) -> list[tuple[int, int]]:
        """Divide the endpoints into groups that cannot reach each other. Endpoints of different groups cannot reach
        each other. Endpoints that are in no group are not affected. Return the one-way links that were cut, as
        pairs of sender and receiver."""
        sides = [sorted(group) for group in groups]
        pairs = [(a, b) for side in sides for other in sides if side is not other for a in side for b in other]
        for pair in pairs:
            self.cut(*pair)
        return pairs

    def isolate(self, endpoint: int, others: Iterable[int]) -> list[tuple[int, int]]:
        """Cut an endpoint off from all other endpoints in both directions. Return the one-way links that were cut,
        as pairs of sender and receiver."""
        return self.partition([[endpoint], [other for other in others if other != endpoint]])

    def clog(self, sender: int, receiver: int, milliseconds: float) -> None:
        """Delay all messages of a one-way link until the clog ends, `milliseconds` from now."""
        link = self.link(sender, receiver)
        link.clogged_until = max(link.clogged_until, self._loop.time() + milliseconds / 1000)

    def down(self, endpoint: int) -> None:
        """Mark an endpoint as down. While an endpoint is down, messages to the endpoint are lost. When an endpoint
        goes down, its connections break."""
        self._down.add(endpoint)
        for connection in [*self._connections]:
            if endpoint in connection.ends:
                connection._break_after(self.conditions.delay_ms)

    def up(self, endpoint: int) -> None:
        """Mark an endpoint as up again. Old connections of the endpoint stay broken."""
        self._down.discard(endpoint)


class SimConnection:
    """A stream between two endpoints that keeps the order in both directions. A broken connection stays broken."""

    def __init__(
        self, network: Network, loop: SimLoop, random: Random, ends: tuple[int, int], on_broken: Callable[[int], None]
    ) -> None:
        self.ends = ends
        # True: nothing is delivered any more. The ends may not have been notified yet.
        self.broken = False
        self._network = network
        self._loop = loop
        self._random = random
        self._on_broken = on_broken
        # By sender: messages on their way, in order. Arrival events always take the first.
        self._under_way: dict[int, deque[Deliver]] = {end: deque() for end in ends}
        # By sender: number of messages that have reached a cut and wait until it is mended.
        self._stuck = dict.fromkeys(ends, 0)
        # Number of the latest planned break. A planned break with an older number was cancelled.
        self._breaking = 0
        self._last_arrival = dict.fromkeys(ends, 0.0)

    def joins(self, a: int, b: int) -> bool:
        return a in self.ends and b in self.ends

    def send(self, sender: int, deliver: Deliver) -> None:
        """Send a message over the connection. The message arrives after all earlier messages of the same sender.
        The message is lost if the connection breaks before the message arrives."""
        if self.broken:
            return
        self._under_way[sender].append(deliver)
        self._set_out(sender)

    def _set_out(self, sender: int) -> None:
        network, now = self._network, self._loop.time()
        at = network.link(sender, self._other(sender)).waiter(now, network.conditions, self._random)
        if self._random.random() < network.conditions.loss:
            at += network.conditions.delay_ms * 2 / 1000 + 0.2  # a lost packet is sent again by TCP
        at = self._last_arrival[sender] = max(at, self._last_arrival[sender])
        self._loop.call_at(at, self._arrive, sender)

    def close(self) -> None:
        """Close the connection without notifying either end. An end that must notify the other end sends a message
        before it closes the connection."""
        self.broken = True
        self._network._forget(self)

    def _other(self, end: int) -> int:
        a, b = self.ends
        return b if end == a else a

    def _arrive(self, sender: int) -> None:
        if self.broken:
            return
        if self._network.link(sender, self._other(sender)).cut:
            self._stuck[sender] += 1
        else:
            self._under_way[sender].popleft()()

    def _break_after(self, milliseconds: float) -> None:
        self._breaking += 1
        self._loop.call_later(milliseconds / 1000, self._break, self._breaking)

    def _resume(self) -> None:
        """If no cut between the two ends is left, cancel the planned break of the connection and send the messages
        that the cut had stopped."""
        a, b = self.ends
        if self.broken or self._network.is_cut(a, b) or self._network.is_down(a) or self._network.is_down(b):
            return
        self._breaking += 1
        for end in self.ends:
            stuck, self._stuck[end] = self._stuck[end], 0
            for _ in range(stuck):
                self._set_out(end)

    def _break(self, number: int) -> None:
        if self.broken or number != self._breaking:
            return
        self.broken = True
        self._network._forget(self)
        for end in self.ends:
            if not self._network.is_down(end):
                self._on_broken(end)
