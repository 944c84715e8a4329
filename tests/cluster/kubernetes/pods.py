"""The pods of a rendered StatefulSet, as containers of this machine, with its command, variables, mounts and probes.

Pods are replaced as Kubernetes does it in a rolling update: from the last one, each when the one before is ready.
"""

from __future__ import annotations

import os
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container

from tests.cluster.kubernetes.chart import NAMESPACE, Object

GROUP = 10001
_READY_S = 90.0
_LABEL = "ledgermq-test"


class Pods:
    """The pods of one StatefulSet. The ports are those of this machine, for gRPC, by ordinal."""

    def __init__(self, engine: docker.DockerClient, name: str, image: str, secret: Path, ports: list[int]) -> None:
        self._engine, self._name, self._image, self._secret, self._ports = engine, name, image, secret, ports
        self._network = engine.networks.create(name, labels={_LABEL: name})
        self._template: Object = {}
        self._running: dict[int, Container] = {}
        # Stands for the ConfigMap of nodes whose volume was lost.
        self.joining = secret.with_name("join")
        self.joining.mkdir()
        # The addresses for clients on this machine, and the values of the chart that tell nodes about them.
        self.bootstrap = ",".join(f"localhost:{port}" for port in ports)
        self.values = [f"outside.{ordinal + 1}=localhost:{port}" for ordinal, port in enumerate(ports)]
        # The time of each replacement in seconds, from the signal until the new pod is ready.
        self.took_s: list[float] = []

    def apply(self, statefulset: Object) -> None:
        """Make the pods as the object says: start the missing ones at once, replace changed ones in turn."""
        spec = statefulset["spec"]
        template = spec["template"]["spec"]
        changed = [ordinal for ordinal in self._running if template != self._template]
        self._template = template
        assert spec["podManagementPolicy"] == "Parallel"
        missing = [ordinal for ordinal in range(spec["replicas"]) if ordinal not in self._running]
        for ordinal in missing:
            self._start(ordinal)
        for ordinal in sorted(changed, reverse=True):
            began = time.monotonic()
            self.stop(ordinal)
            self._start(ordinal)
            self.wait_ready(ordinal)
            self.took_s.append(time.monotonic() - began)
            time.sleep(spec["minReadySeconds"])

    def stop(self, ordinal: int) -> None:
        """End the pod as Kubernetes does: SIGTERM, and SIGKILL after the grace period. Its volume stays."""
        container = self._running.pop(ordinal)
        grace_s = self._template["terminationGracePeriodSeconds"]
        container.stop(timeout=grace_s)
        container.reload()
        status = container.attrs["State"]["ExitCode"]
        assert status in (0, 143), (
            f"the pod did not end by itself within {grace_s} s: {container.logs().decode()[-2000:]}"
        )
        container.remove()

    def lose_volume(self, ordinal: int) -> None:
        """Replace the volume of the pod by an empty one, as if its machine was lost, and start the pod again."""
        self.stop(ordinal)
        self._engine.volumes.get(f"{self._name}-{ordinal}").remove()
        self._start(ordinal)

    def replace(self, ordinal: int) -> None:
        """End the pod, whatever it does, and start it again, as `kubectl delete pod` does."""
        self._running.pop(ordinal).remove(force=True)
        self._start(ordinal)

    def wait_ready(self, *ordinals: int) -> None:
        """Wait until the readiness probe of these pods answers."""
        probe = self._template["containers"][0]["readinessProbe"]["httpGet"]
        deadline = time.monotonic() + _READY_S
        for ordinal in ordinals:
            while not self._answers(ordinal, probe):
                container = self._running[ordinal]
                container.reload()
                assert container.status == "running", container.logs().decode()[-3000:]
                assert time.monotonic() < deadline, container.logs().decode()[-3000:]
                time.sleep(0.2)

    def run(self, ordinal: int, *command: str) -> str:
        """Run a command in the pod, as `kubectl exec` does."""
        done = self._running[ordinal].exec_run(list(command))
        assert done.exit_code == 0, done.output.decode()
        return str(done.output.decode())

    def close(self) -> None:
        for container in self._running.values():
            container.remove(force=True)
        for volume in self._engine.volumes.list(filters={"label": f"{_LABEL}={self._name}"}):
            volume.remove(force=True)
        self._network.remove()

    def _start(self, ordinal: int) -> None:
        pod = self._template
        (container,) = pod["containers"]
        pod_name = f"{_stateful_name(pod)}-{ordinal}"
        values = {each["name"]: each.get("value", pod_name) for each in container["env"]}
        assert [each["name"] for each in container["env"] if "valueFrom" in each] == ["POD_NAME"]
        volume = f"{self._name}-{ordinal}"
        self._engine.volumes.create(volume, labels={_LABEL: self._name})  # idempotent
        made = self._engine.containers.create(
            self._image,
            entrypoint=container["command"],
            command=container["args"],
            environment=values,
            hostname=pod_name,
            user=f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['fsGroup']}",
            read_only=container["securityContext"]["readOnlyRootFilesystem"],
            cap_drop=container["securityContext"]["capabilities"]["drop"],
            security_opt=["no-new-privileges"],
            tmpfs={"/tmp": ""},
            volumes={
                volume: {"bind": "/var/lib/ledgermq", "mode": "rw"},
                str(self._secret): {"bind": "/etc/ledgermq", "mode": "ro"},
                str(self.joining): {"bind": "/etc/ledgermq-join", "mode": "ro"},
            },
            ports={"9871/tcp": ("127.0.0.1", self._ports[ordinal])},
            labels={_LABEL: self._name},
            detach=True,
        )
        # The name that the headless service gives to the pod, ready or not.
        self._network.connect(made, aliases=[f"{pod_name}.{values['NODES_DOMAIN']}"])
        made.start()
        self._running[ordinal] = made

    def _answers(self, ordinal: int, probe: dict[str, Any]) -> bool:
        container = self._running[ordinal]
        container.reload()
        address = container.attrs["NetworkSettings"]["Networks"][self._name]["IPAddress"]
        url = f"{probe['scheme'].lower()}://{address}:9872{probe['path']}"
        try:
            with urllib.request.urlopen(url, timeout=5, context=_like_a_probe()):
                return True
        except (OSError, urllib.error.URLError):
            return False


def as_a_secret(files: Path) -> None:
    """Give the files the owner, the group and the mode that they have in a volume of a secret with `fsGroup`."""
    for file in files.iterdir():
        os.chown(file, 0, GROUP)
        file.chmod(0o440)
    os.chown(files, 0, GROUP)
    files.chmod(0o750)


def domain() -> str:
    return f"ledgermq-nodes.{NAMESPACE}.svc.cluster.local"


def _stateful_name(pod: Object) -> str:
    return str(pod["serviceAccountName"])


def _like_a_probe() -> ssl.SSLContext:
    """A probe of Kubernetes does not look at the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
