"""A node in a container, for users of the library testcontainers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Self

from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer

from cluster.local.state import agree, observe
from cluster.testing.processes import ClusterError

IMAGE = "ledgermq:dev"
_PORT = 9871
_POLL_S = 0.1
# The address that clients outside use is known when the container runs, and the node needs it at its start.
_OUTSIDE = "/tmp/outside"
_PROGRAM = (
    f'until [ -s {_OUTSIDE} ]; do sleep 0.05; done; LEDGERMQ_OUTSIDE="$(cat {_OUTSIDE})" exec ledgermq server run'
)
_SETTINGS = {
    "LEDGERMQ_NODE": "1",
    "LEDGERMQ_CLUSTER": "test",
    "LEDGERMQ_DATA": "/var/lib/ledgermq/data",
    "LEDGERMQ_LISTEN": f"0.0.0.0:{_PORT}",
    "LEDGERMQ_HTTP": "0.0.0.0:9872",  # the health check of the image asks it
    "LEDGERMQ_INSECURE": "true",
    "LEDGERMQ_PEERS": f"1=localhost:{_PORT}",
    "LEDGERMQ_SEGMENT_BYTES": str(16 << 20),
    **dict.fromkeys((f"LEDGERMQ_DISK_{what}_RATIO" for what in ("CLEAN", "FORCE", "REFUSE")), "0"),
}


class LedgermqContainer(DockerContainer):
    """A node of ledgermq in a container: a cluster of one, without authentication.

        with LedgermqContainer() as ledgermq:
            producer = Producer(ledgermq.bootstrap)

    `make image` in a clone of the repository makes the image. The methods of `DockerContainer` add to the settings of
    the node, for example `.with_env("LEDGERMQ_RETRY_DELAYS_S", "0.1,1")`.
    """

    def __init__(self, image: str = IMAGE, *, start_timeout_s: float = 60.0, **kwargs: Any) -> None:
        """`kwargs` are those of `DockerContainer`. With an engine of this machine, the port is on the loopback
        interface only, because every program that reaches the port may do everything."""
        super().__init__(image, **kwargs)
        self._timeout_s = start_timeout_s
        self._address = ""

    @property
    def bootstrap(self) -> str:
        """The address of the node, for `bootstrap_servers` of the clients. Raises ClusterError before `start`."""
        if not self._address:
            raise ClusterError("the container has not been started: call `start` first, or use `with`")
        return self._address

    def start(self) -> Self:
        """Start the container. Return when clients can use the node.

        Raises ClusterError if the node does not become ready; the message has the end of its log."""
        mode = self.get_docker_client().get_connection_mode()
        is_local = mode is ConnectionMode.docker_host and self.get_docker_client().host() == "localhost"
        bound: Any = ("127.0.0.1",) if is_local else None
        self.ports[f"{_PORT}/tcp"] = bound
        for name, value in _SETTINGS.items():
            self.env.setdefault(name, value)
        self.with_kwargs(**{**self._kwargs, "entrypoint": ["tini", "--", "sh", "-c", _PROGRAM]})
        super().start()
        host = "127.0.0.1" if is_local else self.get_container_host_ip()
        self._address = f"{host}:{self.get_exposed_port(_PORT)}"
        self.exec(["sh", "-c", f"echo 1={self._address} >{_OUTSIDE}"])
        self._wait_ready()
        return self

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        container = self.get_wrapped_container()
        shards = int(self.env.get("LEDGERMQ_SHARDS", "1"))
        while True:
            container.reload()
            runs = container.status in ("created", "running")
            if runs and agree([observe(1, self.bootstrap, "", 1, Path())], shards):
                return
            if not runs or time.monotonic() >= deadline:
                end = container.logs(tail=15).decode(errors="replace")
                what = f"is not ready after {self._timeout_s:g} s" if runs else "has ended"
                raise ClusterError(f"the node in container {container.short_id} {what}. The end of its log:\n{end}")
            time.sleep(_POLL_S)
