"""Users and rights in the stack world: what the simulator knows from the log, and what it takes for a violation."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from chaos.sim.access.access_truth import AccessTruth, AccessVersion, KnownToken, KnownUser, permits
from chaos.sim.access.access_watch import AccessWatch
from chaos.sim.access.credentials import Credential, SimCredentials
from chaos.sim.access.password_rounds import remembered_rounds
from chaos.sim.access.sim_access import ADMINISTRATOR, PROBE
from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.engine.rpc_server import AbortError
from ledger.access.password import make_verifier
from ledger.access.rules import Action, Resource, Rule
from ledger.broker.access.proofs import digest_of
from ledger.state import State
from ledger.state.command_encoding import encode_command
from ledger.state.commands import AddUser, BeginAccess, Command, GrantRules, RaiseFeatureLevel, RemoveUser
from ledger.v1 import consumer_group_pb2 as group_pb2
from ledger.v1 import error_pb2
from ledger.v1 import transaction_pb2 as pb2
from store import EntryKind
from tests.chaos.sim.conftest import NewStackWorld

ORDERS = Resource("topic", "orders")
SETTLE_MS = 40_000
ALLOWS, DENIES = ("publish", "topic:*", False), ("all", "topic:orders", True)


class Entry:
    """The header of an entry of shard 0, as far as the truth reads it."""

    kind, append_time_ms = EntryKind.COMMAND, 5_000

    def __init__(self, index: int) -> None:
        self.index = index


class Log:
    """A log of shard 0 that one node applies."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.truth = AccessTruth(lambda invariant, what: self.violations.append(invariant), lambda: float(self.index))
        self.state = State()
        self.index = 0

    def append(self, command: Command, *, applied: bool = True) -> None:
        self.index += 1
        body, header = encode_command(command), Entry(self.index)
        if applied:
            self.state.apply_command(body, header.append_time_ms, index=self.index)
        followed: Any = header
        self.truth.applied(followed, body, self.state)


@pytest.fixture
def log() -> Log:
    log = Log()
    log.append(RaiseFeatureLevel(2))
    log.append(BeginAccess("admin", make_verifier("the first password"), bytes(32)))
    log.append(AddUser("alice", make_verifier("alice's password")))
    log.append(GrantRules((Rule("alice", "publish", "topic:orders"),)))
    return log


def test_the_truth_follows_the_log(log: Log) -> None:
    alice = Credential("alice", "alice's password")
    assert log.violations == []
    assert log.truth.newest.allows(alice, "publish", ORDERS, 0)
    assert not log.truth.newest.allows(alice, "subscribe", ORDERS, 0)
    assert not log.truth.newest.allows(Credential("alice", "another password"), "publish", ORDERS, 0)
    log.append(RemoveUser("admin"))  # refused: the last administrator
    assert "admin" in log.truth.newest.users
    log.append(RemoveUser("alice"))
    assert not log.truth.newest.allows(alice, "publish", ORDERS, 0)
    assert any(version.allows(alice, "publish", ORDERS, 0) for version in log.truth.since(4.0))
    assert log.violations == []


def test_a_node_with_other_users_than_the_log_is_noticed(log: Log) -> None:
    log.append(RemoveUser("alice"), applied=False)
    assert log.violations == ["rights are what the log says"]


def test_a_rule_that_denies_wins() -> None:
    assert permits([ALLOWS], "publish", ORDERS)
    assert not permits([ALLOWS, DENIES], "publish", ORDERS)
    assert not permits([], "publish", ORDERS)


def test_a_token_counts_until_it_expires() -> None:
    user = KnownUser(3, b"", b"", 1, frozenset({ALLOWS}))
    token = KnownToken("alice", 3, frozenset({ALLOWS}), 10_000)
    version = AccessVersion(users={"alice": user}, tokens={digest_of("secret"): token})
    held = Credential("alice", token="secret")
    assert version.allows(held, "publish", ORDERS, 9_999)
    assert not version.allows(held, "publish", ORDERS, 10_000)


def test_the_rounds_of_a_password_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[bytes] = []
    compute = hashlib.pbkdf2_hmac

    def count(name: str, password: bytes, salt: bytes, rounds: int) -> bytes:
        computed.append(password)
        return compute(name, password, salt, rounds)

    monkeypatch.setattr("chaos.sim.access.password_rounds._remembered", lru_cache(count))
    with remembered_rounds():
        first, again = (make_verifier("a password", lambda size: bytes(size)) for _ in range(2))
        other = make_verifier("another password", lambda size: bytes(size))
    assert first == again == make_verifier("a password", lambda size: bytes(size))
    assert other != first
    assert computed == [b"a password", b"another password"]
    assert hashlib.pbkdf2_hmac is compute


def test_seeds_draw_both_kinds_of_runs() -> None:
    drawn = [draw(seed, Wishes(world="stack")) for seed in range(1, 101)]
    assert 20 < sum(options.authentication for options in drawn) < 50
    assert 10 < sum(bool(options.old_programs) for options in drawn) < 50
    assert not any(options.authentication and options.old_programs for options in drawn)
    assert {level for options in drawn for _, (level, _) in options.old_programs} == {0, 1, 2}
    assert not any(draw(seed, Wishes(world="stack", faults=())).old_programs for seed in range(1, 101))


class Rim:
    """A node that serves calls of alice as client 7, without a look at her rights, and the watch of its calls."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.response: Any = None
        credentials = {7: SimCredentials(Credential("alice", "alice's password"))}
        self._watch = AccessWatch(log.truth, credentials, log.truth._fail, lambda: float(log.index))
        replica = SimpleNamespace(driver=SimpleNamespace(applied=log.index), state=SimpleNamespace(topics=TOPICS))
        node: Any = SimpleNamespace(node=1, now_ms=lambda: 0, part=lambda shard: SimpleNamespace(replica=replica))
        self._node = node

    async def serve(self, method: str, request: Any, response: Any) -> list[str]:
        """Let the node answer a request with this response. Return what is wrong."""
        requests, context = [request], SimpleNamespace(caller=7)

        async def read() -> Any:
            return requests.pop()

        async def write(response: Any) -> None:
            pass

        async def stream(_: Any, context: Any) -> None:
            await context.read()
            await context.write(response)

        async def call(_: Any, context: Any) -> Any:
            return response

        context.read, context.write = read, write
        handler: Any = call if method == "EndTransactions" else stream
        watched: Any = self._watch.watched(self._node, method, handler)
        await watched(request, context)
        return self.log.violations


TOPICS = {1: SimpleNamespace(name="orders")}
NO_RIGHT = ["no right, no service", "old rules count for a limited time"]
ENDS = pb2.EndTransactionsRequest(ends=[pb2.TransactionEnd(topic_id=1)])
ENDED = pb2.EndTransactionsResponse(results=[pb2.TransactionEnded()])
REFUSED = pb2.EndTransactionsResponse(results=[pb2.TransactionEnded(error=error_pb2.Error(message="no"))])
OPENS = group_pb2.ShareRequest(number=4, opening=group_pb2.ShareOpening(consumer_group="g"))
GETS = group_pb2.ShareResponse(number=4, batches=[group_pb2.SharedBatch(topic_id=1)])
GETS_NOTHING = group_pb2.ShareResponse(number=4, has_received=True, changed=[0])
CHANGES = group_pb2.ShareResponse(number=4, has_changed=True, changed=[0, 1])
BEGINS, ASKED = pb2.CheckAnswer(producer_group="g"), pb2.TransactionCheck(topic_id=1)
CLOSED = pb2.TransactionCheck(error=error_pb2.Error(message="no"))


@pytest.mark.parametrize(
    ("method", "request_", "response", "rules", "wrong"),
    [
        ("EndTransactions", ENDS, ENDED, [("publish", "topic:orders")], []),
        ("EndTransactions", ENDS, ENDED, [("subscribe", "topic:orders")], NO_RIGHT),
        ("EndTransactions", ENDS, REFUSED, [], []),
        ("Share", OPENS, GETS, [("subscribe", "topic:orders"), ("subscribe", "group:g")], []),
        ("Share", OPENS, GETS, [("subscribe", "topic:orders")], NO_RIGHT),
        ("Share", OPENS, GETS, [("subscribe", "group:g")], NO_RIGHT),
        ("Share", OPENS, CHANGES, [("subscribe", "group:g")], []),
        ("Share", OPENS, CHANGES, [], NO_RIGHT),
        ("Share", OPENS, GETS_NOTHING, [], []),
        ("CheckTransactions", BEGINS, ASKED, [("publish", "topic:orders"), ("subscribe", "group:g")], []),
        ("CheckTransactions", BEGINS, ASKED, [("publish", "topic:orders")], NO_RIGHT),
        ("CheckTransactions", BEGINS, ASKED, [("subscribe", "group:g")], NO_RIGHT),
        ("CheckTransactions", BEGINS, CLOSED, [], []),
    ],
)
async def test_what_a_node_serves_without_a_right_is_noticed(
    method: str, request_: Any, response: Any, rules: list[tuple[Action, str]], wrong: list[str]
) -> None:
    log = Log()
    log.append(RaiseFeatureLevel(2))
    log.append(BeginAccess("admin", make_verifier("the first password"), bytes(32)))
    log.append(AddUser("alice", make_verifier("alice's password")))
    log.append(GrantRules(tuple(Rule("alice", action, resource) for action, resource in rules)))
    assert await Rim(log).serve(method, request_, response) == wrong


@pytest.mark.parametrize(("members", "wrong"), [((1, 2), ["nodes serve nodes"]), ((2, 3), [])])
async def test_only_a_node_that_was_removed_may_be_refused(members: tuple[int, ...], wrong: list[str]) -> None:
    log = Log()
    watch = AccessWatch(log.truth, {}, log.truth._fail, lambda: 0.0)
    known = SimpleNamespace(members=members)
    replica = SimpleNamespace(membership=SimpleNamespace(configuration=known), newest_configuration=lambda: known)
    node: Any = SimpleNamespace(node=2, part=lambda shard: SimpleNamespace(replica=replica))

    async def refuse(_: Any, context: Any) -> None:
        raise AbortError(grpc.StatusCode.PERMISSION_DENIED, "only nodes of this cluster may call FindHalves")

    context: Any = SimpleNamespace(caller=1)
    with pytest.raises(AbortError):
        await watch.watched(node, "FindHalves", refuse)(None, context)
    assert log.violations == wrong


@pytest.mark.long
def test_guests_take_part_in_transactions_and_in_the_shared_group() -> None:
    faults = ("leader_ends_in_transaction", "leader_ends_under_leases", "stale_rules")
    options = draw(5, Wishes(world="stack", faults=faults))
    assert options.authentication
    assert options.transaction_programs
    assert options.shared_members
    report = run(5, Wishes(world="stack", minutes=0.3, nodes=3, shards=1, faults=faults[:1] + faults[2:]))
    assert not report.violations
    assert not report.missing
    assert report.figures["judged_subscribe_group"] > 0


@pytest.mark.long
def test_rights_are_judged_in_a_run() -> None:
    report = run(1, Wishes(world="stack", minutes=0.3, faults=()))
    assert report.passed, report.reason
    assert report.figures["judged_publish"] > 0
    assert report.figures["judged_subscribe"] > 0


@pytest.mark.long
def test_after_the_end_of_the_faults_no_node_is_cut_off(new_world: NewStackWorld) -> None:
    seed = next(seed for seed in range(1, 20) if draw(seed, Wishes(world="stack", nodes=3)).authentication)
    world = new_world(draw(seed, Wishes(world="stack", nodes=3)))
    assert world.access is not None
    faults = world.access._faults
    mend = faults._cut_off(world.nodes()[0], world.nodes())
    assert world.network.is_cut(1, 2)
    mend()
    world.access.end()
    faults._cut_off(world.nodes()[0], world.nodes())  # by an administrator who had to wait for an answer
    assert not world.network.is_cut(1, 2)


@pytest.mark.long
def test_the_end_waits_for_a_new_password_that_is_on_its_way(new_world: NewStackWorld) -> None:
    drawn = draw(1, Wishes(world="stack", minutes=0.2, nodes=3, shards=1, faults=()))
    world = new_world(replace(drawn, authentication=True, sync=True, staged=False, flush_ms=10.0))
    world.start_workload()
    world.loop.run_until(world.options.duration_ms / 1000)
    world.stop_faults()
    access, network, nodes = world.access, world.network, [node.node for node in world.nodes()]
    assert access is not None
    of_administrator = network.isolate(ADMINISTRATOR, nodes)
    of_probe = network.isolate(PROBE, nodes)
    life = access._admin.process.life
    access._random.seed(2)  # the load gets the new password only after the cluster has it
    life.deliver(life.create_task, access._rotate_load())
    world.loop.call_later(5.0, network.mend_links, of_administrator)
    world.loop.call_later(15.0, network.mend_links, of_probe)
    assert world.settle(SETTLE_MS) == []
    assert world.happened["password of the load rotated"] == 1
    assert [str(violation) for violation in world.violations()] == []


@pytest.mark.long
def test_at_the_end_the_lender_proves_itself_with_a_password(new_world: NewStackWorld) -> None:
    world = new_world(
        replace(draw(1, Wishes(world="stack", minutes=0.1, nodes=1, shards=1, faults=())), authentication=True)
    )
    access = world.access
    assert access is not None
    access.guests[2].proves_with(Credential("lender", token="a token that has ended"))
    access.end()
    assert access.guests[2].credentials.now.password
