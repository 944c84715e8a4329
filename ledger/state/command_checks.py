"""Checks the values of a command before a leader proposes it and, from feature level 1 on, when a replica applies it.

Protobuf carries any number of 32 or 64 bits, but the state cannot store every number. A command with a value that the
state cannot store would be committed, and then no replica could write a checkpoint or start again. The rules of a
request, such as "the topic must exist", depend on the state and are checked elsewhere: by the projected state, and when
a replica applies the command.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ledger.access.password import validate_verifier
from ledger.access.rules import Rule, validate_rule, validate_user_name
from ledger.consumer_groups import validate_group_name
from ledger.errors import InvalidArgumentError
from ledger.holds import validate_hold
from ledger.limits import MAX_OFFSET
from ledger.shared import MAX_LEASE_MS
from ledger.state.commands import (
    AccessCommand,
    AddShard,
    AddUser,
    AlterTopic,
    BalanceReplicas,
    BeginAccess,
    BeginReplicaMove,
    CancelTimed,
    ChangeLeases,
    CloseGroup,
    Command,
    CommitTransaction,
    ConfirmHalves,
    CountUnknown,
    CreateConsumerGroup,
    CreateTopic,
    DelegateToken,
    DeleteTopic,
    DrainNode,
    EndDrain,
    EndReplicaMove,
    GrantRules,
    HoldLog,
    HostGroup,
    OpenTopic,
    PausePlacement,
    PinLeader,
    PlaceCoordinator,
    PlacementCommand,
    RemoveUser,
    RevokeRules,
    RollBackHalves,
    RotateUser,
    SetReplicas,
    SetRocketmqSecret,
    SettleTimed,
    TopicOpened,
)
from ledger.state.coordinator_table import MAX_NUMBER
from ledger.state.group_modes import MAX_ATTEMPTS, MIN_ATTEMPTS, GroupMode
from ledger.state.lease_table import MAX_LEASE_TIME_MS, LeaseChange
from ledger.state.shard_table import MAX_SHARDS
from ledger.state.transaction_table import HERE, HalfName, check_halves
from ledger.topics import (
    TOPICS_SHARD,
    validate_queue_count,
    validate_replicas,
    validate_stored_name,
    validate_topic_type,
)
from store.directory.vote_file import INCARNATION_BYTES

# A cluster that creates a topic every second reaches this id after 68 years.
MAX_TOPIC_ID = (1 << 31) - 1
# The end of the year 9999, in ms since 1970.
MAX_TIME_MS = 253_402_300_799_999
MAX_NODE = 0xFFFF_FFFF
# Of a SHA-256.
DIGEST_BYTES = 32
# A secret of RocketMQ with the frame of its encryption has about 70 bytes.
MAX_ENCRYPTED_BYTES = 256
MAX_RULES_OF_A_COMMAND = 1_000
# Every user may make tokens, so they must be cheap.
MAX_RULES_OF_A_TOKEN = 32
MIN_TOKEN_TTL_MS = 1_000
MAX_TOKEN_TTL_MS = 30 * 86_400_000
# Waiting messages of one command.
MAX_TIMED_ITEMS = 4_096
# Half batches or transactions of one command.
MAX_HALF_ITEMS = 4_096
# Changes of leases of one command, and queues of one command.
MAX_LEASE_CHANGES = 20_000
MAX_LEASE_QUEUES = 10_000


def check_command(command: Command, shard: int) -> None:
    """Raise InvalidArgumentError, or the error of a rule for names, if a leader of the shard must not propose this
    command."""
    match command:
        case (
            CreateTopic()
            | AlterTopic()
            | TopicOpened()
            | AddShard()
            | SetReplicas()
            | PausePlacement()
            | BalanceReplicas()
            | DrainNode()
            | EndDrain()
            | BeginReplicaMove()
            | EndReplicaMove()
            | BeginAccess()
            | AddUser()
            | RotateUser()
            | RemoveUser()
            | GrantRules()
            | RevokeRules()
            | DelegateToken()
            | SetRocketmqSecret()
            | PlaceCoordinator()
        ) if shard != TOPICS_SHARD:
            raise InvalidArgumentError(
                f"{type(command).__name__} is for shard {TOPICS_SHARD}, and not for shard {shard}: send it to the "
                f"leader of shard {TOPICS_SHARD}."
            )
        case HostGroup() | CloseGroup() if shard == TOPICS_SHARD:
            raise InvalidArgumentError(
                f"{type(command).__name__} is for the other shards: shard {TOPICS_SHARD} places coordinators."
            )
        case OpenTopic() if shard == TOPICS_SHARD:
            raise InvalidArgumentError(
                f"OpenTopic is for the other shards: in shard {TOPICS_SHARD}, a topic is created with CreateTopic."
            )
    check_values(command)


def check_values(command: Command) -> None:
    """Raise InvalidArgumentError, or the error of a rule for names, if a state cannot store what the command says.
    Commands of consumer groups are not checked here, because the state stores them as protobuf, as they came."""
    match command:
        case CreateTopic(name, queues, shards, topic_type):
            validate_stored_name(name)
            validate_queue_count(queues)
            _check_shards(shards)
            validate_topic_type(topic_type)
        case AlterTopic(topic_id, shards, topic_type):
            _check_topic_id(topic_id)
            validate_queue_count(len(shards))
            _check_shards(shards)
            validate_topic_type(topic_type or 0)
        case TopicOpened(topic_id, queues):
            _check_topic_id(topic_id)
            validate_queue_count(queues)
        case OpenTopic(topic_id, name, shards, created_ms):
            _check_topic_id(topic_id)
            validate_stored_name(name)
            validate_queue_count(len(shards))
            _check_shards(shards)
            if not 0 <= created_ms <= MAX_TIME_MS:
                raise InvalidArgumentError(
                    f"A topic cannot be created at {created_ms} ms since 1970: use 0 to {MAX_TIME_MS}."
                )
        case DeleteTopic(topic_id):
            _check_topic_id(topic_id)
        case AddShard(number, nodes, incarnations):
            _check_shards((number,))
            _check_founders(nodes, incarnations)
        case SetReplicas() | DrainNode() | EndDrain() | BeginReplicaMove() | EndReplicaMove():
            _check_placement(command)
        case PlaceCoordinator(consumer_group, number):
            validate_group_name(consumer_group)
            _check_shards((number,))
        case HostGroup(consumer_group, number) | CloseGroup(consumer_group, number):
            validate_group_name(consumer_group)
            if not 1 <= number <= MAX_NUMBER:
                raise InvalidArgumentError(
                    f"No coordinator can have the number {number}: numbers are 1 to {MAX_NUMBER}."
                )
        case PinLeader(node, incarnation, _):
            _check_founders((node,), (incarnation,))
        case HoldLog(name, ttl_ms):
            validate_hold(name, ttl_ms)
        case BeginAccess() | AddUser() | RotateUser() | RemoveUser() | GrantRules() | RevokeRules() | DelegateToken():
            _check_access(command)
        case SetRocketmqSecret(name, encrypted):
            validate_user_name(name)
            if len(encrypted) > MAX_ENCRYPTED_BYTES:
                raise InvalidArgumentError(
                    f"An encrypted secret can have at most {MAX_ENCRYPTED_BYTES} bytes, and not {len(encrypted)}."
                )
        case SettleTimed(through_ms, through_identity, seen, settled):
            _check_turn(through_ms, through_identity, seen, settled)
        case CancelTimed(items):
            if not 1 <= len(items) <= MAX_TIMED_ITEMS:
                raise InvalidArgumentError(
                    f"{len(items)} waiting messages were given: cancel 1 to {MAX_TIMED_ITEMS} at a time."
                )
            for identity, delivery_ms in items:
                _check_identity(identity)
                _check_delivery_time(delivery_ms)
        case CommitTransaction(transaction, halves):
            _check_identity(transaction)
            check_halves(halves)
            _check_half_names(halves)
        case RollBackHalves(numbers) | CountUnknown(numbers):
            _check_half_count(len(numbers))
            for number in numbers:
                _check_identity(number)
        case ConfirmHalves(settled):
            _check_half_count(len(settled))
            for transaction, _ in settled:
                _check_identity(transaction)
            _check_half_names([half for _, half in settled])
        case CreateConsumerGroup(mode):
            _check_mode(mode)
        case ChangeLeases():
            _check_leases(command)


def _check_placement(command: PlacementCommand) -> None:
    match command:
        case SetReplicas(replicas, shard):
            if shard:
                _check_shards((shard,))
            if replicas or not shard:
                validate_replicas(replicas)
        case DrainNode(node) | EndDrain(node):
            _check_node(node)
        case BeginReplicaMove(shard, to, source, _):
            _check_shards((shard,))
            if to == source:
                raise InvalidArgumentError(f"A replica cannot move from node {source} to node {to}: name two nodes.")
            for node in filter(None, (to, source)):
                _check_node(node)
        case EndReplicaMove(shard):
            _check_shards((shard,))


def _check_node(node: int) -> None:
    if not 1 <= node <= MAX_NODE:
        raise InvalidArgumentError(f"No node can have the number {node}: nodes are 1 to {MAX_NODE}.")


def _check_half_count(count: int) -> None:
    if not 1 <= count <= MAX_HALF_ITEMS:
        raise InvalidArgumentError(f"A command can name 1 to {MAX_HALF_ITEMS} half batches, and not {count}.")


def _check_half_names(halves: Iterable[HalfName]) -> None:
    for shard, number in halves:
        if shard != HERE:
            _check_shards((shard,))
        _check_identity(number)


def _check_mode(mode: GroupMode) -> None:
    validate_group_name(mode.consumer_group)
    if mode.by_key and not mode.is_shared:
        raise InvalidArgumentError(
            "Only a shared group has an order by key: a queue group hands out each queue in its order."
        )
    if not MIN_ATTEMPTS <= mode.max_attempts <= MAX_ATTEMPTS:
        raise InvalidArgumentError(
            f"A message cannot be handed out {mode.max_attempts} times: choose {MIN_ATTEMPTS} to {MAX_ATTEMPTS}."
        )


def _check_leases(command: ChangeLeases) -> None:
    if not 0 <= command.time_ms <= MAX_LEASE_TIME_MS:
        raise InvalidArgumentError(
            f"{command.time_ms} is no lease time: a lease time is a number of ms from 0 to {MAX_LEASE_TIME_MS}."
        )
    if len(command.queues) > MAX_LEASE_QUEUES:
        raise InvalidArgumentError(
            f"Leases of {len(command.queues)} queues were given: change at most {MAX_LEASE_QUEUES} at a time."
        )
    if sum(len(each.changes) for each in command.queues) > MAX_LEASE_CHANGES:
        raise InvalidArgumentError(f"A command can change leases at most {MAX_LEASE_CHANGES} times.")
    for each in command.queues:
        validate_group_name(each.consumer_group)
        _check_identity(each.start_offset)
        for change in each.changes:
            _check_change(change)


def _check_change(change: LeaseChange) -> None:
    _check_identity(change.first)
    if not 1 <= change.size <= MAX_OFFSET - change.first:
        raise InvalidArgumentError(
            f"No queue has {change.size} messages from offset {change.first} on: offsets are 0 to {MAX_OFFSET}."
        )
    if not 0 <= change.duration_ms <= MAX_LEASE_MS:
        raise InvalidArgumentError(
            f"A lease or a delay cannot last {change.duration_ms} ms: choose up to {MAX_LEASE_MS} ms (12 hours)."
        )


def _check_access(command: AccessCommand) -> None:
    match command:
        case BeginAccess(name, verifier, salt_key):
            validate_user_name(name)
            validate_verifier(verifier)
            _check_digest("salt key", salt_key)
        case AddUser(name, verifier) | RotateUser(name, verifier):
            validate_user_name(name)
            if verifier is not None:
                validate_verifier(verifier)
        case RemoveUser(name):
            validate_user_name(name)
        case GrantRules(rules) | RevokeRules(rules):
            _check_rules(rules)
        case DelegateToken(digest, user, rules, ttl_ms):
            _check_digest("digest of a token", digest)
            validate_user_name(user)
            if len(rules) > MAX_RULES_OF_A_TOKEN:
                raise InvalidArgumentError(
                    f"A token cannot have {len(rules)} rules: give at most {MAX_RULES_OF_A_TOKEN}, or use patterns."
                )
            _check_rules(rules)
            if any(rule.deny or rule.user != user for rule in rules):
                raise InvalidArgumentError(f"The rules of a token of {user} must allow, and must be rules of {user}.")
            if not MIN_TOKEN_TTL_MS <= ttl_ms <= MAX_TOKEN_TTL_MS:
                raise InvalidArgumentError(
                    f"A token cannot last {ttl_ms} ms: choose {MIN_TOKEN_TTL_MS} to {MAX_TOKEN_TTL_MS} ms (30 days)."
                )


def _check_rules(rules: tuple[Rule, ...]) -> None:
    if not 1 <= len(rules) <= MAX_RULES_OF_A_COMMAND:
        raise InvalidArgumentError(f"{len(rules)} rules were given: give 1 to {MAX_RULES_OF_A_COMMAND} at a time.")
    for rule in rules:
        validate_rule(rule)


def _check_digest(what: str, digest: bytes) -> None:
    if len(digest) != DIGEST_BYTES:
        raise InvalidArgumentError(f"The {what} needs {DIGEST_BYTES} bytes, and not {len(digest)}.")


def _check_turn(through_ms: int, through_identity: int, seen: int, settled: tuple[int, ...]) -> None:
    _check_delivery_time(through_ms)
    _check_identity(through_identity)
    _check_identity(seen)
    if len(settled) > MAX_TIMED_ITEMS:
        raise InvalidArgumentError(f"A turn can settle at most {MAX_TIMED_ITEMS} messages, and not {len(settled)}.")
    if any(later <= earlier for earlier, later in pairwise(settled)):
        raise InvalidArgumentError("The identities that a turn settles without delivery must rise.")
    if settled:
        _check_identity(settled[-1])


def _check_identity(identity: int) -> None:
    if not 0 <= identity <= MAX_OFFSET:
        raise InvalidArgumentError(f"No message can have the offset {identity}: offsets are 0 to {MAX_OFFSET}.")


def _check_delivery_time(time_ms: int) -> None:
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidArgumentError(f"A message cannot be delivered at {time_ms} ms since 1970: use 0 to {MAX_TIME_MS}.")


def _check_topic_id(topic_id: int) -> None:
    if not 1 <= topic_id <= MAX_TOPIC_ID:
        raise InvalidArgumentError(f"No topic can have the id {topic_id}: ids are 1 to {MAX_TOPIC_ID}.")


def _check_shards(shards: tuple[int, ...]) -> None:
    for shard in shards:
        if not 0 <= shard < MAX_SHARDS:
            raise InvalidArgumentError(f"There can be no shard {shard}: shards are 0 to {MAX_SHARDS - 1}.")


def _check_founders(nodes: tuple[int, ...], incarnations: tuple[bytes, ...]) -> None:
    for node in nodes:
        _check_node(node)
    if [len(each) for each in incarnations] != [INCARNATION_BYTES] * len(nodes):
        raise InvalidArgumentError(
            f"{len(nodes)} nodes of a shard need {len(nodes)} incarnations of {INCARNATION_BYTES} bytes each."
        )
