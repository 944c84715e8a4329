"""A cluster with TLS and authentication, and the user "alice", who may use one topic and some groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.local.processes import DevCluster
from ledgermq import Admin
from tests.cluster.ports import free_base_port

TOPIC, OTHER_TOPIC = "orders", "secrets"
# Alice may use each group whose name begins so.
GROUPS = "readers-"
# Java's client trusts every certificate, and each of the others reads another variable.
_TRUST = ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class SecuredTarget:
    cluster: DevCluster
    addresses: Sequence[str]
    access_key: str
    secret_key: str
    settle_s: float = 0.0

    @property
    def endpoints(self) -> str:
        return self.addresses[0]

    @property
    def ca(self) -> Path:
        return self.cluster.credentials.directory / "ca.pem"

    @property
    def trust(self) -> Mapping[str, str]:
        """The environment by which the programs trust the cluster's authority."""
        return dict.fromkeys(_TRUST, str(self.ca))

    def signed(self, secret_key: str = "") -> dict[str, Any]:
        """Return how a client connects as alice, with a wrong secret if there is one."""
        return {"tls": True, "access_key": self.access_key, "secret_key": secret_key or self.secret_key}


@contextmanager
def secured_target(directory: Path, *, queues: int = 1, shards: int = 1) -> Iterator[SecuredTarget]:
    """Run a secured cluster of three nodes."""
    cluster = DevCluster(directory)
    try:
        states = cluster.start(base_port=free_base_port(5), secure=True, shards=shards)
        with Admin(cluster.bootstrap, **cluster.client_options) as admin:
            for topic in (TOPIC, OTHER_TOPIC):
                admin.create_topic(topic, queues)
            admin.add_user("alice", "a password that no RocketMQ client uses")
            admin.grant("alice", "subscribe", f"topic:{TOPIC}")
            admin.grant("alice", "publish", f"topic:{TOPIC}")
            admin.grant("alice", "all", f"group:{GROUPS}*")
            secret = admin.make_rocketmq_secret("alice")
        yield SecuredTarget(cluster, [state.rocketmq for state in states], secret.access_key, secret.secret)
    finally:
        cluster.purge()
