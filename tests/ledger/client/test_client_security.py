"""The security settings of clients: where they come from, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.client.connection.security import NONE, Security, security_of
from ledger.errors import InvalidArgumentError
from ledgermq import AsyncProducer

HERE = ["127.0.0.1:9871", "localhost:9871", "[::1]:9871"]
AWAY = ["queue.example.com:9871"]


def found(options: dict[str, Any], servers: Any = HERE, **environment: str) -> Security:
    return security_of(options, servers, {"LEDGERMQ_PROFILE_FILE": "/nowhere/profiles.toml", **environment})


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.toml"
    (tmp_path / "ca.pem").write_text("a certificate")
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
