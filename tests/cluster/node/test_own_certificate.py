"""Tests of the check that nodes and name servers make of their own certificates, at their start and when the files
change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.authority import Authority, KeyPair, new_authority, read_authority, write_pair
from cluster.node.nameserver import NameServerError, NameServerSecurity
from cluster.node.security.certificates import CertificateFiles, CertificateWatch, node_dns_name, node_uri
from cluster.node.security.node_identity import node_identity
from cluster.node.settings import NodeSettings, SettingsError
from ledgermq import AsyncAdmin
from raft.transport.node_proof import NAME_SERVER
from tests.cluster.secured import tls_fleet, write_authority

PEERS = {1: "127.0.0.1:1", 2: "127.0.0.1:2", 3: "127.0.0.1:3"}
OWN_NAMES = [x509.UniformResourceIdentifier(node_uri("test", 1)), x509.DNSName(node_dns_name("test", 1))]


def settings(directory: Path, **more: Any) -> NodeSettings:
    """Return the settings of node 1, whose certificate is node-1.pem."""
    given: dict[str, Any] = {"node": 1, "cluster": "test", "data": directory, "peers": PEERS, **more}
    certificate, key, ca = directory / "node-1.pem", directory / "node-1.key", directory / "ca.pem"
    return NodeSettings(**given, tls_certificate=certificate, tls_key=key, tls_ca=ca)


def watch_of(directory: Path, **more: Any) -> CertificateWatch:
    watch = node_identity(settings(directory, **more)).watch
    assert watch is not None
    return watch


def copy(directory: Path, pair: KeyPair) -> None:
    """Write the certificate and the key of node 1."""
    write_pair(directory, "node-1", pair, replace=True)


def issued(
    authority: Authority, names: Sequence[x509.GeneralName], *, over: bool = False, purposes: Sequence[Any] = ()
) -> KeyPair:
    """Return a certificate with these names, as another tool can issue it. `over`: an intermediate authority has signed
    it, whose certificate follows it in the file."""
    signer: Any = serialization.load_pem_private_key(authority.pair.key, None)
    issuer = x509.load_pem_x509_certificate(authority.pair.certificate).subject
    between = b""
    if over:
        own_key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "between")])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        middle = (
            builder(name, issuer, own_key, signer, is_authority=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(own_key.public_key()), critical=False)
            .sign(signer, hashes.SHA256())
        )
        signer, issuer, between = own_key, name, middle.public_bytes(serialization.Encoding.PEM)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a node")])
    usages = purposes or (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    made = (
        builder(subject, issuer, key, signer, is_authority=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(made.public_bytes(serialization.Encoding.PEM) + between, private)


def builder(subject: x509.Name, issuer: x509.Name, key: Any, signer: Any, *, is_authority: bool) -> Any:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def deep_authority() -> Authority:
    """Return an authority that lets intermediate authorities sign. `ledgermq certs init` makes none of this kind."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "company")])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    made = (
        builder(name, name, key, key, is_authority=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Authority("test", KeyPair(made.public_bytes(serialization.Encoding.PEM), private))


Make = Callable[[Authority], KeyPair]
ALONE = {1: "127.0.0.1:1"}

REFUSED: dict[str, tuple[Make, str]] = {
    "another node": (
        lambda authority: authority.node(2, ["localhost"]),
        "is for ledgermq://test/node/2, and this node is ledgermq://test/node/1: copy the files of this node",
    ),
    "another cluster": (
        lambda authority: Authority("prod", authority.pair).node(1, ["localhost"]),
        "is for ledgermq://prod/node/1, and this node is ledgermq://test/node/1",
    ),
    "a user": (lambda authority: authority.user("alice"), "is for ledgermq://test/user/alice, and this node is"),
    "another authority": (
        lambda authority: new_authority("test").node(1, ["localhost"]),
        "no authority in the `tls_ca` file .*ca.pem has signed the certificate .*node-1.pem: issue one with `ledgermq "
        "certs issue node 1 --cluster test",
    ),
}


@pytest.mark.parametrize("peers", [PEERS, ALONE], ids=["three nodes", "one node"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_node_refuses_a_certificate_that_is_not_its_own(
    case: str, peers: dict[int, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, why = REFUSED[case]
    authority = write_authority(tmp_path)
    copy(tmp_path, authority.node(1, ["localhost"]))
    watch = watch_of(tmp_path, peers=peers)
    before = watch.current
    copy(tmp_path, make(authority))
    with pytest.raises(SettingsError, match=why):
        node_identity(settings(tmp_path, peers=peers))
    assert watch.current is before
    assert "the certificates stay as they were" in caplog.text
    copy(tmp_path, authority.node(1, ["localhost"]))
    assert watch.current is not before, "a right file counts again"


REFUSED_BY_PEERS: dict[str, tuple[Make, str]] = {
    "no URI": (
        lambda authority: issued(authority, [x509.DNSName("localhost")]),
        "does not have the URI ledgermq://test/node/1, by which other nodes know this node",
    ),
    "no DNS name of the node": (
        lambda authority: issued(authority, [OWN_NAMES[0], x509.DNSName("localhost")]),
        f"other nodes would refuse the certificate .* It needs the DNS name {node_dns_name('test', 1)}",
    ),
    "only for servers": (
        lambda authority: issued(authority, OWN_NAMES, purposes=[ExtendedKeyUsageOID.SERVER_AUTH]),
        "must be for servers and for clients",
    ),
}


@pytest.mark.parametrize("case", REFUSED_BY_PEERS)
def test_what_peers_refuse_is_refused_if_there_are_peers(case: str, tmp_path: Path) -> None:
    make, why = REFUSED_BY_PEERS[case]
    copy(tmp_path, make(write_authority(tmp_path)))
    with pytest.raises(SettingsError, match=why):
        node_identity(settings(tmp_path))
    with pytest.raises(SettingsError, match=why):
        node_identity(settings(tmp_path, peers={}, join=True))
    watch_of(tmp_path, peers=ALONE)


def test_a_node_alone_may_have_a_certificate_of_a_public_authority(tmp_path: Path) -> None:
    """Its `tls_ca` then has the authority of its users only."""
    write_authority(tmp_path)
    copy(tmp_path, issued(new_authority("public"), [x509.DNSName("queue.example.com")]))
    watch_of(tmp_path, peers=ALONE)


ACCEPTED: dict[str, Make] = {
    "the plain one": lambda authority: issued(authority, OWN_NAMES),
    "over an intermediate authority": lambda authority: issued(authority, OWN_NAMES, over=True),
    "with the names of all nodes": lambda authority: issued(
        authority,
        [x509.UniformResourceIdentifier(node_uri("test", node)) for node in PEERS]
        + [x509.DNSName("*." + node_dns_name("test", 1).partition(".")[2])],
    ),
}


@pytest.mark.parametrize("peers", [PEERS, ALONE], ids=["three nodes", "one node"])
@pytest.mark.parametrize("case", ACCEPTED)
def test_certificates_of_another_tool_are_accepted(case: str, peers: dict[int, str], tmp_path: Path) -> None:
    authority = deep_authority()
    (tmp_path / "ca.pem").write_bytes(authority.pair.certificate)
    copy(tmp_path, ACCEPTED[case](authority))
    watch_of(tmp_path, peers=peers)


def test_one_of_several_authorities_is_enough(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The documented rotation of the authority, step by step."""
    old, new = write_authority(tmp_path), new_authority("test")
    copy(tmp_path, old.node(1, ["localhost"]))
    watch, ca = watch_of(tmp_path), tmp_path / "ca.pem"
    steps: list[Callable[[], None]] = [
        lambda: replace(ca, old.pair.certificate + new.pair.certificate),
        lambda: copy(tmp_path, new.node(1, ["localhost"])),
        lambda: replace(ca, new.pair.certificate),
    ]
    for step in steps:
        before = watch.current
        step()
        assert watch.current is not before
        watch_of(tmp_path)
    assert caplog.text == ""


def test_an_authority_is_kept_while_it_is_the_one_of_the_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = write_authority(tmp_path)
    copy(tmp_path, authority.node(1, ["localhost"]))
    watch = watch_of(tmp_path)
    before, other = watch.current, new_authority("test")
    replace(tmp_path / "ca.pem", other.pair.certificate)
    assert watch.current is before
    assert "no authority in the `tls_ca` file" in caplog.text
    copy(tmp_path, other.node(1, ["localhost"]))
    assert watch.current.ca == other.pair.certificate


def replace(path: Path, content: bytes) -> None:
    partial = path.with_name("partial")
    partial.write_bytes(content)
    os.replace(partial, path)


@pytest.mark.real
@pytest.mark.parametrize("wrong", ["another node", "another authority"])
async def test_clients_still_reach_a_node_that_got_a_wrong_certificate(wrong: str, tmp_path: Path) -> None:
    fleet = tls_fleet(tmp_path, 1)
    await fleet.start()
    try:
        own = (tmp_path / "node-1.pem").read_bytes(), (tmp_path / "node-1.key").read_bytes()
        authority, node = (
            (read_authority(tmp_path, "test"), 2) if wrong == "another node" else (new_authority("test"), 1)
        )
        copy(tmp_path, authority.node(node, ["localhost", "127.0.0.1"]))
        async with AsyncAdmin(fleet.bootstrap, ca=tmp_path / "ca.pem") as admin:
            await admin.create_topic("orders")
        await fleet.stop(1)
        with pytest.raises(SettingsError, match=r"node-1\.pem"):
            await fleet.start(1)
        copy(tmp_path, KeyPair(*own))
        await fleet.start(1)
    finally:
        await fleet.close()


@pytest.mark.parametrize(
    ("names", "cluster", "said"),
    [
        ([x509.DNSName("localhost")], "test", "would refuse the certificate .*It needs the DNS name node-0"),
        ([x509.DNSName(node_dns_name("test", NAME_SERVER))], "other", "the nodes of cluster other would refuse"),
    ],
)
def test_a_name_server_refuses_a_certificate_that_nodes_would_refuse(
    tmp_path: Path, names: list[x509.GeneralName], cluster: str, said: str
) -> None:
    authority = write_authority(tmp_path, cluster="test")
    copy(tmp_path, issued(authority, names))
    with pytest.raises(NameServerError, match=said):
        NameServerSecurity(cluster, name_server_files(tmp_path)).identity()


def test_a_name_server_takes_its_certificate_of_its_cluster_only(tmp_path: Path) -> None:
    authority = write_authority(tmp_path, cluster="test")
    copy(tmp_path, authority.name_server(["localhost"]))
    assert NameServerSecurity("test", name_server_files(tmp_path)).identity()[0] is not None
    copy(tmp_path, new_authority("test").name_server(["localhost"]))
    with pytest.raises(NameServerError, match=r"an authority in .*ca.pem must have signed it"):
        NameServerSecurity("test", name_server_files(tmp_path)).identity()


def name_server_files(directory: Path) -> CertificateFiles:
    return CertificateFiles(directory / "node-1.pem", directory / "node-1.key", directory / "ca.pem")
