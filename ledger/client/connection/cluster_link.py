"""The link of clients to one cluster: the channels to its nodes, and the routes.

Producers of one event loop that reach the same cluster in the same way share a link. So a thousand producers of a
program have as many connections as one producer, and together they ask for routes once. Consumers without a group share
links in the same way, at most 100 of them a link, because each of them always has a call under way. Every other client
has a link of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.channels import Channel, Connections
from ledger.client.connection.routes import Routes

T = TypeVar("T")

# A client that joins a link asks for routes, unless a client did so this many seconds before.
FRESH_S = 1.0

OpenChannel = Callable[[str, str | None], Channel]


@dataclass(frozen=True, slots=True)
class LinkKey:
    """Two clients of one event loop with equal keys can share a link."""

    bootstrap: tuple[str, ...]
    client_id: str | None
    # Opens the channel to an address for a client id. Two values are equal if their channels are of the same security.
    channel: OpenChannel
    # How long a node may take to answer, before a client ends the stream.
    request_timeout_ms: float
    # How many clients share a link; None: any number. Clients with different numbers share nothing.
    most_users: int | None = None

    def open(self, address: str) -> Channel:
        return self.channel(address, self.client_id)


class ClusterLink:
    """The channels and the routes of one or more clients. The first user starts the routes, and the last user closes
    the link."""

    def __init__(self, key: LinkKey, backoff: Backoff, on_ended: Callable[[], None]) -> None:
        """`on_ended` is called once, when the last user has left."""
        self.key = key
        self.connections = Connections(key.open)
        self.routes = Routes(self.connections, key.bootstrap, backoff)
        self._loop = asyncio.get_running_loop()
        self._on_ended = on_ended
        self._most_users = key.most_users
        self._users = 0
        # The last request for routes for a new user, and when it began.
        self._asking: asyncio.Task[None] | None = None
        self._asked_s = 0.0
        # Closes everything. The last user makes it.
        self._ending: asyncio.Task[None] | None = None
        self._has_routes = False
        # What the users share beside the connections and routes, by what made it.
        self._parts: dict[Hashable, Any] = {}

    def part(self, make: Callable[[ClusterLink], T]) -> T:
        """Return what `make` has made for the users of this link. The first call makes it."""
        if make not in self._parts:
            self._parts[make] = make(self)
        made: T = self._parts[make]
        return made

    @property
    def is_full(self) -> bool:
        """True if no other client can join."""
        return self._most_users is not None and self._users >= self._most_users

    async def join(self) -> None:
        """Add a user, and return when the routes are known and not old. A user whose `join` fails does not `leave`.
        Raises UnavailableError if no node answers, and AuthenticationError if nodes refuse this client."""
        self._users += 1
        try:
            await asyncio.shield(self._fresh())  # a user that gives up does not end the request of the others
        except BaseException:
            await self.leave()
            raise

    def _fresh(self) -> asyncio.Task[None]:
        """Return a request for routes that is under way, or has succeeded a moment ago."""
        asking = self._asking
        if asking is not None and not asking.done():
            return asking
        failed = asking is None or asking.cancelled() or asking.exception() is not None
        if asking is None or failed or self._loop.time() - self._asked_s >= FRESH_S:
            self._asked_s = self._loop.time()
            asking = self._asking = self._loop.create_task(self._ask(), name="routes of a new client")
        return asking

    async def _ask(self) -> None:
        if self._has_routes:
            await self.routes.refresh()
            return
        await self.routes.start(self.key.request_timeout_ms / 1000)
        self._has_routes = True

    async def leave(self) -> None:
        """Remove a user. The last one closes the link."""
        self._users -= 1
        if self._users:
            return
        self._on_ended()
        self._ending = self._loop.create_task(self._end(), name="end of a connection")
        await asyncio.shield(self._ending)  # a caller that gives up does not leave half of it open

    async def _end(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self.routes.close()
        await self.connections.close()


class ClusterLinks:
    """The links that clients share, by event loop and key."""

    def __init__(self) -> None:
        # A link lives as long as its users, also if a program drops its clients without closing them.
        self._links: WeakValueDictionary[Hashable, ClusterLink] = WeakValueDictionary()

    def shared(self, key: LinkKey, backoff: Backoff) -> ClusterLink:
        """Return a link of this event loop with this key, which the caller joins at once; the routes of a new link are
        asked for with `backoff`."""
        for number in count():
            # The link keeps its loop alive, so no other loop has the same id.
            place = (id(asyncio.get_running_loop()), key, number)
            link = self._links.get(place)
            if link is None:
                link = self._links[place] = ClusterLink(key, backoff, partial(self._forget, place))
            if not link.is_full:
                return link
        raise AssertionError("count() does not end")

    def _forget(self, place: Hashable) -> None:
        self._links.pop(place, None)


def own_link(key: LinkKey, backoff: Backoff) -> ClusterLink:
    """Return a link that no other client uses."""
    return ClusterLink(key, backoff, lambda: None)
