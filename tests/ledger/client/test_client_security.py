"""The security settings of clients: where they come from, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.authority import new_authority
from ledger.client.connection.security import NONE, Security, security_of
from ledger.errors import InvalidArgumentError
from ledgermq import AsyncProducer

HERE = ["127.0.0.1:9871", "localhost:9871", "[::1]:9871"]
AWAY = ["queue.example.com:9871"]
AUTHORITY = new_authority("test")


def found(options: dict[str, Any], servers: Any = HERE, **environment: str) -> Security:
    return security_of(options, servers, {"LEDGERMQ_PROFILE_FILE": "/nowhere/profiles.toml", **environment})


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.toml"
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.pair.certificate)
    path.write_text(
        f'default = "prod"\n[profiles.prod]\nservers = "a:1"\nca = "{tmp_path}/ca.pem"\nuser = "billing"\n'
        'password = "from the profile"\n[profiles.plain]\n'
    )
    path.chmod(0o600)
    return path


def test_without_settings_a_client_proves_nothing() -> None:
    assert found({}) == NONE
    assert found({"user": None, "tls": None}) == NONE


def test_arguments_win_over_the_environment_and_this_over_the_profile(profiles: Path) -> None:
    environment = {"LEDGERMQ_PROFILE_FILE": str(profiles)}
    assert found({}, **environment).user == "billing"
    assert found({}, **environment).tls
    environment |= {"LEDGERMQ_USER": "alice", "LEDGERMQ_PASSWORD": "from the environment"}
    assert found({}, **environment).current_password() == "from the environment"
    assert found({"user": "bob", "password": "given"}, **environment).current_password() == "given"


def test_a_user_never_meets_the_password_of_another_place(profiles: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="User alice has no password here"):
        found({"user": "alice"}, LEDGERMQ_PROFILE_FILE=str(profiles))


def test_a_profile_is_chosen_by_name(profiles: Path) -> None:
    environment = {"LEDGERMQ_PROFILE_FILE": str(profiles)}
    assert found({"profile": "plain"}, **environment) == NONE
    assert found({}, LEDGERMQ_PROFILE="plain", **environment) == NONE
    with pytest.raises(InvalidArgumentError, match=r"no profile 'x' in .*: the profiles are plain, prod"):
        found({"profile": "x"}, **environment)


def test_a_profile_file_with_a_password_is_for_its_owner_only(profiles: Path) -> None:
    profiles.chmod(0o640)
    with pytest.raises(InvalidArgumentError, match="run `chmod 600"):
        found({}, LEDGERMQ_PROFILE_FILE=str(profiles))


@pytest.mark.parametrize("text", ["[", "profiles = 3", "[profiles]\nprod = 1"])
def test_a_strange_profile_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=r"profiles\.toml"):
        found({}, LEDGERMQ_PROFILE_FILE=str(path))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"password": "x"}, "a password without a user"),
        ({"user": "a", "password": "x", "token": "t"}, "not both"),
        ({"client_key": "/k"}, "together: both or none"),
        ({"ca": "/nowhere/ca.pem"}, "`ca`: /nowhere/ca.pem cannot be read: No such file"),
        ({"tls": False, "ca": "/nowhere"}, "`tls` is False"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        found(options)


BROKEN_BLOCK = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a text\n",
        b"\x00\xff",
        AUTHORITY.pair.certificate[:200],
        AUTHORITY.pair.key,
        BROKEN_BLOCK,
        b"\xef\xbb\xbf" + AUTHORITY.pair.certificate,
    ],
    ids=["empty", "text", "bytes", "cut off", "a key", "broken", "a byte order mark"],
)
def test_a_file_without_a_certificate_is_refused_by_its_setting_and_name(tmp_path: Path, content: bytes) -> None:
    """Before, gRPC logged twelve lines, and the client said that no node answers."""
    path = tmp_path / "ca.pem"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=rf"^`ca`: {path} has no certificate in PEM form: give the file"):
        found({}, LEDGERMQ_CA=str(path))
    key = tmp_path / "key.pem"
    key.write_bytes(AUTHORITY.pair.key)
    with pytest.raises(InvalidArgumentError, match=rf"`client_certificate`: {path} has no certificate in PEM form"):
        found({"client_certificate": path, "client_key": key})


@pytest.mark.parametrize("content", [b"", b"a text\n", AUTHORITY.pair.certificate], ids=["empty", "text", "no key"])
def test_a_file_without_a_key_is_refused_by_its_setting_and_name(tmp_path: Path, content: bytes) -> None:
    certificate, key = tmp_path / "alice.pem", tmp_path / "alice.key"
    certificate.write_bytes(AUTHORITY.user("alice").certificate)
    key.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=rf"`client_key`: {key} has no private key in PEM form"):
        found({"client_certificate": certificate, "client_key": key})


@pytest.mark.parametrize(
    "content",
    [
        AUTHORITY.pair.certificate + new_authority("new").pair.certificate,
        "# Der Schlüssel\n".encode() + AUTHORITY.pair.certificate.replace(b"\n", b"\r\n"),
        AUTHORITY.pair.certificate + BROKEN_BLOCK,
        AUTHORITY.pair.certificate.replace(b"CERTIFICATE", b"TRUSTED CERTIFICATE"),
    ],
    ids=["two authorities", "a comment", "a broken one later", "trusted"],
)
def test_what_grpc_can_read_is_accepted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(content)
    assert found({"ca": path}).tls


def test_the_files_of_a_client_certificate_are_accepted(tmp_path: Path) -> None:
    pair = AUTHORITY.user("alice")
    certificate, key = tmp_path / "alice.pem", tmp_path / "alice.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    assert found({"client_certificate": certificate, "client_key": key}).proves


def test_nothing_is_proven_over_a_network_without_tls_unless_it_is_said() -> None:
    proof = {"user": "alice", "password": "secret"}
    assert not found(proof, HERE).tls
    with pytest.raises(InvalidArgumentError, match="over a network without TLS"):
        found(proof, AWAY)
    assert found({**proof, "tls": True}, AWAY).tls
    assert not found({**proof, "tls": False}, AWAY).tls


def test_secrets_are_in_no_text() -> None:
    security = found({"user": "alice", "password": "hunter22"})
    assert "hunter22" not in f"{security!r} {security}"


def test_an_unknown_argument_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match="AsyncProducer has no setting pasword: did you mean password"):
        AsyncProducer("127.0.0.1:9871", pasword="x")  # type: ignore[call-arg]
