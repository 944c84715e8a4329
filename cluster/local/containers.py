"""A local cluster of Docker containers; it keeps running when the program that started it ends.

A cluster of containers stores no file on this machine, except what clients of a secured cluster need. Each container
has the cluster's name and the node number as labels, and the node's settings as environment variables. Later commands
find the containers of the cluster by the labels. The containers that docker-compose creates from docker-compose.yml
have the same labels as the containers of `ledgermq dev`.

    network   ledgermq-NAME
    node N    container and volume ledgermq-NAME-N, clients at localhost:PORT, HTTP at PORT + 1
    security  volumes ledgermq-NAME-authority and ledgermq-NAME-security, of a secured cluster (container_security.py)
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from docker.errors import APIError, ContainerError, NotFound
from docker.models.containers import Container
from docker.types import Ulimit

from cluster.local.container_security import ContainerSecurity, is_secured, node_variables, plain_opener
from cluster.local.credentials import NO_PROFILE, ClusterCredentials
from cluster.local.engine import IMAGE, EngineError, connect, need_image
from cluster.local.launcher import DEFAULT_NODES, Tell, leader_of, refuse_change, silent, wait_ready
from cluster.local.plan import DevError
from cluster.local.ports import choose_ports, turn
from cluster.local.state import NodeState, ask_proven, observe, state_of
from ledger.client.connection.security import SecurityOptions

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
        secure: bool | None = None,
        timeout_s: float = _START_TIMEOUT_S,
        tell: Tell = silent,
    ) -> list[NodeState]:
        """Start every node that does not run. Wait until every node answers and follows one leader in each shard.

        An argument that is None stands for the value with which the cluster was created, or for the default of a
        new cluster. Raises DevError. If a new cluster does not start, its containers, volumes and network are removed.
        `tell` is called with the progress."""
        is_new = False
        before = self._volume_names()
        try:
            with turn():  # other programs see a port as used when its container has started
                containers = self._containers()
                if not containers:
                    tell("creating containers")
                    is_new = True
                    self._make(nodes or DEFAULT_NODES, base_port, flush or "async", shards or 1, secure=bool(secure))
                else:
                    wanted = {"nodes": nodes, "base_port": base_port, "flush": flush, "shards": shards}
                    self._refuse_change(containers, {**wanted, "secure": secure})
                for container in self._containers().values():
                    tell(f"starting {container.name}")
                    self._start(container)
            return self._wait_ready(timeout_s, tell)
        except BaseException as error:
            if is_new:
                self._remove_new(before)
                if isinstance(error, DevError):
                    raise DevError(f"{error}\nThe new cluster was removed again.") from error
            raise

    def status(self) -> list[NodeState]:
        """Return the present state of each node. Raises DevError if the cluster does not exist."""
        containers = self._containers()
        if not containers:
            raise DevError(
                f"there are no containers of a cluster {self.name!r}: create them with `ledgermq dev start --docker`"
            )
        if self.is_secure:
            return self._observe_proven(containers)
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
        self._remove_all(containers, except_volumes=frozenset())
        self.security.forget()
        return bool(containers)

    @property
    def credentials(self) -> ClusterCredentials:
        return self.security.credentials

    @property
    def security(self) -> ContainerSecurity:
        return ContainerSecurity(self.name)

    @property
    def is_secure(self) -> bool:
        """Return True if clients need TLS and a user."""
        return any(is_secured(container) for container in self._containers().values())

    @property
    def client_options(self) -> SecurityOptions:
        """Return the options of a client that administers this cluster."""
        containers = self._containers()
        return self.security.client_options(containers, self.bootstrap) if self.is_secure else NO_PROFILE

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
        opened = self.security.opener if self.is_secure else plain_opener
        scheme = "https" if self.is_secure else "http"
        base = f"{scheme}://{_published(self._container(node), HTTP_PORT)}/shards/0/segments"
        directory = scratch / f"node-{node}"
        directory.mkdir()
        with opened(base, _HTTP_TIMEOUT_S) as answer:
            names = [segment["name"] for segment in json.load(answer)["segments"]]
        for name in names:
            with opened(f"{base}/{name}", _HTTP_TIMEOUT_S) as answer, (directory / name).open("wb") as file:
                while piece := answer.read(_PIECE):
                    file.write(piece)
        return directory

    # -- inside

    def _remove_new(self, before: frozenset[str]) -> None:
        """Remove a new cluster that did not start. Volumes that were there before stay, with their data."""
        with suppress(APIError, NotFound):
            self._remove_all(self._containers(), except_volumes=before)
        if not before:
            self.security.forget()

    def _remove_all(self, containers: dict[int, Container], *, except_volumes: frozenset[str]) -> None:
        for container in containers.values():
            container.remove(force=True, v=True)
        for volume in self._engine.volumes.list(filters=self._labelled):
            if volume.name not in except_volumes:
                volume.remove(force=True)
        for network in self._engine.networks.list(filters=self._labelled):
            network.remove()

    def _volume_names(self) -> frozenset[str]:
        return frozenset(str(volume.name) for volume in self._engine.volumes.list(filters=self._labelled))

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

    def _make(self, nodes: int, base_port: int | None, flush: str, shards: int, *, secure: bool) -> None:
        """Create the containers of all nodes. The caller removes what was created if this fails."""
        try:
            need_image(self._engine, self._image)
        except EngineError as error:
            raise DevError(str(error)) from error
        ports = dict(enumerate(choose_ports(nodes, base_port), 1))
        shared = {
            "LEDGERMQ_DATA": _DATA,
            "LEDGERMQ_LISTEN": "0.0.0.0:9871",
            **({} if secure else {"LEDGERMQ_INSECURE": "true"}),
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
            volumes = self._make_security(list(ports)) if secure else {}
            for node, port in ports.items():
                variables = {**shared, **(node_variables(node) if secure else {})}
                self._make_node(node, port, network.name, variables, volumes)
        except (APIError, ContainerError) as error:
            explanation = error.explanation if isinstance(error, APIError) else str(error)
            raise DevError(f"the containers cannot be created: {explanation}") from error

    def _make_security(self, nodes: list[int]) -> dict[str, dict[str, str]]:
        hosts = {node: [self._name(node), HOST, "127.0.0.1"] for node in nodes}
        labels = {CLUSTER_LABEL: self.name}
        return self.security.make(self._engine, self._image, hosts, labels, _LIMITS)

    def _make_node(
        self, node: int, port: int, network: str, shared: dict[str, str], volumes: dict[str, dict[str, str]]
    ) -> None:
        labels = {CLUSTER_LABEL: self.name, NODE_LABEL: str(node)}
        volume = self._engine.volumes.create(self._name(node), labels=labels)
        self._engine.containers.create(
            self._image,
            name=self._name(node),
            hostname=self._name(node),
            labels=labels,
            network=network,
            environment={**shared, "LEDGERMQ_NODE": str(node)},
            volumes={volume.name: {"bind": _DATA, "mode": "rw"}, **volumes},
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
            "secure": (self.is_secure, "TLS and authentication" if self.is_secure else "no TLS and no authentication"),
        }
        advice = "leave the option out, or remove the cluster with `ledgermq dev purge --docker`"
        refuse_change(f"the cluster {self.name!r}", made, wanted, advice)

    def _wait_ready(self, timeout_s: float, tell: Tell = silent) -> list[NodeState]:
        shards = int(_variable(next(iter(self._containers().values())), "SHARDS"))
        return wait_ready(self.status, shards, timeout_s, self._log_of, tell=tell)

    def _observe_proven(self, containers: dict[int, Container]) -> list[NodeState]:
        running = {node: _published(each, PORT) for node, each in containers.items() if _pid(each) is not None}
        security = self.security.client_security(containers, self.bootstrap)
        answers = [] if security is None else ask_proven(list(running.values()), security)
        answer_of = dict(zip(running, answers, strict=False))
        return [
            state_of(node, _published(each, PORT), _published(each, HTTP_PORT), _pid(each), _volume(each), answer)
            for node, each in containers.items()
            for answer in [answer_of.get(node)]
        ]

    def _log_of(self, node: int) -> tuple[str, str]:
        container = self._container(node)
        return f"the log of {container.name}", container.logs(tail=15).decode(errors="replace")


def _observe(node: int, container: Container) -> NodeState:
    http = _published(container, HTTP_PORT)
    return observe(node, _published(container, PORT), http, _pid(container), _volume(container))


def _pid(container: Container) -> int | None:
    return container.attrs["State"]["Pid"] or None


def _volume(container: Container) -> Path:
    return Path(next((each["Name"] for each in container.attrs["Mounts"] if each["Destination"] == _DATA), ""))


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
