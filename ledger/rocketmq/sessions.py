"""The RocketMQ clients that use this node, and what is known of them.

A client is known by its id. It may be silent for `ALIVE_S` before it counts as dead: clients send a heartbeat every
10 s, and Rust's client every 30 s. A client that moves to another node is known there after its first call, so nothing
is replicated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ledger.broker.access.callers import Caller
from ledger.broker.access.places import Places
from ledger.errors import BusyError
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.v2 import service_pb2

# Clients of this node, and those of one caller.
MAX_SESSIONS, MAX_SESSIONS_OF_A_CALLER = 20_000, 10_000
ALIVE_S = 35.0
# A client whose last telemetry stream has ended, and that makes no call for this time, seems to be gone. A client that
# lives connects again within about a second, and receives again.
GONE_S = 3.0
# Without a stream, a client that lives is heard more often than this: it sends heartbeats.
SILENT_S = 12.0
# A client of which nothing was heard for this time is forgotten.
FORGET_S = 120.0
# Commands to one client that it has not read.
MAX_COMMANDS = 64

Command = service_pb2.TelemetryCommand


@dataclass(eq=False, slots=True)
class FrontSession:
    """One RocketMQ client."""

    client_id: str
    caller: Caller
    # Who holds its place at this node.
    holder: str
    seen_s: float
    # What a producer has named. Only `producers.py` changes it.
    topics: set[str] = field(default_factory=set)
    # The commands of each open telemetry stream of the client.
    streams: dict[object, asyncio.Queue[Command]] = field(default_factory=dict)

    def command(self, command: Command) -> bool:
        """Send a command over the newest stream. Return False if there is none, or it has no room."""
        newest = next(reversed(self.streams.values()), None)
        if newest is None or newest.full():
            return False
        newest.put_nowait(command)
        return True


class FrontSessions:
    """All clients of this node. Another caller with the same client id has a session of its own."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._sessions: dict[tuple[str, str], FrontSession] = {}
        self._places = Places(MAX_SESSIONS, MAX_SESSIONS_OF_A_CALLER)
        # Called with each session that ends.
        self.on_end: list[Callable[[FrontSession], None]] = []
        # Called with each session whose client seems to be gone: its process was killed, or lost its network.
        self.on_gone: list[Callable[[FrontSession], None]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FrontSession]:
        return iter(list(self._sessions.values()))

    def seen(self, call: FrontCall) -> FrontSession:
        """Return the session of the caller, which lives. Raises BusyError if there are too many."""
        key = (call.caller.user, call.client_id)
        session = self._sessions.get(key)
        now_s = self._monotonic_s()
        if session is None:
            if refusal := self._places.take(call.holder):
                raise BusyError(f"This node serves no more RocketMQ clients: {refusal}.")
            session = self._sessions[key] = FrontSession(call.client_id, call.caller, call.holder, now_s)
        session.seen_s = now_s
        session.caller = call.caller
        return session

    def is_alive(self, session: FrontSession) -> bool:
        return (
            self._sessions.get((session.caller.user, session.client_id)) is session
            and self._monotonic_s() - session.seen_s <= ALIVE_S
        )

    def is_silent(self, session: FrontSession) -> bool:
        """Return True if the client has no stream and was not heard lately, as if its process was killed."""
        return not session.streams and self._monotonic_s() - session.seen_s > SILENT_S

    def end(self, session: FrontSession) -> None:
        """Forget a client that has told that it ends."""
        if self._sessions.get((session.caller.user, session.client_id)) is session:
            del self._sessions[session.caller.user, session.client_id]
            self._places.give_back(session.holder)
            for call in self.on_end:
                call(session)

    def stream_ended(self, session: FrontSession) -> None:
        """Look in a moment whether the client is gone, because one of its telemetry streams has ended."""
        if not session.streams:
            asyncio.get_running_loop().call_later(GONE_S, self._look, session, self._monotonic_s())

    def _look(self, session: FrontSession, ended_s: float) -> None:
        is_known = self._sessions.get((session.caller.user, session.client_id)) is session
        if is_known and not session.streams and session.seen_s <= ended_s:
            for call in self.on_gone:
                call(session)

    def forget_silent(self) -> None:
        """Forget the clients of which nothing was heard for long."""
        now_s = self._monotonic_s()
        for session in self:
            if now_s - session.seen_s > FORGET_S and not session.streams:
                self.end(session)
