"""The attackers of the RocketMQ ports of a secured cluster, and what they are not to touch.

An attacker also has handles of messages that other users and other groups hold. After the attack the messages are as
they were, which shows that nobody could use the handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import grpc
from grpc import aio

from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledgermq import AsyncAdmin
from tests.cluster.rocketmq_stubs import RawClient, resource, signed
from tests.cluster.scram_client import Metadata
from tests.cluster.secured import PASSWORD
from tests.fuzz.callers import Caller, OpenChannel, Prove

_SERVICE = "/apache.rocketmq.v2.MessagingService"
# What a user without rights may do: these methods give and change nothing but what the caller itself has told.
POWERLESS_FRONT_MAY = frozenset(f"{_SERVICE}/{name}" for name in ("Heartbeat", "Telemetry", "NotifyClientTermination"))
_HELD_S = 3_600.0
_LATER_MS = 12 * 3_600_000


def _as(client_id: str, headers: Sequence[tuple[str, str]] = ()) -> Metadata:
    return (("x-mq-client-id", client_id), ("x-mq-language", "JAVA"), *headers)


class Forger(Caller):
    """Forges the proof of a user anew for each call."""

    def __init__(self, user: str, secret: str, open_channel: OpenChannel, addresses: Sequence[str]) -> None:
        super().__init__("rocketmq forger", open_channel, addresses, may=frozenset(), reads=())
        self._user, self._secret = user, secret
        self._random = Random(1)

    def metadata(self, number: int) -> Metadata:
        return _as("forger", self._random.choice(self._forged()))

    def _forged(self) -> list[list[tuple[str, str]]]:
        now = datetime.now(UTC)
        old, early = (now + timedelta(minutes=minutes) for minutes in (-6, 6))
        (date, (name, right)) = signed(self._user, self._secret)
        parts = right.split(", ")
        return [
            signed(self._user, self._secret + "x"),
            signed("nobody", self._secret),
            signed("admin", self._secret),
            *(signed(self._user, self._secret, f"{at:%Y%m%dT%H%M%SZ}") for at in (old, early)),
            *(signed(self._user, self._secret, text) for text in ("now", "2026", "9" * 500, "99999999T999999Z")),
            [(name, right)],
            [date],
            [date, (name, right.removesuffix(parts[-1]) + "Signature=")],
            [date, (name, right + "00")],
            [date, (name, f"{right}, {parts[-1]}")],
            [date, (name, right.replace("x-mq-date-time", "x-mq-client-id"))],
            [date, (name, right.replace("MQv2-HMAC-SHA1", "Bearer"))],
            [date, (name, "MQv2-HMAC-SHA1 " + "Credential=a," * 300)],
            [(date[0], "20200101T000000Z"), date, (name, right), (name, "")],
        ]


async def front_callers(admin: AsyncAdmin, open_channel: OpenChannel, addresses: Sequence[str]) -> list[Caller]:
    """Return the attackers, which are not connected. Their users are their own: the other attackers may change the
    secrets of theirs."""
    secrets = {}
    for name in ("weak", "small", "former"):
        await admin.add_user(name, PASSWORD)
        secrets[name] = (await admin.make_rocketmq_secret(name)).secret
    for action, where in (("publish", "topic:prey"), ("subscribe", "topic:prey"), ("subscribe", "group:work")):
        await admin.grant("small", action, where)
    await admin.grant("former", "all", "*")
    await admin.remove_user("former")

    def signs(name: str) -> Prove:
        async def prove(_: aio.Channel) -> Metadata:
            return _as(name, signed(name, secrets[name]))

        return prove

    make = partial(Caller, open_channel=open_channel, addresses=addresses)
    return [
        make("rocketmq stranger", may=frozenset(), reads=(), metadata=_as("stranger")),
        make("rocketmq removed", may=frozenset(), reads=(), prove=signs("former")),
        make("rocketmq powerless", may=POWERLESS_FRONT_MAY, reads=(), prove=signs("weak")),
        make("rocketmq limited", reads=("prey",), prove=signs("small")),
        Forger("small", secrets["small"], open_channel, addresses),
    ]


class Vault:
    """A topic that only the user `keeper` may use: a message that it holds, one that waits, and an open transaction."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._held = self._waiting = self._open = ""

    @classmethod
    async def filled(cls, admin: AsyncAdmin, address: str, ca: bytes) -> Vault:
        await admin.add_user("keeper", PASSWORD)
        for action, where in (("all", "topic:vault"), ("all", "group:keepers"), ("all", "group:rocketmq.vault")):
            await admin.grant("keeper", action, where)
        secret = (await admin.make_rocketmq_secret("keeper")).secret
        credentials = grpc.ssl_channel_credentials(ca)
        vault = cls(RawClient(address, headers=signed("keeper", secret), credentials=credentials))
        await vault._fill()
        return vault

    @property
    def handles(self) -> list[str]:
        return [self._held, self._waiting, self._open]

    async def _fill(self) -> None:
        client = self._client
        (held,) = await client.some("keepers", "vault", 1, batch=1, invisible_s=_HELD_S)
        self._held = held.system_properties.receipt_handle
        at_ms = int(datetime.now(UTC).timestamp() * 1000) + _LATER_MS
        later = await client.sent("vault", b"later", message_type=pb.DELAY, deliver_at_ms=at_ms)
        self._waiting = later.recall_handle
        self._open = (await client.sent("vault", b"open", message_type=pb.TRANSACTION)).transaction_id

    async def check(self, admin: AsyncAdmin) -> None:
        """Fail if somebody has used a handle, and close the connection."""
        client, topic = self._client, resource("vault")
        assert await admin.waiting_message(self._waiting.partition(".")[0]), (
            "somebody has recalled a message of the vault"
        )
        changed = await client.invisible("keepers", "vault", self._held, _HELD_S)
        end = service_pb2.EndTransactionRequest(topic=topic, transaction_id=self._open, resolution=pb.ROLLBACK)
        ended = await client.call("EndTransaction", end)
        await client.channel.close()
        codes = [answer.status.code for answer in (changed, ended)]
        assert codes == [pb.OK] * 2, f"somebody has used a handle of the vault: {codes}"
