"""Users, rules and delegated tokens in the state of shard 0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.access.password import Verifier
from ledger.access.rules import Rule
from ledger.errors import InvalidArgumentError, UnknownUserError, UserExistsError
from ledger.state import State
from ledger.state.access_table import MAX_DELEGATED_TOKENS, MAX_TOKENS_OF_A_USER
from ledger.state.command_checks import MAX_RULES_OF_A_TOKEN
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    AddUser,
    BeginAccess,
    Command,
    DelegateToken,
    ForgetHolds,
    GrantRules,
    RaiseFeatureLevel,
    RemoveUser,
    RevokeRules,
    RotateUser,
    SetRocketmqSecret,
)
from ledger.state.encoding import VERSION_2

NOW_MS = 1_700_000_000_000
VERIFIER = Verifier(b"0123456789abcdef", 20_000, b"k" * 32, b"s" * 32)
OTHER = Verifier(b"fedcba9876543210", 20_000, b"l" * 32, b"t" * 32)
ORDERS = Rule("alice", "publish", "topic:orders-*")


class Shard0:
    """A state, and the index of the next entry."""

    def __init__(self, *commands: Command, level: int = 2) -> None:
        self.state = State()
        self.index = 0
        self.now_ms = NOW_MS
        if level:
            self.apply(RaiseFeatureLevel(level))
        for command in commands:
            assert not isinstance(self.apply(command), Exception)

    def apply(self, command: Command) -> object:
        self.index += 1
        return self.state.apply_command(encode_command(command), self.now_ms, index=self.index)


@pytest.fixture
def shard() -> Shard0:
    return Shard0(BeginAccess("root", VERIFIER, b"x" * 32), AddUser("alice", VERIFIER))


def test_the_first_administrator_is_made_once(shard: Shard0) -> None:
    access = shard.state.access
    assert access.rules("root") == [Rule("root", "all", "*")]
    shard.apply(AddUser("second", VERIFIER))
    shard.apply(GrantRules((Rule("second", "all", "*"),)))
    shard.apply(RemoveUser("root"))
    before = shard.state.digest()
    assert isinstance(shard.apply(BeginAccess("root", VERIFIER, b"y" * 32)), UserExistsError)
    assert shard.state.digest() == before, "a bootstrap file cannot bring back an administrator that was removed"


def test_a_user_is_added_once_and_rotated_after(shard: Shard0) -> None:
    assert isinstance(shard.apply(AddUser("alice", OTHER)), UserExistsError)
    since = shard.state.access.users["alice"].since
    assert shard.apply(RotateUser("alice", OTHER)) is None
    assert shard.state.access.users["alice"].since == shard.index > since
    assert shard.state.access.users["alice"].verifier == OTHER
    assert isinstance(shard.apply(RotateUser("bob", OTHER)), UnknownUserError)


def test_rules_are_granted_and_revoked(shard: Shard0) -> None:
    shard.apply(GrantRules((ORDERS, ORDERS)))
    assert shard.state.access.rules("alice") == [ORDERS]
    assert shard.apply(RevokeRules((ORDERS, Rule("alice", "subscribe", "topic:x")))) == 1
    assert shard.state.access.rules("alice") == []
    assert isinstance(shard.apply(GrantRules((Rule("bob", "all", "*"),))), UnknownUserError)


@pytest.mark.parametrize(
    "command",
    [
        RemoveUser("root"),
        RevokeRules((Rule("root", "all", "*"),)),
        GrantRules((Rule("root", "publish", "topic:orders", deny=True),)),
    ],
    ids=lambda command: type(command).__name__,
)
def test_the_last_administrator_stays(shard: Shard0, command: Command) -> None:
    before = shard.state.digest()
    refused = shard.apply(command)
    assert isinstance(refused, InvalidArgumentError)
    assert "no administrator" in str(refused)
    assert shard.state.digest() == before


def test_a_removed_user_leaves_nothing_behind(shard: Shard0) -> None:
    shard.apply(GrantRules((ORDERS,)))
    shard.apply(DelegateToken(b"d" * 32, "alice", (ORDERS,), 60_000))
    shard.apply(RemoveUser("alice"))
    shard.apply(AddUser("alice", VERIFIER))
    assert shard.state.access.rules("alice") == []
    assert shard.state.access.tokens == {}


def test_a_rotation_ends_delegated_tokens(shard: Shard0) -> None:
    shard.apply(DelegateToken(b"d" * 32, "alice", (ORDERS,), 60_000))
    shard.apply(RotateUser("alice", OTHER))
    assert shard.state.access.tokens == {}


def test_a_token_expires_by_append_times(shard: Shard0) -> None:
    shard.apply(DelegateToken(b"d" * 32, "alice", (ORDERS,), 60_000))
    shard.apply(DelegateToken(b"e" * 32, "alice", (ORDERS,), 90_000))
    shard.now_ms += 60_000
    shard.apply(ForgetHolds())
    shard.apply(AddUser("bob", None))
    assert list(shard.state.access.tokens) == [b"e" * 32]


@pytest.mark.long
def test_tokens_have_a_limit(shard: Shard0) -> None:
    users = [f"user-{number}" for number in range(MAX_DELEGATED_TOKENS // MAX_TOKENS_OF_A_USER)]
    for number, user in enumerate(users):
        shard.apply(AddUser(user, VERIFIER))
        for token in range(MAX_TOKENS_OF_A_USER):
            digest = (number * MAX_TOKENS_OF_A_USER + token).to_bytes(32, "big")
            shard.apply(DelegateToken(digest, user, (Rule(user, "publish", "topic:a"),), 60_000))
    assert len(shard.state.access.tokens) == MAX_DELEGATED_TOKENS
    assert isinstance(shard.apply(DelegateToken(b"d" * 32, "alice", (ORDERS,), 60_000)), InvalidArgumentError)


def test_a_user_cannot_take_the_tokens_of_all_users(shard: Shard0) -> None:
    for number in range(MAX_TOKENS_OF_A_USER + 1):
        refused = shard.apply(DelegateToken(number.to_bytes(32, "big"), "alice", (ORDERS,), 60_000))
    assert isinstance(refused, InvalidArgumentError)
    assert len(shard.state.access.tokens) == MAX_TOKENS_OF_A_USER


def test_a_token_has_few_rules(shard: Shard0) -> None:
    rules = tuple(Rule("alice", "publish", f"topic:t{number}") for number in range(MAX_RULES_OF_A_TOKEN + 1))
    assert isinstance(shard.apply(DelegateToken(b"d" * 32, "alice", rules, 60_000)), InvalidArgumentError)
    assert not isinstance(shard.apply(DelegateToken(b"d" * 32, "alice", rules[1:], 60_000)), InvalidArgumentError)


def test_before_level_2_there_are_no_users() -> None:
    shard = Shard0(level=1)
    before = shard.state.digest()
    assert isinstance(shard.apply(BeginAccess("root", VERIFIER, b"x" * 32)), InvalidArgumentError)
    assert shard.state.digest() == before


def test_a_snapshot_has_users_rules_and_tokens(shard: Shard0) -> None:
    shard.apply(GrantRules((ORDERS, Rule("alice", "subscribe", "*", deny=True))))
    shard.apply(AddUser("certificate-only", None))
    shard.apply(DelegateToken(b"d" * 32, "alice", (ORDERS,), 60_000))
    data = shard.state.encode()
    assert data[4] == VERSION_2
    decoded = State.decode(data)
    assert decoded.digest() == shard.state.digest()
    assert decoded.access.users == shard.state.access.users
    assert list(decoded.access.all_rules()) == list(shard.state.access.all_rules())
    assert decoded.access.tokens == shard.state.access.tokens
    assert decoded.access.has_begun
    assert decoded.access.salt_key == b"x" * 32


def test_no_secret_in_a_text(shard: Shard0) -> None:
    assert "kkkk" not in repr(shard.state.access.users["alice"])


USERS = st.sampled_from(["root", "alice", "bob", "", "a b", "x" * 128])
VERIFIERS = st.builds(
    Verifier, st.binary(max_size=70), st.integers(0, (1 << 32) - 1), st.binary(max_size=33), st.binary(max_size=33)
) | st.just(VERIFIER)
RULES = st.lists(
    st.builds(
        Rule,
        USERS,
        st.sampled_from(["publish", "all", "", "x"]),
        st.sampled_from(["*", "topic:a*", "cluster", "topic:", "é"]),
        st.booleans(),
    ),
    max_size=3,
).map(tuple)
COMMANDS = (
    st.builds(BeginAccess, USERS, VERIFIERS, st.binary(max_size=33) | st.just(b"x" * 32))
    | st.builds(AddUser, USERS, st.none() | VERIFIERS)
    | st.builds(RotateUser, USERS, st.none() | VERIFIERS)
    | st.builds(RemoveUser, USERS)
    | st.builds(GrantRules, RULES)
    | st.builds(RevokeRules, RULES)
    | st.builds(DelegateToken, st.just(b"d" * 32) | st.binary(max_size=33), USERS, RULES, st.integers(0, 1 << 40))
    | st.builds(SetRocketmqSecret, USERS, st.binary(max_size=300))
)


def test_a_rocketmq_secret_is_replaced_removed_and_ended_by_a_new_password(shard: Shard0) -> None:
    access = shard.state.access
    for encrypted in (b"first", b"second", b"", b"third"):
        shard.apply(SetRocketmqSecret("alice", encrypted))
        assert access.users["alice"].rocketmq_secret == encrypted
        assert State.decode(shard.state.encode()).access.users["alice"].rocketmq_secret == encrypted
    assert "third" not in repr(access.users["alice"])
    shard.apply(RotateUser("alice", OTHER))
    assert access.users["alice"].rocketmq_secret == b""
    assert isinstance(shard.apply(SetRocketmqSecret("nobody", b"x")), UnknownUserError)
    assert isinstance(shard.apply(SetRocketmqSecret("alice", b"x" * 257)), InvalidArgumentError)


def test_a_rocketmq_secret_needs_feature_level_2() -> None:
    assert isinstance(Shard0(level=1).apply(SetRocketmqSecret("alice", b"x")), InvalidArgumentError)


@given(st.lists(COMMANDS, max_size=8))
def test_a_state_survives_every_command(commands: list[Command]) -> None:
    shard = Shard0()
    for command in commands:
        shard.apply(command)
    assert State.decode(shard.state.encode()).digest() == shard.state.digest()
