"""Encodes users, rules and delegated tokens for a snapshot, in protobuf (`ledger.v1.AccessState`)."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from ledger.access.password import Verifier
from ledger.access.rules import Rule
from ledger.errors import InternalError
from ledger.state.access_table import AccessTable, DelegatedToken, User
from ledger.v1 import state_pb2


def encode_access(access: AccessTable) -> bytes:
    """Encode the table. Equal tables have equal bytes."""
    state = state_pb2.AccessState(
        has_begun=access.has_begun,
        salt_key=access.salt_key,
        changed_at=access.changed_at,
        users=(_user_state(access.users[name], access.rules(name)) for name in sorted(access.users)),
        tokens=(_token_state(access.tokens[digest]) for digest in sorted(access.tokens)),
    )
    return state.SerializeToString(deterministic=True)


def decode_access(data: bytes) -> AccessTable:
    """Return the table that `data` encodes. Raises InternalError if the bytes are damaged."""
    try:
        state = state_pb2.AccessState.FromString(data)
    except DecodeError as error:
        raise InternalError("The users of a snapshot of the state are damaged: fetch it again.") from error
    access = AccessTable()
    access.has_begun, access.salt_key, access.changed_at = state.has_begun, state.salt_key, state.changed_at
    for user in state.users:
        verifier = _verifier(user.verifier) if user.HasField("verifier") else None
        access.put(User(user.name, verifier, user.since, user.rocketmq_secret), _rules(user.name, user.rules))
    for token in state.tokens:
        rules = tuple(_rules(token.user, token.rules))
        access.put_token(DelegatedToken(token.digest, token.user, token.since, rules, token.expires_ms))
    return access


def _user_state(user: User, rules: Iterable[Rule]) -> state_pb2.UserState:
    verifier = user.verifier
    return state_pb2.UserState(
        name=user.name,
        since=user.since,
        verifier=None
        if verifier is None
        else state_pb2.VerifierState(
            salt=verifier.salt,
            iterations=verifier.iterations,
            stored_key=verifier.stored_key,
            server_key=verifier.server_key,
        ),
        rules=map(_rule_state, rules),
        rocketmq_secret=user.rocketmq_secret,
    )


def _token_state(token: DelegatedToken) -> state_pb2.DelegatedTokenState:
    return state_pb2.DelegatedTokenState(
        digest=token.digest,
        user=token.user,
        since=token.since,
        rules=map(_rule_state, token.rules),
        expires_ms=token.expires_ms,
    )


def _rule_state(rule: Rule) -> state_pb2.RuleState:
    return state_pb2.RuleState(action=rule.action, resource=rule.resource, deny=rule.deny)


def _rules(user: str, rules: Iterable[state_pb2.RuleState]) -> list[Rule]:
    return [Rule(user, rule.action, rule.resource, rule.deny) for rule in rules]


def _verifier(wire: state_pb2.VerifierState) -> Verifier:
    return Verifier(wire.salt, wire.iterations, wire.stored_key, wire.server_key)
