"""Runs one node as a container of this machine's container engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGCONT, SIGSTOP, Signals
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container as EngineContainer

from chaos.errors import ChaosError
from chaos.live.hosts.process import halt_or_go_on, halted_or_going_on

STOP_TIMEOUT_S = 30
_KILL_TIMEOUT_S = 30
_SIGKILLED = 137
_BEGIN_TIMEOUT_S = 10.0
_POLL_S = 0.01


class Container:
    """The container of a node, called `name`, with `labels`, at `address` in `network`. The method `make` creates the
    container."""

    def __init__(
        self, client: DockerClient, node: int, name: str, labels: dict[str, str], network: str, address: str
    ) -> None:
        self._node = f"node {node}"
        self._starts = 0
        self._client = client
        self._name = name
        self._labels = labels
        self._network = network
        self._address = address

    def make(self, image: str, **settings: Any) -> None:
        """Create the container without starting it. `settings` are passed to the engine's SDK. Raises ChaosError."""
        endpoint = self._client.api.create_endpoint_config(ipv4_address=self._address)
        try:
            self._client.containers.create(
                image,
                name=self._name,
                labels=self._labels,
                hostname=self._name,
                network=self._network,
                networking_config={self._network: endpoint},
                **settings,
            )
        except APIError as error:
            raise ChaosError(f"cannot create container {self._name}: {error.explanation}") from error

    def remove(self) -> None:
        """Remove the container in any state. Do nothing if the container does not exist."""
        try:
            self._client.containers.get(self._name).remove(force=True, v=True)
        except NotFound:
            return

    @property
    def pid(self) -> int | None:
        """Return the pid of the node on this machine; None while the node does not run. The node is the child of the
        container's init process.
        """
        init = self._state()["Pid"]
        children = _children(init) if init else []
        return children[0] if children else None

    def start(self) -> str:
        """Start the container. Returns when the node's process exists. Raises ChaosError if the process ends or does
        not appear.
        """
        self._do(lambda container: container.start())
        deadline = time.monotonic() + _BEGIN_TIMEOUT_S
        while self.pid is None:
            state = self._state()
            if not state["Running"]:
                raise ChaosError(f"{self._name} ended while starting, with exit status {state['ExitCode']}")
            if time.monotonic() > deadline:
                raise ChaosError(
                    f"the process of {self._name} is not visible on this machine: use the engine of this machine"
                )
            time.sleep(_POLL_S)
        self._starts += 1
        return f"{self._node} was started{' again' if self._starts > 1 else ''}"

    def stop(self) -> str:
        """Stop the node with SIGTERM. Raises ChaosError if the node does not end with status 0."""
        begun = time.monotonic()
        self._do(lambda container: container.stop(timeout=STOP_TIMEOUT_S))
        return self._ended(begun, "SIGTERM", status=0)

    def kill(self) -> str:
        """Kill the node with SIGKILL. Raises ChaosError if the node does not end."""
        begun = time.monotonic()
        self._do(lambda container: container.kill("SIGKILL"))
        self._do(lambda container: container.wait(timeout=_KILL_TIMEOUT_S))
        return self._ended(begun, "SIGKILL", status=_SIGKILLED)

    def pause(self) -> str:
        """Stop the node's process with SIGSTOP."""
        return self._signal(SIGSTOP)

    def resume(self) -> str:
        """Continue the node's process with SIGCONT."""
        return self._signal(SIGCONT)

    def _signal(self, number: Signals) -> str:
        """Send a signal to the node's process. (Pausing a container by its control group can fail on a machine
        under load.)"""
        pid = self.pid
        if pid is None:
            raise ChaosError(f"{self._name} does not run")
        halt_or_go_on(pid, number)
        return halted_or_going_on(self._node, number)

    def _ended(self, begun: float, by: str, *, status: int) -> str:
        state = self._state()
        if state["Running"] or state["ExitCode"] != status:
            raise ChaosError(f"{self._name} should have ended by {by} with exit status {status}; its state is {state}")
        if status == _SIGKILLED:
            return f"{self._node} was killed ({by}, exit status {status})"
        return f"{self._node} ended with exit status {status} {time.monotonic() - begun:.2f} s after {by}"

    def _state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = self._client.api.inspect_container(self._name)["State"]
        except NotFound:
            return {"Pid": 0, "Running": False, "ExitCode": None}
        return state

    def _do(self, what: Callable[[EngineContainer], object]) -> None:
        try:
            what(self._client.containers.get(self._name))
        except APIError as error:
            raise ChaosError(f"{self._name}: {error.explanation}") from error


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
