"""Makes the files of a new secured cluster: an authority, certificates of nodes, a password and a key.

    AUTHORITY/
      ca.pem, ca.key          the authority; no node needs its key
    DIRECTORY/
      ca.pem                  for nodes and clients
      node-1.pem, node-1.key  the certificate of each node
      admin.password          the password of the first administrator
      secrets.key             the key that encrypts users' RocketMQ secrets in the log

What is there already is kept, so the same call can be repeated at each start. A certificate is issued anew if it ends
soon, if its host names have changed, or if another authority has signed it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from cluster.authority import Authority, AuthorityError, new_authority, read_authority, write_pair
from ledger.private_file import write_private
from raft.transport.cluster_secret import new_secret

PASSWORD_FILE = "admin.password"
SECRETS_KEY_FILE = "secrets.key"
# A certificate is issued anew when it ends within this time.
RENEW_DAYS = 60
_PASSWORD_BYTES = 18


def provision(authority: Path, directory: Path, cluster: str, nodes: Mapping[int, Sequence[str]]) -> list[str]:
    """Make the files that are missing, and return the names of those that were made. `nodes` has the host names of each
    node. `authority` and `directory` may be the same. Raises AuthorityError."""
    made = []
    if not (authority / "ca.key").exists():
        write_pair(authority, "ca", new_authority(cluster).pair)
        made.append("ca.pem")
    signer = read_authority(authority, cluster)
    try:
        _publish(signer, directory / "ca.pem")
        if not (directory / PASSWORD_FILE).exists():
            write_private(directory / PASSWORD_FILE, secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
            made.append(PASSWORD_FILE)
        if not (directory / SECRETS_KEY_FILE).exists():
            write_private(directory / SECRETS_KEY_FILE, new_secret() + "\n")
            made.append(SECRETS_KEY_FILE)
    except OSError as error:
        raise AuthorityError(f"{error.filename or directory} cannot be written: {error.strerror}") from error
    for node, hosts in sorted(nodes.items()):
        if not _serves(signer, node, hosts, directory):
            write_pair(directory, f"node-{node}", signer.node(node, list(dict.fromkeys(hosts))), replace=True)
            made.append(f"node-{node}.pem")
    return made


def _publish(authority: Authority, path: Path) -> None:
    """Write the authority's certificate. The file can have the certificates of other authorities too."""
    there = path.read_bytes() if path.exists() else b""
    if authority.pair.certificate.strip() not in there:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_bytes(there + authority.pair.certificate)
        os.replace(partial, path)


def _serves(authority: Authority, node: int, hosts: Sequence[str], directory: Path) -> bool:
    """Return True if the node has a certificate that can stay."""
    path = directory / f"node-{node}.pem"
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pair.certificate))
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    known = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    left = found.not_valid_after_utc - datetime.now(UTC)
    return (directory / f"node-{node}.key").exists() and set(hosts) <= known and left.days >= RENEW_DAYS
