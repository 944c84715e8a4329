"""Which right each gRPC method needs. The check at the rim of a node reads this table before it runs a method.

A method that is not in the table is refused. A test walks all methods of all services, so a new method needs a line
here. Some methods serve a part of what they are asked, such as the topics of a route: these methods check each part
themselves, with `present_caller` (ledger/broker/access/callers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from ledger.access.rules import CLUSTER, Action, Resource, topic_resource


class Right(NamedTuple):
    """A right that a call needs."""

    action: Action
    resource: Resource
    # The id by which the caller named the topic, or 0. A refusal tells the name only to callers that may see it.
    topic_id: int = 0


# Returns the name of the topic with this id, or "" for an unknown topic.
TopicName = Callable[[int], str]
Rights = Callable[[Any, TopicName], Iterable[Right]]


@dataclass(frozen=True, slots=True)
class Needed:
    """What a method needs of its caller."""

    # False: the method serves callers that have not proven who they are.
    proof: bool = True
    # The rights that the method needs for a request, all of them.
    rights: Rights = lambda request, topic_name: ()
    # Whether nodes of the cluster call the method, "too" or "only". They prove themselves to the transport.
    nodes: Literal["no", "too", "only"] = "no"
    # True: the call is an administrative act, which the audit log records.
    is_audited: bool = False
    # Whether a node may call the method for a user, as the front for RocketMQ's clients does. Administrators call
    # themselves.
    may_be_forwarded: bool = True


ANYBODY = Needed(proof=False)
# Every user. The method itself leaves out what the user may not see.
ANY_USER = Needed()


def _topic(action: Action) -> Rights:
    """The method names one topic by its id."""
    return lambda request, topic_name: [_on_topic(action, request.topic_id, topic_name)]


def _named_topic(action: Action) -> Rights:
    return lambda request, topic_name: [Right(action, topic_resource(request.name))]


def _group(action: Action) -> Rights:
    return lambda request, topic_name: [Right(action, Resource("group", request.consumer_group))]


def _group_and_topic(action: Action) -> Rights:
    """The method names a consumer group, and one topic by its id."""
    return lambda request, topic_name: [
        Right(action, Resource("group", request.consumer_group)),
        _on_topic("subscribe", request.topic_id, topic_name),
    ]


def _group_and_topics(action: Action, *fields: str) -> Rights:
    """The method names a consumer group, and topics by their ids in the messages of `fields`."""

    def rights(request: Any, topic_name: TopicName) -> Iterable[Right]:
        yield Right(action, Resource("group", request.consumer_group))
        for topic_id in {each.topic_id: None for field in fields for each in getattr(request, field)}:
            yield _on_topic("subscribe", topic_id, topic_name)

    return rights


def _waiting_topics(request: Any, topic_name: TopicName) -> Iterable[Right]:
    """The method names waiting messages, with the ids of their target topics. Without messages, it names no topic."""
    for topic_id in {each.topic_id: None for each in request.messages} or (0,):
        yield _on_topic("publish", topic_id, topic_name)


def _ended_topics(request: Any, topic_name: TopicName) -> Iterable[Right]:
    """The method ends transactions, with the ids of the topics in which they begin."""
    for topic_id in {each.topic_id: None for each in request.ends} or (0,):
        yield _on_topic("publish", topic_id, topic_name)


def _producer_group(request: Any, topic_name: TopicName) -> Iterable[Right]:
    return [Right("subscribe", Resource("group", request.producer_group))]


def _target_topic(request: Any, topic_name: TopicName) -> Iterable[Right]:
    """The method names one topic by its id, or no topic."""
    return [_on_topic("subscribe", request.topic_id, topic_name)] if request.topic_id else []


def _cluster(action: Action) -> Rights:
    return lambda request, topic_name: [Right(action, CLUSTER)]


def _on_topic(action: Action, topic_id: int, topic_name: TopicName) -> Right:
    return Right(action, topic_resource(topic_name(topic_id)), topic_id)


_OF_BROKER = {
    "Produce": ANY_USER,
    "Fetch": ANY_USER,
    "ListOffsets": Needed(rights=_topic("describe")),
    "QueryMessages": Needed(rights=_topic("subscribe")),
    "GetRoute": Needed(nodes="too"),
    "CreateTopic": Needed(rights=_named_topic("create"), is_audited=True),
    "AlterTopic": Needed(rights=_named_topic("alter"), is_audited=True),
    "DeleteTopic": Needed(rights=_topic("delete"), is_audited=True),
    # The produce stream checks the right on each target topic.
    "PrepareTimed": ANY_USER,
    # The broker passes over a message of another topic than the handle names.
    "CancelTimed": Needed(rights=_waiting_topics),
    # The method leaves out the messages of topics that the caller may not read.
    "ListTimed": Needed(rights=_target_topic),
    "GetStatus": Needed(rights=_cluster("describe")),
}
_OF_GROUPS = {
    "Join": Needed(rights=_group_and_topics("subscribe", "subscriptions", "configured")),
    "AwaitAssignment": Needed(rights=_group("subscribe")),
    "Release": Needed(rights=_group("subscribe")),
    "Leave": Needed(rights=_group("subscribe")),
    "Claim": Needed(rights=_group_and_topics("subscribe", "queues")),
    "Acknowledge": Needed(rights=_group("subscribe")),
    # A move copies a message to a topic that everybody with the right on the group may read.
    "Move": Needed(rights=_group_and_topic("subscribe")),
    # The stream checks the rights on the group and the topics of its first request.
    "Share": ANY_USER,
    "PrepareRetries": Needed(rights=_group("subscribe")),
    "FindCoordinator": Needed(rights=_group("subscribe")),
}
_OF_GROUP_OPERATIONS = {
    "ListConsumerGroups": ANY_USER,
    "CreateConsumerGroup": Needed(rights=_group("alter"), is_audited=True),
    "DescribeConsumerGroup": Needed(rights=_group("describe")),
    "ResetOffsets": Needed(rights=_group("alter"), is_audited=True),
    "RenewQueues": Needed(rights=_group("alter"), is_audited=True),
    "MoveCoordinator": Needed(rights=_group("alter"), is_audited=True),
    "ForgetConsumerGroup": Needed(rights=_group("delete"), is_audited=True),
    "ForgetRetries": Needed(rights=_group("delete"), is_audited=True),
}
_ADMINISTER = Needed(rights=_cluster("administer"), is_audited=True)
# The leader of shard 0 also places replicas by itself.
_PLACE = replace(_ADMINISTER, nodes="too")
_ONLY_NODES = Needed(nodes="only")
_OF_OPERATIONS = {
    # A node that hears no leader asks whether it was removed.
    "GetMembers": Needed(rights=_cluster("describe"), nodes="too"),
    "AddNode": _PLACE,
    "PromoteNode": _PLACE,
    "RemoveNode": _PLACE,
    "TransferLeadership": _PLACE,
    "GetPlacement": Needed(rights=_cluster("describe")),
    "SetPlacement": _ADMINISTER,
    "DrainNode": _ADMINISTER,
    "PinLeader": _PLACE,
    "RecoverNode": _ADMINISTER,
    "TrimLog": _ADMINISTER,
    "HoldLog": Needed(rights=_cluster("read-log"), is_audited=True),
    "ReleaseLog": Needed(rights=_cluster("read-log"), is_audited=True),
    "GetHolds": Needed(rights=_cluster("describe")),
    "AddShard": _ADMINISTER,
    "OpenTopic": _ONLY_NODES,
    "DropTopic": _ONLY_NODES,
}
_OF_INSPECTION = {
    "GetSlowRequests": Needed(rights=_cluster("describe")),
    # The method leaves out the groups that the caller may not see, and checks the other places of the message.
    "TraceMessage": Needed(rights=_topic("subscribe")),
    "GetEvents": Needed(rights=_cluster("describe")),
    "ListEntries": Needed(rights=_cluster("describe")),
    "GetTraffic": Needed(rights=_cluster("describe")),
    "GetAuditLog": Needed(rights=_cluster("administer")),
    "GetNodeReport": Needed(rights=_cluster("administer")),
}
_OF_TRANSACTIONS = {
    # A node asks for a dead-letter topic that was deleted.
    "PrepareTransactions": Needed(rights=_producer_group, nodes="too"),
    # The broker passes over a transaction that begins in another topic than the end names.
    "EndTransactions": Needed(rights=_ended_topics),
    # The method leaves out what the caller may not read.
    "ListTransactions": ANY_USER,
    # The method checks the rights on the group and, at each check, on the topic.
    "CheckTransactions": ANY_USER,
    "SettleHalves": _ONLY_NODES,
    "JudgeHalves": _ONLY_NODES,
    "FindHalves": _ONLY_NODES,
}
_OF_SECURITY = {
    "Authenticate": ANYBODY,
    "ListUsers": Needed(rights=_cluster("administer")),
    "AddUser": _ADMINISTER,
    # A user may replace its own password, so the method checks.
    "RotateUser": Needed(is_audited=True),
    "RemoveUser": _ADMINISTER,
    "GrantRules": _ADMINISTER,
    "RevokeRules": _ADMINISTER,
    "ListRules": Needed(rights=_cluster("administer")),
    "TestRight": Needed(rights=_cluster("administer")),
    "DelegateToken": Needed(is_audited=True),
    # A user may change its own secret, so the methods check.
    "MakeRocketmqSecret": Needed(is_audited=True),
    "RemoveRocketmqSecret": Needed(is_audited=True),
}

# The services for administrators, and for proofs.
_NEVER_FORWARDED = ("Operations", "Security")

# The method's full name, such as "/ledger.v1.Broker/Fetch" -> what it needs.
NEEDED: dict[str, Needed] = {
    f"/ledger.v1.{service}/{method}": replace(needed, may_be_forwarded=service not in _NEVER_FORWARDED)
    for service, methods in (
        ("Broker", _OF_BROKER),
        ("ConsumerGroups", _OF_GROUPS),
        ("ConsumerGroupOperations", _OF_GROUP_OPERATIONS),
        ("Operations", _OF_OPERATIONS),
        ("Inspection", _OF_INSPECTION),
        ("Transactions", _OF_TRANSACTIONS),
        ("Security", _OF_SECURITY),
    )
    for method, needed in methods.items()
}
