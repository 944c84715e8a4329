"""Which types of messages a topic takes."""

from __future__ import annotations

from ledger.client.connection.route_table import RoutedTopic
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.topics import TopicType

# By the type of the topic. A message with a priority has no other property that a topic cares about.
_ACCEPTED: dict[str, tuple[pb.MessageType, ...]] = {
    TopicType.NORMAL.word: (pb.NORMAL,),
    TopicType.FIFO.word: (pb.FIFO,),
    TopicType.DELAY.word: (pb.DELAY,),
    TopicType.TRANSACTION.word: (pb.TRANSACTION,),
}
# A topic of the type MIXED, or of a type that this version does not know.
_ALL = (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY)


def accepted_types(topic: RoutedTopic) -> tuple[pb.MessageType, ...]:
    return _ACCEPTED.get(topic.type, _ALL)


def named_types(topic: RoutedTopic, call: FrontCall) -> tuple[pb.MessageType, ...]:
    """Return the types that a route names to this client. The topic may take messages with a priority nevertheless."""
    accepted = accepted_types(topic)
    return accepted if call.knows_priorities else tuple(each for each in accepted if each != pb.PRIORITY)


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
    return topic.type == TopicType.FIFO.word
