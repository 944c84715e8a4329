"""The admin client's operations on users and their rules.

The leader of shard 0 answers. A client repeats a request whose answer was lost; then a user that was already added, or
already removed, is no error.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from ledger.access.password import Verifier, make_verifier
from ledger.access.rules import Rule, Verdict, validate_rule, validate_user_name
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import Environment
from ledger.topics import TOPICS_SHARD
from ledger.v1 import security_pb2


class UserSummary(NamedTuple):
    """A user. Without a password it authenticates with a client certificate. `rules` is the number of its rules."""

    name: str
    has_password: bool
    rules: int
    has_rocketmq_secret: bool = False


class RocketmqSecret(NamedTuple):
    """The access key of a user for RocketMQ's clients, which is its name, and the secret. The cluster cannot show the
    secret again."""

    access_key: str
    secret: str

    def __repr__(self) -> str:
        return f"RocketmqSecret(access_key={self.access_key!r})"


class DelegatedTokenText(NamedTuple):
    """A delegated token, which is a secret, and the time when it ends, in ms since 1970."""

    token: str
    expires_ms: int

    def __repr__(self) -> str:
        return f"DelegatedTokenText(expires_ms={self.expires_ms})"


class UsersAdmin:
    """Adds and removes users, and grants and revokes rules, over the connections of one admin client."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def users(self) -> list[UserSummary]:
        request = security_pb2.ListUsersRequest()
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.ListUsers(request, timeout=s))
        return [
            UserSummary(user.name, user.has_password, user.rules, user.has_rocketmq_secret) for user in response.users
        ]

    async def add(self, name: str, password: str | None) -> None:
        validate_user_name(name)
        request = security_pb2.AddUserRequest(name=name, verifier=await self._verifier(password))
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.AddUser(request, timeout=s))

    async def rotate(self, name: str, password: str | None) -> None:
        validate_user_name(name)
        request = security_pb2.RotateUserRequest(name=name, verifier=await self._verifier(password))
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.RotateUser(request, timeout=s))

    async def remove(self, name: str) -> None:
        validate_user_name(name)
        request = security_pb2.RemoveUserRequest(name=name)
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.RemoveUser(request, timeout=s))

    async def grant(self, rules: Iterable[Rule]) -> None:
        request = security_pb2.GrantRulesRequest(rules=on_the_wire(rules))
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.GrantRules(request, timeout=s))

    async def revoke(self, rules: Iterable[Rule]) -> int:
        request = security_pb2.RevokeRulesRequest(rules=on_the_wire(rules))
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.RevokeRules(request, timeout=s))
        return int(response.revoked)

    async def rules(self, user: str) -> list[Rule]:
        request = security_pb2.ListRulesRequest(user=user)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.ListRules(request, timeout=s))
        return [rule_of(rule) for rule in response.rules]

    async def test(self, user: str, action: str, resource: str) -> Verdict:
        request = security_pb2.TestRightRequest(user=user, action=action, resource=resource)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.TestRight(request, timeout=s))
        return Verdict(response.allowed, rule_of(response.rule) if response.HasField("rule") else None)

    async def delegate(self, rights: Iterable[tuple[str, str]], ttl_ms: int) -> DelegatedTokenText:
        rules = [Rule("me", action, resource) for action, resource in rights]
        request = security_pb2.DelegateTokenRequest(rules=on_the_wire(rules), ttl_ms=ttl_ms)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.DelegateToken(request, timeout=s))
        return DelegatedTokenText(response.token, response.expires_ms)

    async def make_rocketmq_secret(self, name: str) -> RocketmqSecret:
        validate_user_name(name)
        request = security_pb2.MakeRocketmqSecretRequest(name=name)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.MakeRocketmqSecret(request, timeout=s))
        return RocketmqSecret(response.access_key, response.secret)

    async def remove_rocketmq_secret(self, name: str) -> None:
        validate_user_name(name)
        request = security_pb2.RemoveRocketmqSecretRequest(name=name)
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.RemoveRocketmqSecret(request, timeout=s))

    async def _verifier(self, password: str | None) -> security_pb2.ScramVerifier | None:
        return await verifier_of(password, self._client.environment)


async def verifier_of(password: str | None, environment: Environment) -> security_pb2.ScramVerifier | None:
    """Return what the cluster stores in place of the password. A thread computes it, because it takes about 10 ms."""
    if password is None:
        return None
    verifier: Verifier = await environment.in_thread(partial(make_verifier, password, environment.random_bytes))
    return security_pb2.ScramVerifier(
        salt=verifier.salt,
        iterations=verifier.iterations,
        stored_key=verifier.stored_key,
        server_key=verifier.server_key,
    )


def on_the_wire(rules: Iterable[Rule]) -> list[security_pb2.AclRule]:
    """Raises InvalidArgumentError if a rule cannot exist."""
    found = []
    for rule in rules:
        validate_rule(rule)
        found.append(security_pb2.AclRule(user=rule.user, action=rule.action, resource=rule.resource, deny=rule.deny))
    return found


def rule_of(wire: security_pb2.AclRule) -> Rule:
    return Rule(wire.user, wire.action, wire.resource, wire.deny)
