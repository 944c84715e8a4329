"""The users of the cluster, their rules, and the delegated tokens. Shard 0 stores this table.

A user has a verifier of its password, or none if it authenticates with a client certificate only. A delegated token
has a part of its user's rights for a limited time. The table stores a hash of the token and not the token itself.
Delegated tokens expire by the append times of entries, so every replica drops the same tokens at the same index.

`changed_at` is the index of the last entry that changed the table. Nodes keep decisions only as long as it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ledger.access.password import Verifier
from ledger.access.rules import MAX_RULES, MAX_RULES_OF_A_USER, MAX_USERS, Rule
from ledger.errors import InvalidArgumentError, UnknownUserError, UserExistsError

MAX_DELEGATED_TOKENS = 10_000
# So no user takes the tokens of all others.
MAX_TOKENS_OF_A_USER = 200
# An administrator: every right on everything.
EVERY_RIGHT = ("all", "*")


@dataclass(frozen=True, slots=True)
class User:
    """`since` is the index of the entry that added the user or replaced its password. A proof of an older password does
    not count any more."""

    name: str
    verifier: Verifier | None
    since: int
    # The secret of RocketMQ's clients, encrypted with a key that is not in the log; empty: there is none.
    rocketmq_secret: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DelegatedToken:
    """A token with a part of the rights of `user`: both the rules of the token and the rules of the user must allow.
    `digest` is the SHA-256 of the token. `expires_ms` is in ms since 1970."""

    digest: bytes
    user: str
    # The `since` of the user when the token was made.
    since: int
    rules: tuple[Rule, ...]
    expires_ms: int


class AccessTable:
    """Users by name, rules by user, and delegated tokens by digest."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.tokens: dict[bytes, DelegatedToken] = {}
        # The first administrator was made. It is made once in the life of a cluster.
        self.has_begun = False
        # Makes the salts that unknown users seem to have, so that a refusal does not tell which users exist.
        self.salt_key = b""
        self.changed_at = 0
        self._rules: dict[str, set[Rule]] = {}
        # The earliest expiry of all tokens; None exactly if there are no tokens.
        self._next_expiry: int | None = None

    def __len__(self) -> int:
        return len(self.users)

    def begin(self, administrator: User, salt_key: bytes) -> None:
        """Add the first administrator. Raises UserExistsError if the cluster had a first administrator before."""
        if self.has_begun:
            raise UserExistsError(
                "The first administrator of this cluster was made before: an administrator adds further users with "
                "`ledgermq user add`."
            )
        self.has_begun, self.salt_key = True, salt_key
        self.users[administrator.name] = administrator
        self._rules[administrator.name] = {Rule(administrator.name, *EVERY_RIGHT)}
        self.changed_at = administrator.since

    def add(self, user: User) -> None:
        """Raises UserExistsError, or InvalidArgumentError if there are too many users."""
        if user.name in self.users:
            raise UserExistsError(
                f"There is a user {user.name} already: use `ledgermq user rotate` for a new password."
            )
        if len(self.users) >= MAX_USERS:
            raise InvalidArgumentError(f"There are {len(self.users)} users already, which is the limit: remove a user.")
        self.users[user.name] = user
        self.changed_at = user.since

    def rotate(self, user: User) -> None:
        """Replace the verifier of a user. Its tokens and its RocketMQ secret end. Raises UnknownUserError."""
        self.require(user.name)
        self.users[user.name] = user
        self._drop_tokens(user.name)
        self.changed_at = user.since

    def set_rocketmq_secret(self, name: str, encrypted: bytes, index: int) -> None:
        """Replace the RocketMQ secret of a user; empty bytes remove it. Raises UnknownUserError."""
        self.users[name] = replace(self.require(name), rocketmq_secret=encrypted)
        self.changed_at = index

    def remove(self, name: str, index: int) -> None:
        """Remove a user with its rules and tokens. Raises UnknownUserError, or InvalidArgumentError if the cluster
        would have no administrator any more."""
        self.require(name)
        self._keep_an_administrator({name: ()})
        del self.users[name]
        self._rules.pop(name, None)
        self._drop_tokens(name)
        self.changed_at = index

    def require(self, name: str) -> User:
        """Raises UnknownUserError."""
        if (user := self.users.get(name)) is None:
            raise UnknownUserError(f"There is no user {name}: `ledgermq user list` shows the users.")
        return user

    def rules(self, user: str) -> list[Rule]:
        """Return the rules of a user, sorted."""
        return sorted(self._rules.get(user, ()))

    def all_rules(self) -> Iterator[Rule]:
        """Yield the rules of all users, sorted."""
        for user in sorted(self._rules):
            yield from sorted(self._rules[user])

    def grant(self, rules: Sequence[Rule], index: int) -> None:
        """Add rules. Rules that exist are no error. Raises UnknownUserError, or InvalidArgumentError if there are too
        many rules."""
        new = self._changed(rules, add=True)
        for user, granted in new.items():
            if len(granted) > MAX_RULES_OF_A_USER:
                raise InvalidArgumentError(f"User {user} can have at most {MAX_RULES_OF_A_USER} rules: use patterns.")
        if sum(map(len, self._rules.values())) + len(rules) > MAX_RULES:
            raise InvalidArgumentError(
                f"The cluster can have at most {MAX_RULES} rules: revoke rules, or use patterns."
            )
        self._keep_an_administrator(new)
        self._rules.update(new)
        self.changed_at = index

    def revoke(self, rules: Sequence[Rule], index: int) -> int:
        """Remove rules, and return how many of them existed. Raises UnknownUserError, or InvalidArgumentError if the
        cluster would have no administrator any more."""
        new = self._changed(rules, add=False)
        self._keep_an_administrator(new)
        revoked = sum(len(self._rules.get(user, ())) - len(left) for user, left in new.items())
        self._rules.update(new)
        self.changed_at = index
        return revoked

    def delegate(self, token: DelegatedToken, index: int) -> None:
        """Add a delegated token. Raises UnknownUserError, or InvalidArgumentError if there are too many tokens."""
        self.check_delegation(token.user)
        self.tokens[token.digest] = token
        self._look_ahead()
        self.changed_at = index

    def check_delegation(self, user: str, now_ms: int = 0) -> None:
        """Raise UnknownUserError, or InvalidArgumentError if there are too many tokens for one more of this user.
        Tokens that have ended at `now_ms` do not count."""
        self.require(user)
        tokens = [each for each in self.tokens.values() if each.expires_ms > now_ms]
        own = sum(each.user == user for each in tokens)
        if own >= MAX_TOKENS_OF_A_USER:
            raise InvalidArgumentError(
                f"User {user} has {own} delegated tokens already, which is the limit: wait until some expire, "
                "delegate for a shorter time, or end them all with a new password."
            )
        if len(tokens) >= MAX_DELEGATED_TOKENS:
            raise InvalidArgumentError(
                f"There are {len(tokens)} delegated tokens already, which is the limit: wait until some expire, "
                "or delegate for a shorter time."
            )

    def expire(self, now_ms: int) -> None:
        """Remove expired tokens. If no token has expired, the call returns at once."""
        if self._next_expiry is not None and now_ms >= self._next_expiry:
            self._keep_tokens(lambda token: token.expires_ms > now_ms)

    def put(self, user: User, rules: Iterable[Rule]) -> None:
        """Add a user with its rules, for a state that is decoded."""
        self.users[user.name] = user
        self._rules[user.name] = set(rules)

    def put_token(self, token: DelegatedToken) -> None:
        """Add a token, for a state that is decoded."""
        self.tokens[token.digest] = token
        self._look_ahead()

    def _changed(self, rules: Sequence[Rule], *, add: bool) -> dict[str, set[Rule]]:
        """Return the rules that the users in `rules` would have after a change."""
        new: dict[str, set[Rule]] = {}
        for rule in rules:
            self.require(rule.user)
            of_user = new.setdefault(rule.user, set(self._rules.get(rule.user, ())))
            if add:
                of_user.add(rule)
            else:
                of_user.discard(rule)
        return new

    def _keep_an_administrator(self, new: dict[str, set[Rule]] | dict[str, tuple[()]]) -> None:
        """Raise InvalidArgumentError if no user would have every right after the change `new` of rules."""
        had, keeps = False, False
        for user in self.users:
            had = had or _is_administrator(self._rules.get(user, ()))
            keeps = keeps or _is_administrator(new.get(user, self._rules.get(user, ())))
        if had and not keeps:
            raise InvalidArgumentError(
                'The cluster would have no administrator any more, a user with the rule "allow all *" and no rule that '
                "forbids: grant another user every right first."
            )

    def _drop_tokens(self, user: str) -> None:
        self._keep_tokens(lambda token: token.user != user)

    def _keep_tokens(self, keeps: Callable[[DelegatedToken], bool]) -> None:
        self.tokens = {digest: token for digest, token in self.tokens.items() if keeps(token)}
        self._look_ahead()

    def _look_ahead(self) -> None:
        self._next_expiry = min((token.expires_ms for token in self.tokens.values()), default=None)


def _is_administrator(rules: Iterable[Rule]) -> bool:
    rules = tuple(rules)
    has_every_right = any((rule.action, rule.resource, rule.deny) == (*EVERY_RIGHT, False) for rule in rules)
    return has_every_right and not any(rule.deny for rule in rules)
