"""Computes users, rules and delegated tokens from the log of shard 0, independently of the nodes.

    an entry of shard 0, when the first node applies it  ──>  the next `AccessVersion`
    the users and rules of that node                          must be the same

The rules of the log are few, so this module repeats them: a first administrator is made once, a removed user has no
rules any more, and a cluster keeps an administrator.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from chaos.sim.access.credentials import Credential
from ledger.access.mechanism import MECHANISM
from ledger.access.rules import Resource
from ledger.broker.access.proofs import digest_of
from ledger.state import State
from ledger.state.feature_levels import ACCESS_CONTROL
from ledger.v1 import command_pb2
from store import EntryKind, Header

Fail = Callable[[str, str], None]
# (action, pattern, denies).
KnownRule = tuple[str, str, bool]
_EVERY_RIGHT: KnownRule = ("all", "*", False)


@dataclass(frozen=True, slots=True)
class KnownUser:
    """`since` is the index of the entry with the present password."""

    since: int
    stored_key: bytes
    salt: bytes
    iterations: int
    rules: frozenset[KnownRule] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownToken:
    user: str
    since: int
    rules: frozenset[KnownRule]
    expires_ms: int


@dataclass(frozen=True)
class AccessVersion:
    """Users and tokens after the entry `index`, which a node applied first at `at_s` seconds of simulated time."""

    index: int = 0
    at_s: float = 0.0
    level: int = 0
    has_begun: bool = False
    users: Mapping[str, KnownUser] = field(default_factory=dict)
    tokens: Mapping[bytes, KnownToken] = field(default_factory=dict)

    def allows(self, credential: Credential, action: str, resource: Resource, now_ms: int) -> bool:
        """Return True if the credential gives the right, on a node whose clock shows `now_ms`."""
        if not credential.token:
            user = self.users.get(credential.user)
            return (
                user is not None and _has_password(user, credential.password) and permits(user.rules, action, resource)
            )
        token = self.tokens.get(digest_of(credential.token))
        user = self.users.get(token.user) if token is not None else None
        if token is None or user is None or user.since != token.since or token.expires_ms <= now_ms:
            return False
        return permits(token.rules, action, resource) and permits(user.rules, action, resource)

    @cached_property
    def administrators(self) -> list[str]:
        return sorted(
            name
            for name, user in self.users.items()
            if _EVERY_RIGHT in user.rules and not any(denies for _, _, denies in user.rules)
        )


def permits(rules: Iterable[KnownRule], action: str, resource: Resource) -> bool:
    """Decide by the rules of one user. A rule that denies wins."""
    decisive = [denies for named, pattern, denies in rules if named in (action, "all") and fits(pattern, resource)]
    return bool(decisive) and not any(decisive)


def fits(pattern: str, resource: Resource) -> bool:
    text = f"{resource.kind}:{resource.name}"
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


class AccessTruth:
    """All versions of users and rules that the log has had. `fail(invariant, what)` records a violation."""

    def __init__(self, fail: Fail, now_s: Callable[[], float]) -> None:
        self.versions = [AccessVersion()]
        self._fail = fail
        self._now_s = now_s
        self._index = 0

    @property
    def newest(self) -> AccessVersion:
        return self.versions[-1]

    def between(self, first: int, last: int) -> Sequence[AccessVersion]:
        """Return the versions that count on a node while it has applied entry `first` up to entry `last`."""
        indexes = [version.index for version in self.versions]
        return self.versions[bisect_right(indexes, first) - 1 : bisect_right(indexes, last)]

    def since(self, moment_s: float) -> Sequence[AccessVersion]:
        """Return the version that the cluster had at this moment, and all later versions."""
        moments = [version.at_s for version in self.versions]
        return self.versions[max(0, bisect_right(moments, moment_s) - 1) :]

    def applied(self, header: Header, body: bytes, state: State) -> None:
        """Follow an entry of shard 0 that a node has applied, and check the users and rules of this node, `state`."""
        if header.index <= self._index:
            return
        self._index = header.index
        if header.kind is not EntryKind.COMMAND:
            return
        before = self.newest
        after = _after(before, command_pb2.Command.FromString(body), header)
        if after is not before:
            self.versions.append(replace(after, index=header.index, at_s=self._now_s()))
            self._compare(state, header.index)

    def _compare(self, state: State, index: int) -> None:
        found = {
            name: (user.since, frozenset((rule.action, rule.resource, rule.deny) for rule in state.access.rules(name)))
            for name, user in state.access.users.items()
        }
        expected = {name: (user.since, user.rules) for name, user in self.newest.users.items()}
        if found != expected:
            self._fail("rights are what the log says", f"after entry {index} a node has {found}, the log {expected}")


def _after(before: AccessVersion, command: command_pb2.Command, header: Header) -> AccessVersion:
    """Return the version after a command: `before` itself if the command is refused or of another kind."""
    kind = command.WhichOneof("command")
    if kind == "raise_feature_level":
        return replace(before, level=max(before.level, command.raise_feature_level.level))
    if before.level < ACCESS_CONTROL:
        return before
    match kind:
        case "begin_access":
            return _begun(before, command.begin_access, header.index)
        case "add_user":
            added = command.add_user
            if added.name in before.users:
                return before
            return replace(before, users={**before.users, added.name: _user(added.verifier, header.index)})
        case "rotate_user":
            return _rotated(before, command.rotate_user, header.index)
        case "remove_user":
            return _removed(before, command.remove_user.name)
        case "grant_rules":
            return _with_rules(before, command.grant_rules.rules, add=True)
        case "revoke_rules":
            return _with_rules(before, command.revoke_rules.rules, add=False)
        case "delegate_token":
            return _delegated(before, command.delegate_token, header.append_time_ms)
        case _:
            return before


def _begun(before: AccessVersion, begin: command_pb2.BeginAccess, index: int) -> AccessVersion:
    if before.has_begun:
        return before
    administrator = replace(_user(begin.verifier, index), rules=frozenset({_EVERY_RIGHT}))
    return replace(before, has_begun=True, users={begin.name: administrator})


def _rotated(before: AccessVersion, rotated: command_pb2.RotateUser, index: int) -> AccessVersion:
    user = before.users.get(rotated.name)
    if user is None:
        return before
    new = replace(_user(rotated.verifier, index), rules=user.rules)
    return replace(before, users={**before.users, rotated.name: new})


def _removed(before: AccessVersion, name: str) -> AccessVersion:
    if name not in before.users or before.administrators == [name]:
        return before
    return replace(before, users={each: user for each, user in before.users.items() if each != name})


def _with_rules(before: AccessVersion, rules: Iterable[command_pb2.Rule], *, add: bool) -> AccessVersion:
    users = dict(before.users)
    for rule in rules:
        user = users.get(rule.user)
        if user is None:
            return before
        one = {(rule.action, rule.resource, rule.deny)}
        users[rule.user] = replace(user, rules=user.rules | one if add else user.rules - one)
    after = replace(before, users=users)
    return before if before.administrators and not after.administrators else after


def _delegated(before: AccessVersion, delegated: command_pb2.DelegateToken, now_ms: int) -> AccessVersion:
    user = before.users.get(delegated.user)
    if user is None:
        return before
    rules = frozenset((rule.action, rule.resource, rule.deny) for rule in delegated.rules)
    token = KnownToken(delegated.user, user.since, rules, now_ms + delegated.ttl_ms)
    return replace(before, tokens={**before.tokens, delegated.digest: token})


def _user(verifier: command_pb2.Verifier, index: int) -> KnownUser:
    return KnownUser(index, verifier.stored_key, verifier.salt, verifier.iterations)


# (password, salt, iterations) -> stored key. A computation takes 10 ms.
_KEYS: dict[tuple[str, bytes, int], bytes] = {}


def _has_password(user: KnownUser, password: str) -> bool:
    key = (password, user.salt, user.iterations)
    if key not in _KEYS:
        _KEYS[key] = MECHANISM.make_auth_info(password, user.iterations, user.salt)[1]
    return _KEYS[key] == user.stored_key
