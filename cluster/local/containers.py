"""A local cluster of Docker containers; it keeps running when the program that started it ends.

A cluster of containers stores no file on this machine. Each container has the cluster's name and the node number as
labels, and the node's settings as environment variables. Later commands find the containers of the cluster by the
labels. The containers that docker-compose creates from docker-compose.yml have the same labels as the containers of
`ledgermq dev`.

    network  ledgermq-NAME
    node N   container and volume ledgermq-NAME-N, clients at localhost:PORT, HTTP at PORT + 1
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.types import Ulimit

from cluster.local.engine import IMAGE, EngineError, connect, need_image
from cluster.local.launcher import DEFAULT_NODES, leader_of, refuse_change, wait_ready
from cluster.local.plan import DevError
from cluster.local.ports import choose_ports, turn
from cluster.local.state import NodeState, observe

CLUSTER_LABEL = "ledgermq.cluster"
NODE_LABEL = "ledgermq.node"
COMPOSE_LABEL = "com.docker.compose.project"
HOST = "localhost"
PORT, HTTP_PORT = "9871/tcp", "9872/tcp"
_DATA = "/var/lib/ledgermq"
_SEGMENT_BYTES = 64 << 20
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30
_KILL_TIMEOUT_S = 30
_HTTP_TIMEOUT_S = 30
_PIECE = 1 << 20
_OPEN_FILES = 16_384
# The same limits as in docker-compose.yml.
_LIMITS = {
    "read_only": True,
    "tmpfs": {"/tmp": ""},
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "mem_limit": "1g",
}


class DockerCluster:
    """A cluster of Docker containers with the name `name`; the cluster may not exist yet. The class implements
    `Launcher`."""

    def __init__(self, name: str, image: str = IMAGE) -> None:
        self.name = name
        self._image = image
        try:
            self._engine = connect()
        except EngineError as error:
            raise DevError(str(error)) from error

    @property
    def exists(self) -> bool:
        return bool(self._containers())

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all nodes for clients on this machine, separated by commas."""
        return ",".join(_published(container, PORT) for container in self._containers().values())

    def start(
        self,
        nodes: int | None = None,
        *,
        base_port: int | None = None,
        flush: str | None = None,
        shards: int | None = None,
        timeout_s: float = _START_TIMEOUT_S,
    ) -> list[NodeState]:
        """Start every node that does not run. Wait until every node answers and follows one leader in each shard.

        An argument that is None stands for the value with which the cluster was created, or for the default of a
        new cluster. Raises DevError."""
        with turn():  # other programs see a port as used when its container has started
            containers = self._containers()
            if not containers:
                self._make(nodes or DEFAULT_NODES, base_port, flush or "async", shards or 1)
            else:
                wanted = {"nodes": nodes, "base_port": base_port, "flush": flush, "shards": shards}
                self._refuse_change(containers, wanted)
            for container in self._containers().values():
                self._start(container)
        return self._wait_ready(timeout_s)

    def status(self) -> list[NodeState]:
        """Return the present state of each node. Raises DevError if the cluster does not exist."""
        containers = self._containers()
        if not containers:
            raise DevError(
                f"there are no containers of a cluster {self.name!r}: create them with `ledgermq dev start --docker`"
            )
        with ThreadPoolExecutor(len(containers)) as pool:
            return list(pool.map(_observe, containers, containers.values()))

    def stop(self) -> int:
        """Stop all nodes with SIGTERM, and with SIGKILL if they still run after 30 s. Return the number of nodes
        that were running."""
        running = [container for container in self._containers().values() if container.status == "running"]
        if running:
            with ThreadPoolExecutor(len(running)) as pool:
                list(pool.map(lambda container: container.stop(timeout=_STOP_TIMEOUT_S), running))
        return len(running)

    def purge(self) -> bool:
        """Stop the cluster and remove its containers, its data and its network. Return True if the cluster existed."""
        containers = self._containers()
        if any(COMPOSE_LABEL in container.labels for container in containers.values()):
            raise DevError(
                f"docker-compose made the cluster {self.name!r}: remove it with `make compose-down VOLUMES=1`"
            )
        self.stop()
        for container in containers.values():
            container.remove(force=True, v=True)
        for volume in self._engine.volumes.list(filters=self._labelled):
            volume.remove(force=True)
        for network in self._engine.networks.list(filters=self._labelled):
            network.remove()
        return bool(containers)

    # -- for the demo

    def leader(self, *, timeout_s: float = _START_TIMEOUT_S) -> int:
        """Return the node that leads shard 0. Waits until there is a leader; raises DevError after `timeout_s`
        seconds."""
        return leader_of(self.status, timeout_s, f"the cluster {self.name!r}")

    def kill(self, node: int) -> None:
        """Kill one node with SIGKILL. Return when the process of the node has ended."""
        container = self._container(node)
        container.kill("SIGKILL")
        container.wait(timeout=_KILL_TIMEOUT_S)

    def restart(self, node: int, *, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Start one node if it does not run. Wait until all nodes follow one leader in each shard."""
        with turn():
            self._start(self._container(node))
        self._wait_ready(timeout_s)

    def log_directory(self, node: int, scratch: Path) -> Path:
        """Fetch shard 0's log from the node over HTTP into a directory under `scratch`, and return the directory."""
        base = f"http://{_published(self._container(node), HTTP_PORT)}/shards/0/segments"
        directory = scratch / f"node-{node}"
        directory.mkdir()
        with urlopen(base, timeout=_HTTP_TIMEOUT_S) as answer:
            names = [segment["name"] for segment in json.load(answer)["segments"]]
        for name in names:
            with urlopen(f"{base}/{name}", timeout=_HTTP_TIMEOUT_S) as answer, (directory / name).open("wb") as file:
                while piece := answer.read(_PIECE):
                    file.write(piece)
        return directory

    # -- inside

    @property
    def _labelled(self) -> dict[str, str]:
        return {"label": f"{CLUSTER_LABEL}={self.name}"}

    def _containers(self) -> dict[int, Container]:
        found = self._engine.containers.list(all=True, filters=self._labelled)
        return dict(sorted((int(container.labels[NODE_LABEL]), container) for container in found))

    def _container(self, node: int) -> Container:
        containers = self._containers()
        if node not in containers:
            raise DevError(f"the cluster {self.name!r} has no node {node}")
        return containers[node]

    def _name(self, node: int) -> str:
        return f"ledgermq-{self.name}-{node}"

    def _make(self, nodes: int, base_port: int | None, flush: str, shards: int) -> None:
        """Create the containers of all nodes. If one of them cannot be created, leave no container behind."""
        try:
            need_image(self._engine, self._image)
        except EngineError as error:
            raise DevError(str(error)) from error
        ports = dict(enumerate(choose_ports(nodes, base_port), 1))
        shared = {
            "LEDGERMQ_DATA": _DATA,
            "LEDGERMQ_LISTEN": "0.0.0.0:9871",
            "LEDGERMQ_INSECURE": "true",
            "LEDGERMQ_HTTP": "0.0.0.0:9872",
            "LEDGERMQ_CLUSTER": self.name,
            "LEDGERMQ_PEERS": ",".join(f"{node}={self._name(node)}:9871" for node in ports),
            "LEDGERMQ_OUTSIDE": ",".join(f"{node}={HOST}:{port}" for node, port in ports.items()),
            "LEDGERMQ_FLUSH": flush,
            "LEDGERMQ_SHARDS": str(shards),
            "LEDGERMQ_SEGMENT_BYTES": str(_SEGMENT_BYTES),
            # Off, because other programs fill this disk as well.
            **dict.fromkeys((f"LEDGERMQ_DISK_{what}_RATIO" for what in ("CLEAN", "FORCE", "REFUSE")), "0"),
        }
        try:
            network = self._engine.networks.create(
                f"ledgermq-{self.name}", driver="bridge", labels={CLUSTER_LABEL: self.name}
            )
            for node, port in ports.items():
                self._make_node(node, port, network.name, shared)
        except APIError as error:
            with suppress(APIError, NotFound):
                self.purge()
            raise DevError(f"the containers cannot be created: {error.explanation}") from error

    def _make_node(self, node: int, port: int, network: str, shared: dict[str, str]) -> None:
        labels = {CLUSTER_LABEL: self.name, NODE_LABEL: str(node)}
        volume = self._engine.volumes.create(self._name(node), labels=labels)
        self._engine.containers.create(
            self._image,
            name=self._name(node),
            hostname=self._name(node),
            labels=labels,
            network=network,
            environment={**shared, "LEDGERMQ_NODE": str(node)},
            volumes={volume.name: {"bind": _DATA, "mode": "rw"}},
            ports={PORT: ("127.0.0.1", port), HTTP_PORT: ("127.0.0.1", port + 1)},
            ulimits=[Ulimit(name="nofile", soft=_OPEN_FILES, hard=_OPEN_FILES)],
            **_LIMITS,
        )

    def _start(self, container: Container) -> None:
        try:
            container.start()
        except APIError as error:
            raise DevError(f"{container.name} cannot be started: {error.explanation}") from error

    def _refuse_change(self, containers: dict[int, Container], wanted: dict[str, int | str | None]) -> None:
        first = next(iter(containers.values()))
        port, flush = int(_published(first, PORT).rpartition(":")[2]), _variable(first, "FLUSH")
        shards = int(_variable(first, "SHARDS"))
        made = {
            "nodes": (len(containers), f"{len(containers)} node(s)"),
            "base_port": (port, f"base port {port}"),
            "flush": (flush, f"flush {flush}"),
            "shards": (shards, f"{shards} shard(s)"),
        }
        advice = "leave the option out, or remove the cluster with `ledgermq dev purge --docker`"
        refuse_change(f"the cluster {self.name!r}", made, wanted, advice)

    def _wait_ready(self, timeout_s: float) -> list[NodeState]:
        shards = int(_variable(next(iter(self._containers().values())), "SHARDS"))
        return wait_ready(self.status, shards, timeout_s, self._log_of)

    def _log_of(self, node: int) -> tuple[str, str]:
        container = self._container(node)
        return f"the log of {container.name}", container.logs(tail=15).decode(errors="replace")


def _observe(node: int, container: Container) -> NodeState:
    pid = container.attrs["State"]["Pid"] or None
    volume = next((each["Name"] for each in container.attrs["Mounts"] if each["Destination"] == _DATA), "")
    return observe(node, _published(container, PORT), _published(container, HTTP_PORT), pid, Path(volume))


def _published(container: Container, port: str) -> str:
    """Return the address on this machine at which a container publishes `port`, also if the container does not run."""
    bindings = container.attrs["HostConfig"]["PortBindings"].get(port) or []
    if not bindings:
        raise DevError(f"{container.name} does not publish its port {port}")
    host_port: str = bindings[0]["HostPort"]
    return f"{HOST}:{host_port}"


def _variable(container: Container, name: str) -> str:
    variables: dict[str, str] = dict(each.partition("=")[::2] for each in container.attrs["Config"]["Env"])
    return variables.get(f"LEDGERMQ_{name}", "1" if name == "SHARDS" else "async")
