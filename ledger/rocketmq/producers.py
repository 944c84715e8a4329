"""The producers of each topic: which RocketMQ clients have named it.

A client may name topics that do not exist, and the node remembers every name. So the names of one caller have a limit,
as its clients have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ledger.broker.access.places import Places
from ledger.errors import BusyError
from ledger.rocketmq.sessions import FrontSession, FrontSessions

# Topics that the producers of this node name, and those of one caller. A topic counts once for each producer.
MAX_NAMED, MAX_NAMED_OF_A_CALLER = 200_000, 100_000


class TopicProducers:
    """Remembers what the producers of one node have named until their sessions end."""

    def __init__(self, sessions: FrontSessions) -> None:
        self._sessions = sessions
        self._places = Places(MAX_NAMED, MAX_NAMED_OF_A_CALLER)
        # By user and topic, in the order in which they named it. No topic is here without a producer.
        self._producers: dict[tuple[str, str], dict[FrontSession, None]] = {}
        sessions.on_end.append(self.forget)

    @property
    def named(self) -> int:
        """The number of topics that producers name, counted once for each producer."""
        return self._places.taken

    def name(self, session: FrontSession, topics: Iterable[str]) -> None:
        """Replace what a producer has named before. Raises BusyError if its caller names too many topics; then nothing
        is replaced."""
        wanted = set(topics)
        added, removed = wanted - session.topics, session.topics - wanted
        self._places.give_back(session.holder, len(removed))
        if added and (refusal := self._places.take(session.holder, len(added))):
            self._places.take(session.holder, len(removed))
            raise BusyError(f"This node remembers no more topics of RocketMQ producers: {refusal}.")
        session.topics = wanted
        for topic in removed:
            self._remove(session, topic)
        for topic in sorted(added):
            self._producers.setdefault((session.caller.user, topic), {})[session] = None

    def forget(self, session: FrontSession) -> None:
        """Forget what a client has named."""
        self.name(session, ())

    def _remove(self, session: FrontSession, topic: str) -> None:
        producers = self._producers[session.caller.user, topic]
        del producers[session]
        if not producers:
            del self._producers[session.caller.user, topic]

    def of(self, user: str, topic: str) -> Sequence[FrontSession]:
        """Return the producers of a topic that have a telemetry stream and were heard lately. The stream of a producer
        whose machine or network was lost stays open until its connection is known to be broken."""
        producers = self._producers.get((user, topic), ())
        return [session for session in producers if session.streams and self._sessions.is_alive(session)]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Return the users and topics that there are now."""
        return iter(list(self._producers))
