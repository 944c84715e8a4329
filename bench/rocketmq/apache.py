"""Apache's own RocketMQ servers on this machine, as the reference for tests and measurements.

    .venv/bin/python -m bench.rocketmq.apache     starts them, prints the addresses as JSON, and runs until Ctrl-C

The servers are those of `bench.peers.rocketmq`: a name server, three brokers that form one DLedger group, and one
proxy, which serves gRPC in plaintext and with TLS on one port. Topics and consumer groups are made by the requests of
`mqadmin`, sent to each broker, because DLedger does not replicate these settings.
"""

from __future__ import annotations

import json
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.peers.installed import Installed
from bench.peers.peer import PORTS
from bench.peers.processes import free_ports
from bench.peers.rocketmq import RocketmqServers, ask

Kind = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]
_QUEUES = 4
_READ_AND_WRITE = 6
_MAKE_TOPIC, _MAKE_GROUP = 17, 200


@dataclass(frozen=True, slots=True)
class ApacheCluster:
    """Running servers: the address of the proxy for clients, and those of the brokers."""

    endpoints: str
    brokers: tuple[str, ...]
    # The process ids of all servers, to measure their CPU time.
    pids: tuple[int, ...] = ()

    def make_topic(self, name: str, kind: Kind = "NORMAL", queues: int = _QUEUES) -> None:
        fields = {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": _READ_AND_WRITE,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": "false",
            "attributes": f"+message.type={kind}",
        }
        for broker in self.brokers:
            ask(broker, _MAKE_TOPIC, fields)

    def make_group(self, name: str, *, ordered: bool = False, retries: int = 16) -> None:
        """Make a consumer group. `ordered`: a queue is consumed in order. `retries`: how often a message is delivered
        again before it goes to the dead letters."""
        told = {
            "groupName": name,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": False,
            "consumeMessageOrderly": ordered,
            "retryQueueNums": 1,
            "retryMaxTimes": retries,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": True,
        }
        for broker in self.brokers:
            ask(broker, _MAKE_GROUP, {}, json.dumps(told).encode())


@contextmanager
def apache_cluster(directory: Path | None = None) -> Iterator[ApacheCluster]:
    """Run the servers, with their data below `directory` or a temporary directory. Raise PeerError."""
    servers = RocketmqServers(Installed())
    servers.install()
    with tempfile.TemporaryDirectory(prefix="apache-rocketmq-", dir=directory) as data:
        try:
            proxy, *brokers = servers.start(Path(data), free_ports(PORTS)).split(",")
            yield ApacheCluster(proxy, tuple(brokers), servers.pids)
        finally:
            servers.stop()


def main() -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with apache_cluster() as cluster:
        print(json.dumps({"endpoints": cluster.endpoints, "brokers": cluster.brokers}), flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
