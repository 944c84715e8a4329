"""The secrets of a local cluster: the cluster secret or, for a secured cluster, certificates and the first password.

    ledgermq-data/
      security/
        cluster.secret     by which the nodes of a cluster without TLS prove themselves
        ca.pem, ca.key     the authority of a secured cluster
        node-1.pem, .key   the certificate of each node
        admin.password     the password of the first administrator
        profiles.toml      the profile "dev" for clients, with the file of the password

A client of a secured cluster needs the profile only: `LEDGERMQ_PROFILE_FILE=ledgermq-data/security/profiles.toml`.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.local.plan import ClusterPlan, DevError
from ledger.client.connection.security import NONE, Security, SecurityOptions
from raft.transport.cluster_secret import new_secret

ADMINISTRATOR = "admin"
PROFILE = "dev"
_PASSWORD_BYTES = 18


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files in `directory`."""

    directory: Path

    @property
    def profiles(self) -> Path:
        return self.directory / "profiles.toml"

    @property
    def password(self) -> Path:
        return self.directory / "admin.password"

    def node_settings(self, plan: ClusterPlan, node: int) -> Mapping[str, str]:
        """Make the files that this node needs, and return its settings, each as a TOML value. Raises DevError."""
        if node in plan.joined and not self.directory.exists():
            return {}  # a cluster of an earlier version, whose other nodes have no secret
        self.directory.mkdir(exist_ok=True)
        if not plan.secure:
            secret = self.directory / "cluster.secret"
            if not secret.exists():
                _write_private(secret, new_secret() + "\n")
            return {"cluster_secret_file": json.dumps(str(secret))}
        return self._secure_settings(plan, node)

    def client_options(self, plan: ClusterPlan) -> SecurityOptions:
        """Return the options of a client that administers the cluster."""
        if not plan.secure:
            return {}
        return {"ca": self.directory / "ca.pem", "user": ADMINISTRATOR, "password_file": self.password}

    def client_security(self, plan: ClusterPlan) -> Security:
        if not plan.secure:
            return NONE
        return Security(tls=True, ca=self.directory / "ca.pem", user=ADMINISTRATOR, password_file=self.password)

    def _secure_settings(self, plan: ClusterPlan, node: int) -> Mapping[str, str]:
        try:
            from cluster.authority import new_authority, read_authority, write_pair
        except ModuleNotFoundError as error:
            raise DevError(
                f"a secured cluster needs the package {error.name}: pip install 'ledgermq[server]'"
            ) from error
        if not (self.directory / "ca.pem").exists():
            write_pair(self.directory, "ca", new_authority(plan.cluster).pair)
        if not self.password.exists():
            _write_private(self.password, secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
        self._write_profile(plan)
        pair = read_authority(self.directory, plan.cluster).node(node, ["localhost", "127.0.0.1"])
        certificate, key = write_pair(self.directory, f"node-{node}", pair, replace=True)
        found: dict[str, object] = {
            "tls_certificate": str(certificate),
            "tls_key": str(key),
            "tls_ca": str(self.directory / "ca.pem"),
            "authentication": True,
            "first_administrator": ADMINISTRATOR,
            "first_administrator_password_file": str(self.password),
        }
        return {name: json.dumps(value) for name, value in found.items()}

    def _write_profile(self, plan: ClusterPlan) -> None:
        servers = ",".join(plan.address(node) for node in plan.nodes)
        lines = [
            "# Written by `ledgermq dev`.",
            f"default = {json.dumps(PROFILE)}",
            f"[profiles.{PROFILE}]",
            f"servers = {json.dumps(servers)}",
            f"ca = {json.dumps(str(self.directory / 'ca.pem'))}",
            f"user = {json.dumps(ADMINISTRATOR)}",
            f"password_file = {json.dumps(str(self.password))}",
        ]
        _write_private(self.profiles, "\n".join(lines) + "\n")


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, path)
