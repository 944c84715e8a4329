"""Attacks two clusters and a name server with hostile calls beside an acknowledged load. After the attack, all
processes run, no memory is kept, the logs are whole and equal, and every acknowledged message is there once. In the
cluster with authentication, nothing has changed that the callers lacked the right for.

FUZZ_SECONDS is the length of the attacks, and FUZZ_SEED their seed. The calls of one seed are the same in every run;
their order is not. FUZZ_REPLAY names a file of defects, whose calls are sent again instead of random ones.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from cluster.local.processes import DevCluster
from ledger.client.connection.security import SecurityOptions
from ledger.v1 import consumer_group_pb2, transaction_pb2
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.ports import free_base_port
from tests.cluster.scram_client import Metadata, prove, prove_by_token
from tests.cluster.secured import PASSWORD
from tests.cluster.waiter import eventually
from tests.fuzz.attack import Attack
from tests.fuzz.callers import POWERLESS_MAY, STRANGERS_MAY, Caller
from tests.fuzz.defects import read_defects
from tests.fuzz.harness import NODES, SECONDS, SEED, Load, assert_unharmed, attack, batch_for, flood, judge
from tests.fuzz.hostile_values import Plausible
from tests.fuzz.http_attack import HttpAttack
from tests.fuzz.methods import methods, name_server_methods, path_of, rocketmq_methods
from tests.fuzz.name_server import name_server, routes_of
from tests.fuzz.rocketmq_callers import Vault, front_callers
from tests.fuzz.telemetry_attack import KEPT_BYTES, TelemetryAttack

REPLAY = os.environ.get("FUZZ_REPLAY", "")
# A caller of its own has connections of its own.
OWN_CONNECTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
TOKEN_MS = 5_000
# The filter of the shared group that is attacked. Some calls have parts of it, or other texts.
FILTER = "price > 10 OR TAGS IN ('a', 'b') AND NOT note CONTAINS 'x'"

pytestmark = [pytest.mark.real, pytest.mark.timeout(SECONDS + 240)]


def open_plain(address: str) -> aio.Channel:
    return aio.insecure_channel(address, options=OWN_CONNECTIONS)


def plausible_values(attacked: int, others: Sequence[int], load: int) -> Plausible:
    """Return values that mean something, without those that mean the load."""
    numbers = {0, 1, 3, 4, 1000, 5000, attacked, *others} - {load}
    texts = ["prey", "billing", "work", "dev", "member", "powerless", FILTER, FILTER[:-1], "(" * 4_000, "NOT " * 1_000]
    return Plausible(sorted(numbers), texts, [b"", batch_for(attacked)], openings_for(attacked))


def openings_for(topic_id: int) -> dict[str, bytes]:
    """Return requests that open the streams of the shared group `work` and of the producer group `billing`."""
    topic = consumer_group_pb2.SharedTopic(topic_id=topic_id, start_offset=-1, filter=FILTER)
    opening = consumer_group_pb2.ShareOpening(consumer_group="work", member="member", topics=[topic])
    return {
        "/ledger.v1.ConsumerGroups/Share": consumer_group_pb2.ShareRequest(
            number=1, opening=opening
        ).SerializeToString(),
        "/ledger.v1.Transactions/CheckTransactions": transaction_pb2.CheckAnswer(
            producer_group="billing"
        ).SerializeToString(),
    }


async def prepare_prey(bootstrap: str, admin: AsyncAdmin, options: SecurityOptions | None = None) -> int:
    """Create what is attacked: a topic with messages, a shared group, and a transaction that is open. Return the id of
    the topic."""
    topic_id = (await admin.create_topic("prey", 4)).topic_id
    await admin.create_consumer_group("work", mode="shared")
    async with AsyncProducer(bootstrap, **(options or {})) as producer:
        await producer.send_many("prey", [b"one"] * 100)
        await producer.transaction("prey", group="billing").send(b"open")
    return topic_id


async def strike(
    cluster: str,
    attacks: Sequence[Attack | HttpAttack | TelemetryAttack],
    pids: Sequence[int | None],
    share: float,
    more_bytes: int = 0,
) -> None:
    """Attack for a share of the time, or send the calls of the defects again."""
    if not REPLAY:
        await attack(pids, [each.run() for each in attacks], share * SECONDS, more_bytes)
        return
    for each in attacks:
        if isinstance(each, Attack):
            await each.replay(read_defects(Path(REPLAY), cluster))


def called_by(*attacks: tuple[Caller, Sequence[Any]]) -> set[tuple[str, str]]:
    return set() if REPLAY else {(caller.name, path_of(method)) for caller, targets in attacks for method in targets}


# -- a cluster without authentication, whose nodes prove themselves by the cluster secret, and a name server


async def attack_open(cluster: DevCluster, names: str, name_server_pid: int, load: Load) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        load_id = (await admin.create_topic("load", 4)).topic_id
        prey = await prepare_prey(cluster.bootstrap, admin)

    async def all_registered() -> bool:
        return len(await routes_of(names)) == NODES

    await eventually(all_registered, "the name server knows the nodes")
    registered = await routes_of(names)
    values = plausible_values(prey, [], load_id)
    nodes = [cluster.node(number) for number in range(1, NODES + 1)]
    async with AsyncExitStack() as stack:
        client = Caller("client", open_plain, cluster.bootstrap.split(","))
        stranger = Caller("stranger of the name server", open_plain, [names], may={"/ledger.v1.Broker/GetRoute"})
        rocketmq = Caller(
            "rocketmq client",
            open_plain,
            [node.rocketmq for node in nodes],
            metadata=(("x-mq-client-id", "fuzz"), ("x-mq-language", "PYTHON")),
        )
        for caller in (client, stranger, rocketmq):
            await caller.connect(stack)
        attacks: list[Attack | HttpAttack | TelemetryAttack] = [
            Attack(SEED, "open", [client], methods(), values),
            Attack(f"{SEED}/names", "open", [stranger], name_server_methods(), values),
            Attack(f"{SEED}/rocketmq", "open", [rocketmq], rocketmq_methods(), values),
            HttpAttack(SEED, "open", [node.http for node in nodes]),
        ]
        async with load:
            await strike("open", attacks, [*(node.pid for node in nodes), name_server_pid], 0.4)
    assert await routes_of(names) == registered, "the name server names the same nodes"
    targets = ((client, methods()), (stranger, name_server_methods()), (rocketmq, rocketmq_methods()))
    judge(attacks, called_by(*targets))


def test_hostile_calls_harm_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, history = DevCluster(tmp_path / "cluster"), tmp_path / "history.jsonl"
    base_port = free_base_port(NODES + 1)
    names = f"127.0.0.1:{base_port + 3 * NODES}"
    monkeypatch.setenv("LEDGERMQ_NAMESERVERS", names)
    pids = [state.pid for state in cluster.start(NODES, base_port=base_port, shards=2)]
    load = Load(cluster, history)
    output = tmp_path / "name_server.log"
    try:
        with name_server(names, cluster.credentials.directory / "cluster.secret", output) as process:
            asyncio.run(attack_open(cluster, names, process.pid, load))
            assert process.poll() is None, "the name server ended"
        assert [state.pid for state in cluster.status()] == pids, "a node ended"
    finally:
        cluster.stop()
    assert "Traceback" not in output.read_text()
    assert_unharmed(cluster, history, load.acknowledged)


# -- a cluster with TLS and authentication


async def rights_of(admin: AsyncAdmin, vault: int) -> dict[str, Any]:
    """Return what no caller without the rights of an administrator may change."""
    topics = [(each.name, each.topic_id, each.queues) for each in await admin.list_topics()]
    members = await admin.members()
    return {
        "topics": [topic for topic in topics if not topic[0].startswith("%")],
        "users": [user.name for user in await admin.list_users()],
        "rules": await admin.list_rules(),
        "groups": [group.name for group in await admin.list_consumer_groups() if group.name not in ("billing", "work")],
        "members": sorted((member.node, member.address) for member in members.members),
        "shards": await admin.shards(),
        "holds": await admin.log_holds(),
        "messages of the vault": await admin.offsets_for_times({("vault", 0): 1 << 60}),
    }


class Secured:
    """The secured cluster, its users, and the callers that attack it."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.ca = (cluster.credentials.directory / "ca.pem").read_bytes()
        self.addresses = cluster.bootstrap.split(",")
        self._password = cluster.credentials.password.read_text().strip()

    def open(self, address: str) -> aio.Channel:
        return aio.secure_channel(address, grpc.ssl_channel_credentials(self.ca), options=OWN_CONNECTIONS)

    async def prove_administrator(self, channel: aio.Channel) -> Metadata:
        return await prove(channel, "admin", self._password)

    async def callers(self, admin: AsyncAdmin, prey: int, stack: AsyncExitStack) -> list[Caller]:
        """Return connected callers, none of whom may do more than a little."""
        for name in ("powerless", "limited", "gone"):
            await admin.add_user(name, PASSWORD)
        for action, resource in (
            ("publish", "topic:prey"),
            ("subscribe", "topic:prey"),
            ("subscribe", "group:billing"),
            ("subscribe", "group:work"),
        ):
            await admin.grant("limited", action, resource)
        await admin.grant("gone", "all", "*")
        token = await admin.delegate_token([("administer", "cluster")], TOKEN_MS)
        until = time.monotonic() + TOKEN_MS / 1000
        elsewhere = await stack.enter_async_context(self.open(self.addresses[0]))
        stolen = await self.prove_administrator(elsewhere)
        make = partial(Caller, open_channel=self.open, addresses=self.addresses)
        callers = [
            make("stranger", may=STRANGERS_MAY, reads=()),
            make("thief", may=STRANGERS_MAY, reads=(), metadata=stolen),
            make("removed", may=STRANGERS_MAY, reads=(), prove=lambda channel: prove(channel, "gone", PASSWORD)),
            make("expired", may=STRANGERS_MAY, reads=(), prove=lambda channel: prove_by_token(channel, token.token)),
            make("powerless", may=POWERLESS_MAY, reads=(), prove=lambda channel: prove(channel, "powerless", PASSWORD)),
            make("limited", reads=(prey,), prove=lambda channel: prove(channel, "limited", PASSWORD)),
        ]
        for caller in sorted(callers, key=lambda caller: caller.name != "expired"):
            await caller.connect(stack)
        await admin.remove_user("gone")
        await asyncio.sleep(max(0.0, until + 0.5 - time.monotonic()))
        return callers


async def attack_secured(cluster: DevCluster, load: Load) -> None:
    secured = Secured(cluster)
    async with AsyncAdmin(cluster.bootstrap, **cluster.client_options) as admin, AsyncExitStack() as stack:
        load_id = (await admin.create_topic("load", 4)).topic_id
        prey = await prepare_prey(cluster.bootstrap, admin, cluster.client_options)
        vault = (await admin.create_topic("vault", 1)).topic_id
        async with AsyncProducer(cluster.bootstrap, **cluster.client_options) as producer:
            await producer.send_many("vault", [b"gold"] * 3)
        callers = await secured.callers(admin, prey, stack)
        values = plausible_values(prey, [vault], load_id)
        nodes = [cluster.node(number) for number in range(1, NODES + 1)]
        fronts = [node.rocketmq for node in nodes]
        kept = await Vault.filled(admin, fronts[0], secured.ca)
        clients = await front_callers(admin, secured.open, fronts)
        for client in clients:
            await client.connect(stack)
        of_fronts = replace(values, texts=[*values.texts, "vault", "keepers", *kept.handles])
        pids = [node.pid for node in nodes]
        without_rights = Attack(SEED, "secured", callers, methods(), values)
        tls = ssl.create_default_context(cadata=secured.ca.decode())
        over_http = HttpAttack(SEED, "secured", [node.http for node in nodes], tls)
        over_rocketmq = Attack(f"{SEED}/rocketmq", "secured", clients, rocketmq_methods(), of_fronts)
        telemetry = TelemetryAttack("secured", clients)
        before = await rights_of(admin, vault)
        async with load:
            # For its first clients and streams a front takes memory that it keeps. For later ones it keeps no more.
            await flood([over_rocketmq.run(), telemetry.run()], 0 if REPLAY else 0.15 * SECONDS)
            await strike("secured", [without_rights, over_http, over_rocketmq], pids, 0.35)
            await strike("secured", [telemetry], pids, 0.1, KEPT_BYTES)
            await kept.check(admin)
            assert await rights_of(admin, vault) == before, "a caller without the right changed something"
            administrator = Caller("administrator", secured.open, secured.addresses, prove=secured.prove_administrator)
            await administrator.connect(stack)
            with_rights = Attack(f"{SEED}/administrator", "secured", [administrator], methods(), values)
            await strike("secured", [with_rights], pids, 0.25)
    judge(
        [without_rights, with_rights, over_http, over_rocketmq, telemetry],
        called_by(
            (callers[0], methods()),
            (callers[4], methods()),
            (administrator, methods()),
            *((client, rocketmq_methods()) for client in clients),
        ),
    )


def test_callers_change_only_what_they_may(tmp_path: Path) -> None:
    cluster, history = DevCluster(tmp_path / "cluster"), tmp_path / "history.jsonl"
    states = cluster.start(NODES, base_port=free_base_port(NODES), shards=2, secure=True)
    load = Load(cluster, history)
    try:
        asyncio.run(attack_secured(cluster, load))
        assert [state.pid for state in cluster.status()] == [state.pid for state in states], "a node ended"
    finally:
        cluster.stop()
    assert_unharmed(cluster, history, load.acknowledged)
