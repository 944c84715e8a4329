"""What a secured cluster of containers needs: certificates in volumes, and the files of clients on this machine.

    volume ledgermq-NAME-authority   the key that signs certificates; no node has this volume
    volume ledgermq-NAME-security    /etc/ledgermq of all nodes: certificates, and the password of the administrator

    ~/.config/ledgermq/docker-NAME/  ca.pem, admin.password and profiles.toml for clients, copied from a container

A cluster of docker-compose.yml has the same files, and its clients on this machine too (scripts/compose).
"""

from __future__ import annotations

import io
import shutil
import ssl
import tarfile
import urllib.request
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docker.client import DockerClient
from docker.errors import NotFound
from docker.models.containers import Container

from cluster.local.credentials import ADMINISTRATOR, ClusterCredentials
from ledger.client.connection.security import Security, SecurityOptions, profile_file
from ledger.private_file import write_private

_FILES = "/etc/ledgermq"
_AUTHORITY = "/authority"
_CA, _PASSWORD = "ca.pem", "admin.password"


def node_variables(node: int) -> dict[str, str]:
    """Return the settings of a secured node, as variables of the environment. None of them is a secret."""
    return {
        "LEDGERMQ_TLS_CERTIFICATE": f"{_FILES}/node-{node}.pem",
        "LEDGERMQ_TLS_KEY": f"{_FILES}/node-{node}.key",
        "LEDGERMQ_TLS_CA": f"{_FILES}/{_CA}",
        "LEDGERMQ_AUTHENTICATION": "true",
        "LEDGERMQ_FIRST_ADMINISTRATOR": ADMINISTRATOR,
        "LEDGERMQ_FIRST_ADMINISTRATOR_PASSWORD_FILE": f"{_FILES}/{_PASSWORD}",
    }


def is_secured(container: Container) -> bool:
    return "LEDGERMQ_AUTHENTICATION=true" in container.attrs["Config"]["Env"]


def plain_opener(url: str, timeout_s: float) -> Any:
    return urllib.request.urlopen(url, timeout=timeout_s)


@dataclass(frozen=True, slots=True)
class ContainerSecurity:
    """The secrets of the cluster `name`."""

    name: str

    @property
    def credentials(self) -> ClusterCredentials:
        return ClusterCredentials(profile_file().parent / f"docker-{self.name}")

    def make(
        self,
        engine: DockerClient,
        image: str,
        hosts: Mapping[int, Sequence[str]],
        labels: Mapping[str, str],
        limits: Mapping[str, Any],
    ) -> dict[str, dict[str, str]]:
        """Make the volumes, and the files in them. Return the volumes of every node. Raises errors of docker."""
        made = {
            engine.volumes.create(f"ledgermq-{self.name}-{what}", labels=labels).name: {"bind": place, "mode": "rw"}
            for what, place in (("security", _FILES), ("authority", _AUTHORITY))
        }
        command = ["certs", "provision", "--cluster", self.name, "--authority", _AUTHORITY, "--directory", _FILES]
        for node, names in hosts.items():
            command += ["--node", f"{node}={','.join(names)}"]
        engine.containers.run(image, command, volumes=made, network_mode="none", remove=True, **limits)
        return {name: {**place, "mode": "ro"} for name, place in made.items() if place["bind"] == _FILES}

    def client_options(self, containers: Mapping[int, Container], servers: str) -> SecurityOptions:
        """Copy what clients need from a container, and return the options of a client."""
        self._fetch(containers, servers)
        return self.credentials.administrator

    def client_security(self, containers: Mapping[int, Container], servers: str) -> Security | None:
        """Return the same as the settings of one channel; None if the containers have no files yet."""
        try:
            self._fetch(containers, servers)
        except NotFound:
            return None
        directory = self.credentials.directory
        return Security(tls=True, ca=directory / _CA, user=ADMINISTRATOR, password_file=directory / _PASSWORD)

    def opener(self, url: str, timeout_s: float) -> Any:
        """Open an HTTPS address as the administrator, after `client_options`."""
        directory = self.credentials.directory
        password = (directory / _PASSWORD).read_text(encoding="utf-8").strip()
        proof = b64encode(f"{ADMINISTRATOR}:{password}".encode()).decode()
        request = urllib.request.Request(url, headers={"Authorization": f"Basic {proof}"})
        context = ssl.create_default_context(cafile=str(directory / _CA))
        return urllib.request.urlopen(request, timeout=timeout_s, context=context)

    def forget(self) -> None:
        shutil.rmtree(self.credentials.directory, ignore_errors=True)

    def _fetch(self, containers: Mapping[int, Container], servers: str) -> None:
        """Copy the files, if those here are of an earlier cluster. A password that was changed here later stays."""
        credentials = self.credentials
        if credentials.profiles.exists() and self._is_known(containers):
            return
        first = next(iter(containers.values()))
        credentials.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(credentials.password, _content(first, _PASSWORD))
        write_private(credentials.directory / _CA, _content(first, _CA))
        credentials.write_profile(servers)

    def _is_known(self, containers: Mapping[int, Container]) -> bool:
        path = self.credentials.directory / _CA
        return path.exists() and path.read_text(encoding="utf-8") == _content(next(iter(containers.values())), _CA)


def _content(container: Container, name: str) -> str:
    """Return the text of a file in /etc/ledgermq. Raises NotFound."""
    pieces, _ = container.get_archive(f"{_FILES}/{name}")
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
        file = archive.extractfile(name)
        assert file is not None, "the archive of a file has this file"
        return file.read().decode()
