"""Which types of messages a topic takes."""

from __future__ import annotations

from ledger.client.connection.route_table import RoutedTopic
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb

# A topic without a type takes messages of all types.
_ALL = (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY)


def accepted_types(topic: RoutedTopic) -> tuple[pb.MessageType, ...]:
    return _ALL


def check_type(topic: RoutedTopic, kind: pb.MessageType) -> None:
    """Raise FrontRefusal if the topic takes no messages of this type."""
    if kind not in accepted_types(topic):
        names = ", ".join(pb.MessageType.Name(each) for each in accepted_types(topic))
        raise FrontRefusal(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"topic {topic.name!r} takes no {pb.MessageType.Name(kind)} messages, but {names}",
        )


def is_fifo(topic: RoutedTopic) -> bool:
    """Return True if new groups that consume the topic have order by key."""
    return False
