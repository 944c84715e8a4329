"""The list of all peers, in the order in which they are measured.

Peers that sync each message to the disk before they acknowledge it are measured last. Between two such peers, one
measurement of ledgermq with `flush = sync` is enough: both peers are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bench.peers.etcd import EtcdClient, EtcdServers
from bench.peers.installed import Installed
from bench.peers.kafka import AiokafkaClient, ConfluentClient, KafkaServers
from bench.peers.ledgermq import LedgermqClient, LedgermqServers
from bench.peers.nats import NatsClient, NatsServers
from bench.peers.peer import PeerClient, Servers
from bench.peers.rabbitmq import RabbitmqClient, RabbitmqServers
from bench.peers.rocketmq import RocketmqClient, RocketmqServers
from bench.peers.rounds import Driven


@dataclass(frozen=True, slots=True)
class Peer:
    """One message system that is measured. `name` is the value for the option `--peers`."""

    name: str
    title: str
    servers: Callable[[Installed], Servers]
    clients: dict[str, type[PeerClient]]

    @property
    def driven(self) -> list[Driven]:
        return [Driven(name, f"{kind.__module__}:{kind.__name__}") for name, kind in self.clients.items()]


def ours(flush: Literal["async", "sync"]) -> Peer:
    """Return ledgermq, with the given flush mode, as one of the measured systems."""
    title = f"ledgermq, flush = {flush}"
    return Peer("ledgermq", title, lambda _: LedgermqServers(flush), {"ledgermq": LedgermqClient})


_KAFKA_CLIENTS: dict[str, type[PeerClient]] = {"confluent-kafka": ConfluentClient, "aiokafka": AiokafkaClient}
PEERS = [
    Peer("nats", "NATS JetStream", NatsServers, {"nats-py": NatsClient}),
    Peer("kafka", "Kafka", KafkaServers, _KAFKA_CLIENTS),
    Peer("rocketmq", "RocketMQ", RocketmqServers, {"rocketmq-python-client": RocketmqClient}),
    Peer("kafka-flushed", "Kafka, flush.messages=1", partial(KafkaServers, flushes_each=True), _KAFKA_CLIENTS),
    Peer("rabbitmq", "RabbitMQ, quorum queue", RabbitmqServers, {"aio-pika": RabbitmqClient}),
    Peer("etcd", "etcd", EtcdServers, {"aetcd": EtcdClient}),
]
