"""Rules of docs/SECURITY.md that no other test shows: certificates that do not count, removed nodes, ends of tokens,
TLS versions, modes of files, and quotas of users."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import cluster.authority as authority_module
from cluster.authority import Authority, KeyPair, new_authority
from cluster.cli.cluster.command import init
from cluster.cli.security.certs import certs
from cluster.cli.security.profile import profile
from cluster.local.credentials import ClusterCredentials
from cluster.local.plan import ClusterPlan
from cluster.node.security.certificate_proof import CertificateCredentials, proven_uris
from cluster.node.security.certificates import CertificateError, CertificateFiles, CertificateWatch, node_uri
from cluster.node.security.rights_guard import RightsGuard
from ledger.access.certificate import sign
from ledger.access.rules import CLUSTER, Rule
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import REMOVED_NODE, Caller, present_caller
from ledger.broker.access.proofs import prove_token
from ledger.broker.access.sessions import Sessions
from ledger.broker.replicas import Replicas
from ledger.errors import AuthenticationError
from ledger.state.access_table import AccessTable, DelegatedToken, User
from raft.transport.node_proof import Proof
from tests.cluster.fleet import Fleet
from tests.cluster.secured import node_files, tls_fleet, write_authority, write_secret

CONTENT = b"what both sides chose at random"


# -- certificates


def issued(authority: Authority, monkeypatch: pytest.MonkeyPatch, *, days: int, age_days: int) -> KeyPair:
    """Return the certificate of node 1, as it was issued `age_days` days ago."""

    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(days=age_days)

    with monkeypatch.context() as patch:
        patch.setattr(authority_module, "datetime", Then)
        return authority.node(1, ["localhost"], days)


def self_signed() -> KeyPair:
    """Return a certificate with the right names that no authority has signed."""
    own = new_authority("prod")
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(node_uri("prod", 1))])
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.load_pem_x509_certificate(own.pair.certificate).subject
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(made.public_bytes(serialization.Encoding.PEM), private)


CERTIFICATES: dict[str, tuple[Callable[[Authority, pytest.MonkeyPatch], KeyPair], str]] = {
    "right": (lambda authority, patch: authority.node(1, ["localhost"]), ""),
    "another node": (lambda authority, patch: authority.node(2, ["localhost"]), "is not the one of node 1"),
    "a user": (lambda authority, patch: authority.user("node"), "is not the one of node 1"),
    "another cluster, same authority": (
        lambda authority, patch: Authority("test", authority.pair).node(1, ["localhost"]),
        "is not the one of node 1",
    ),
    "another authority": (
        lambda authority, patch: new_authority("prod").node(1, ["localhost"]),
        "no valid certificate",
    ),
    "self-signed": (lambda authority, patch: self_signed(), "no valid certificate"),
    "expired": (lambda authority, patch: issued(authority, patch, days=1, age_days=30), "no valid certificate"),
    "not yet valid": (lambda authority, patch: issued(authority, patch, days=90, age_days=-30), "no valid certificate"),
}


@pytest.mark.parametrize("case", CERTIFICATES)
def test_which_certificates_prove_a_node(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = write_authority(tmp_path, "prod")
    files = node_files(tmp_path, authority, 2, "receiver")
    watch = CertificateWatch(CertificateFiles(files["tls_certificate"], files["tls_key"], files["tls_ca"]))
    make, flaw = CERTIFICATES[case]
    pair = make(authority, monkeypatch)
    proof = Proof(certificates=pair.certificate, signature=sign(pair.key, CONTENT))
    found = CertificateCredentials("prod", watch).flaw_of_caller(CONTENT, proof, 1)
    assert flaw in found
    assert bool(found) == bool(flaw)
    # A signature over other random numbers, as in a recorded proof, is of no use.
    assert proven_uris(watch.current.ca, pair.certificate, proof.signature, CONTENT + b"!") is None


def test_a_key_of_an_unknown_kind_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = write_authority(tmp_path)
    files = node_files(tmp_path, authority, 1)
    watch = CertificateWatch(CertificateFiles(files["tls_certificate"], files["tls_key"], files["tls_ca"]))
    before = watch.current
    # PKCS #8 with an algorithm that nobody knows (1.2.3.4).
    content = bytes.fromhex("3011020100300506032a03040405deadbeef01")
    files["tls_key"].write_text(
        f"-----BEGIN PRIVATE KEY-----\n{base64.b64encode(content).decode()}\n-----END PRIVATE KEY-----\n"
    )
    assert watch.current is before
    assert "the certificates stay as they were" in caplog.text
    node_files(tmp_path, authority, 1)
    assert watch.current is not before, "a right file counts again"


def test_the_log_of_a_node_says_that_its_certificate_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After the end nobody can connect, and a client cannot ask the node why."""
    authority, hours = write_authority(tmp_path), [0]
    files = node_files(tmp_path, authority, 1, days=20)
    began = datetime.now(UTC)
    watch = CertificateWatch(
        CertificateFiles(files["tls_certificate"], files["tls_key"], files["tls_ca"]),
        now=lambda: began + timedelta(hours=hours[0]),
    )

    def warnings_at(hour: int) -> list[str]:
        caplog.clear()
        hours[0] = hour
        _ = watch.current, watch.current
        return [record.levelname for record in caplog.records if "certs issue" in record.getMessage()]

    ends = 20 * 24
    assert warnings_at(ends - 15 * 24) == []
    assert warnings_at(ends - 13 * 24) == ["WARNING"]
    assert warnings_at(ends - 13 * 24 + 1) == [], "it was said an hour before"
    assert warnings_at(ends + 1) == ["ERROR"]
    assert f"the certificate {files['tls_certificate']} ended on" in caplog.text
    assert warnings_at(0) == []
    node_files(tmp_path, authority, 1, days=90)
    assert warnings_at(ends + 7) == []


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    files = node_files(tmp_path, write_authority(tmp_path), 1)
    files["tls_key"].chmod(0o644)
    with pytest.raises(CertificateError, match="others can read the key"):
        CertificateWatch(CertificateFiles(files["tls_certificate"], files["tls_key"], files["tls_ca"]))


@pytest.mark.real
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_nodes_speak_tls_1_2_or_newer(tmp_path: Path) -> None:
    fleet = tls_fleet(tmp_path, 1)
    await fleet.start()
    try:
        for address in (fleet.address(1), fleet.http(1)):
            assert await handshake(address, tmp_path / "ca.pem", ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
            assert await handshake(address, tmp_path / "ca.pem", ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
            assert await handshake(address, tmp_path / "ca.pem", ssl.TLSVersion.TLSv1_1) == ""
    finally:
        await fleet.close()


async def handshake(address: str, ca: Path, version: ssl.TLSVersion) -> str:
    """Return the version of TLS that a client gets which knows this version only, or "" if it is refused."""
    context = ssl.create_default_context(cafile=str(ca))
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.set_alpn_protocols(["h2"])
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, version
    if version is ssl.TLSVersion.TLSv1_3:
        context.minimum_version = version
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    except (ssl.SSLError, ConnectionError):
        return ""
    found = writer.get_extra_info("ssl_object").version()
    writer.close()
    return str(found)


# -- a node that was removed


async def test_a_removed_node_is_no_caller_for_nodes_any_more() -> None:
    replicas = Replicas()
    assert replicas.lists_node(7), "nothing is known before the first start"
    members: dict[int, object] = {1: object(), 2: object()}
    newest = SimpleNamespace(members={1: object(), 2: object(), 3: object()})
    first = SimpleNamespace(
        shard=0,
        membership=SimpleNamespace(configuration=SimpleNamespace(members=members)),
        newest_configuration=lambda: newest,
    )
    replicas._by_shard[0] = cast("Any", first)
    assert [node for node in range(1, 5) if replicas.lists_node(node)] == [1, 2, 3]
    newest.members = {1: object()}
    assert replicas.lists_node(2), "the removal is not committed yet"
    members.pop(2)
    assert not replicas.lists_node(2)


class Proven:
    """Implements NodeCallers: every call is one of node 2."""

    are_needed = True

    def node_of(self, context: object) -> int:
        return 2


async def test_a_removed_node_may_ask_who_the_members_are_and_sees_no_topics() -> None:
    replicas = Replicas()
    members: dict[int, object] = {1: object(), 2: object()}
    first = SimpleNamespace(
        shard=0,
        knows_the_end=True,
        state=SimpleNamespace(access=AccessTable()),
        membership=SimpleNamespace(configuration=SimpleNamespace(members=members)),
        newest_configuration=lambda: None,
    )
    replicas._by_shard[0] = cast("Any", first)
    authorizer = Authorizer(replicas, now_ms=lambda: 0, monotonic_ms=lambda: 0.0)
    guard = RightsGuard(replicas, authorizer, Sessions(lambda: 0.0), Proven(), authentication=True)
    callers: list[Caller] = []

    async def behavior(request: object, context: object) -> None:
        callers.append(present_caller())

    async def call(method: str) -> None:
        await guard.call(f"/ledger.v1.{method}", behavior)(None, cast("Any", Refusing()))

    await call("Operations/GetMembers")
    members.pop(2)
    for method in ("Operations/GetMembers", "Broker/GetRoute"):
        await call(method)
    assert callers[1:] == [REMOVED_NODE, REMOVED_NODE]
    assert not authorizer.may(REMOVED_NODE, "describe", CLUSTER)
    with pytest.raises(PermissionError):
        await call("Operations/OpenTopic")


class Refusing:
    """The context of a call without metadata, which raises PermissionError if the call is refused."""

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, code: object, details: str) -> None:
        raise PermissionError(details)


# -- tokens


class Clocks:
    def __init__(self) -> None:
        self.now_ms = 1_000
        self.access = AccessTable()
        replica = SimpleNamespace(state=SimpleNamespace(access=self.access), knows_the_end=True)
        replicas = SimpleNamespace(first=replica, topics=replica)
        self.authorizer = Authorizer(cast("Replicas", replicas), now_ms=lambda: self.now_ms, monotonic_ms=lambda: 0.0)


@pytest.fixture
def clocks() -> Clocks:
    clocks = Clocks()
    clocks.access.put(User("alice", None, 3), [Rule("alice", "describe", "cluster")])
    return clocks


def test_a_delegated_token_ends_by_the_clock_and_with_its_users_password(clocks: Clocks) -> None:
    token = DelegatedToken(b"d" * 32, "alice", 3, (Rule("alice", "describe", "cluster"),), 2_000)
    clocks.access.put_token(token)
    caller = Caller("alice", 3, token)
    assert clocks.authorizer.may(caller, "describe", CLUSTER)
    assert not clocks.authorizer.may(caller, "administer", CLUSTER)
    clocks.now_ms = 2_000
    with pytest.raises(AuthenticationError, match="the delegated token has ended"):
        clocks.authorizer.may(caller, "describe", CLUSTER)
    clocks.now_ms = 1_000
    clocks.access.rotate(User("alice", None, 9))
    for proof in (caller, Caller("alice", 3)):
        with pytest.raises(AuthenticationError):
            clocks.authorizer.may(proof, "describe", CLUSTER)
    with pytest.raises(AuthenticationError):
        prove_token("unknown", clocks.access, 1_000)


# -- files


@contextmanager
def umask_0() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def readable_by_others(directory: Path) -> set[str]:
    found = [path for path in directory.rglob("*") if path.is_file()]
    assert found
    return {path.name for path in found if stat.S_IMODE(path.stat().st_mode) & 0o007}


def test_no_command_writes_a_secret_that_others_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERMQ_PROFILE_FILE", str(tmp_path / "own" / "profiles.toml"))
    directory = str(tmp_path / "certs")
    with umask_0():
        for command, arguments in (
            (init, ["--out", str(tmp_path / "cluster.secret")]),
            (certs, ["init", "--cluster", "prod", "--directory", directory]),
            (certs, ["issue", "node", "1", "--cluster", "prod", "--directory", directory]),
            (certs, ["issue", "user", "alice", "--cluster", "prod", "--directory", directory]),
            (profile, ["add", "prod", "--servers", "localhost:1", "--ca", "ca.pem"]),
        ):
            done = CliRunner().invoke(command, arguments)
            assert done.exit_code == 0, done.output
        ClusterCredentials(tmp_path / "dev").node_settings(ClusterPlan("prod", (1,), "async", 1 << 20, secure=True), 1)
    # Certificates are public.
    assert {name for name in readable_by_others(tmp_path) if not name.endswith(".pem")} == set()


@pytest.mark.real
async def test_no_file_of_a_nodes_data_can_be_read_by_others(tmp_path: Path) -> None:
    with umask_0():
        fleet = Fleet(tmp_path, 1, cluster_secret_file=write_secret(tmp_path / "secret"))
        await fleet.start()
        try:
            await fleet.create_topic()
        finally:
            await fleet.close()
    data = fleet.data(1)
    assert readable_by_others(data) == set()
    directories = [data, *(path for path in data.rglob("*") if path.is_dir())]
    assert not [path for path in directories if stat.S_IMODE(path.stat().st_mode) & 0o007]
