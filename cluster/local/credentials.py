"""The secrets of a local cluster: the cluster secret or, for a secured cluster, certificates and the first password.

    ledgermq-data/
      security/
        cluster.secret     by which the nodes of a cluster without TLS prove themselves
        ca.pem, ca.key     the authority of a secured cluster
        secrets.key        encrypts the RocketMQ secrets of users, in a secured cluster
        node-1.pem, .key   the certificate of each node
        admin.password     the password of the first administrator
        profiles.toml      the profile "dev" for clients, with the file of the password

A client of a secured cluster needs the profile only: `LEDGERMQ_PROFILE_FILE=ledgermq-data/security/profiles.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.local.plan import ClusterPlan, DevError
from cluster.local.toml_text import toml_text
from ledger.client.connection.security import NONE, Security, SecurityOptions
from ledger.private_file import write_private
from raft.transport.cluster_secret import new_secret

ADMINISTRATOR = "admin"
PROFILE = "dev"
# A profile of the user is for other clusters than the local one.
NO_PROFILE: SecurityOptions = {"profile": ""}


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
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
                write_private(secret, new_secret() + "\n")
            return {"cluster_secret_file": toml_text(str(secret))}
        return self._secure_settings(plan, node)

    def client_options(self, plan: ClusterPlan) -> SecurityOptions:
        """Return the options of a client that administers the cluster."""
        return self.administrator if plan.secure else NO_PROFILE

    @property
    def administrator(self) -> SecurityOptions:
        """Return the options of a client that is the first administrator."""
        ca = self.directory / "ca.pem"
        return {**NO_PROFILE, "ca": ca, "user": ADMINISTRATOR, "password_file": self.password}

    def client_security(self, plan: ClusterPlan) -> Security:
        if not plan.secure:
            return NONE
        return Security(tls=True, ca=self.directory / "ca.pem", user=ADMINISTRATOR, password_file=self.password)

    def _secure_settings(self, plan: ClusterPlan, node: int) -> Mapping[str, str]:
        try:
            from cluster.provision import provision
        except ModuleNotFoundError as error:
            raise DevError(
                f"a secured cluster needs the package {error.name}: pip install 'ledgermq[server]'"
            ) from error
        provision(self.directory, self.directory, plan.cluster, {node: ["localhost", "127.0.0.1"]})
        self.write_profile(",".join(plan.address(each) for each in plan.nodes))
        secrets_key = self.directory / "secrets.key"
        if not secrets_key.exists():
            write_private(secrets_key, new_secret() + "\n")
        found: dict[str, object] = {
            "tls_certificate": str(self.directory / f"node-{node}.pem"),
            "tls_key": str(self.directory / f"node-{node}.key"),
            "tls_ca": str(self.directory / "ca.pem"),
            "secrets_key_file": str(secrets_key),
            "authentication": True,
            "first_administrator": ADMINISTRATOR,
            "first_administrator_password_file": str(self.password),
        }
        return {name: toml_text(value) for name, value in found.items()}

    def write_profile(self, servers: str) -> None:
        """Write the profile with which clients administer the cluster. `servers` has the addresses of the nodes."""
        lines = [
            "# Written by `ledgermq dev`.",
            f"default = {toml_text(PROFILE)}",
            f"[profiles.{PROFILE}]",
            f"servers = {toml_text(servers)}",
            f"ca = {toml_text(str(self.directory / 'ca.pem'))}",
            f"user = {toml_text(ADMINISTRATOR)}",
            f"password_file = {toml_text(str(self.password))}",
        ]
        write_private(self.profiles, "\n".join(lines) + "\n")
