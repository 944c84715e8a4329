"""TLS and authentication of the nodes of a run, and what the clients of the run need.

DIRECTORY/
  security/          the authority, the certificates, and the password of the administrator; removed after the run
  node-N/security/   what node N needs of this, as the node sees it
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.errors import ChaosError
from cluster.authority import AuthorityError
from cluster.process_variables import changed_variables
from cluster.provision import PASSWORD_FILE, provision
from ledger.client.connection.security import PROFILE_FILE_VARIABLE

CLUSTER = "chaos"
NAME = "security"
_ADMINISTRATOR = "admin"


class NodeSecurity:
    """The files in `directory`, which belongs to one run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / NAME

    @property
    def ca(self) -> Path:
        return self._directory / "ca.pem"

    def make(self, node: int, host: str, into: Path, owner: int | None = None) -> None:
        """Write the files of a node, which clients reach at `host`, into a directory. `owner` is the user of the node,
        if it is another one. Raises ChaosError."""
        try:
            provision(self._directory, self._directory, CLUSTER, {node: [host]})
        except AuthorityError as error:
            raise ChaosError(str(error)) from error
        into.mkdir(parents=True, exist_ok=True, mode=0o755)
        copies = {f"node-{node}.pem": "node.pem", f"node-{node}.key": "node.key"}
        for name, copy in {**copies, "ca.pem": "ca.pem", PASSWORD_FILE: PASSWORD_FILE}.items():
            shutil.copy(self._directory / name, into / copy)  # with its mode
            if owner is not None:
                os.chown(into / copy, owner, owner)

    def settings(self, seen: Path) -> Mapping[str, Any]:
        """Return the settings of a node that sees its files in the directory `seen`."""
        return {
            "tls_certificate": str(seen / "node.pem"),
            "tls_key": str(seen / "node.key"),
            "tls_ca": str(seen / "ca.pem"),
            "authentication": True,
            "first_administrator": _ADMINISTRATOR,
            "first_administrator_password_file": str(seen / PASSWORD_FILE),
        }

    def client_variables(self) -> dict[str, str]:
        """Return the variables by which all clients of the run prove that they are the administrator."""
        return {
            "LEDGERMQ_CA": str(self.ca),
            "LEDGERMQ_USER": _ADMINISTRATOR,
            "LEDGERMQ_PASSWORD_FILE": str(self._directory / PASSWORD_FILE),
        }

    def authorization(self) -> str:
        """Return the header `Authorization` by which a request to a node's HTTP port proves to be the
        administrator's."""
        password = (self._directory / PASSWORD_FILE).read_text(encoding="utf-8").strip()
        return "Basic " + base64.b64encode(f"{_ADMINISTRATOR}:{password}".encode()).decode()

    def remove(self) -> None:
        for directory in (self._directory, *self._directory.parent.glob(f"node-*/{NAME}")):
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def clients_of(directory: Path, *, secure: bool) -> Iterator[None]:
    """Let all clients of this process and of its child processes be those of the run: with the variables of the
    environment, and without a profile of the user."""
    security = NodeSecurity(directory)
    told = {PROFILE_FILE_VARIABLE: os.devnull, **(security.client_variables() if secure else {})}
    try:
        with changed_variables(told):
            yield
    finally:
        security.remove()
