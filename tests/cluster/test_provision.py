"""`ledgermq certs provision` makes the files of a secured cluster, and keeps what is there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509

from cluster.authority import AuthorityError, read_authority, write_pair
from cluster.node.security.certificates import CertificateFiles, read_certificates
from cluster.provision import PASSWORD_FILE, RENEW_DAYS, SECRETS_KEY_FILE, provision

HOSTS = {1: ["node-1", "localhost", "127.0.0.1"], 2: ["node-2", "localhost"]}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "authority", tmp_path / "nodes"


def test_it_makes_what_the_nodes_need_and_no_key_of_the_authority(places: tuple[Path, Path]) -> None:
    authority, directory = places
    made = provision(authority, directory, "test", HOSTS)
    assert made == ["ca.pem", PASSWORD_FILE, SECRETS_KEY_FILE, "node-1.pem", "node-2.pem"]
    assert sorted(contents(directory)) == [
        PASSWORD_FILE, "ca.pem", "node-1.key", "node-1.pem", "node-2.key", "node-2.pem", SECRETS_KEY_FILE,
    ]  # fmt: skip
    for node in HOSTS:
        files = (directory / f"node-{node}.pem", directory / f"node-{node}.key", directory / "ca.pem")
        read_certificates(CertificateFiles(*files))
    for name in (PASSWORD_FILE, SECRETS_KEY_FILE, "node-1.key"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600


def test_again_it_changes_nothing(places: tuple[Path, Path]) -> None:
    provision(*places, "test", HOSTS)
    before = [contents(place) for place in places]
    assert provision(*places, "test", HOSTS) == []
    assert [contents(place) for place in places] == before


def test_another_host_another_authority_and_the_near_end_renew_a_certificate(places: tuple[Path, Path]) -> None:
    authority, directory = places
    provision(*places, "test", HOSTS)
    assert provision(*places, "test", {**HOSTS, 2: ["node-2", "queue.example.com"]}) == ["node-2.pem"]

    old = read_authority(authority, "test").node(1, HOSTS[1], days=RENEW_DAYS - 1)
    write_pair(directory, "node-1", old, replace=True)
    assert provision(*places, "test", {1: HOSTS[1]}) == ["node-1.pem"]

    password = (directory / PASSWORD_FILE).read_bytes()
    for name in ("ca.pem", "ca.key"):
        (authority / name).unlink()
    assert provision(*places, "test", HOSTS) == ["ca.pem", "node-1.pem", "node-2.pem"]
    both = x509.load_pem_x509_certificates((directory / "ca.pem").read_bytes())
    assert len(both) == 2, "the old authority stays until an operator removes it"
    assert (directory / PASSWORD_FILE).read_bytes() == password


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuthorityError, match="cannot be written"):
        provision(tmp_path / "authority", tmp_path / "file", "test", HOSTS)
