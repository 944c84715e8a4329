"""RocketMQ secrets on real nodes with TLS: made, used, rotated and removed, and never in a log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.node.security.secret_keys import SecretKeyError, SecretKeyFile
from ledger.access.rocketmq import sign_date
from ledger.errors import AuthenticationError, InvalidArgumentError, LedgerError, PermissionDeniedError
from ledgermq import AsyncAdmin
from raft.transport.cluster_secret import new_secret
from tests.cluster.fleet import Fleet
from tests.cluster.secured import PASSWORD, tls_fleet, write_secret
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

NOW_MS, DATE = 1_767_323_045_000, "20260102T030405Z"


async def secured(directory: Path, **settings: object) -> Fleet:
    """Return a running node with TLS and its first administrator."""
    (directory / "password").write_text(PASSWORD)
    fleet = tls_fleet(
        directory, 1, authentication=True, first_administrator_password_file=directory / "password", **settings
    )
    await fleet.start()

    async def begun() -> bool:
        try:
            async with admin_of(fleet) as admin:
                return bool(await admin.list_users())
        except LedgerError:
            return False

    await eventually(begun, "the cluster has its first administrator")
    return fleet


def admin_of(fleet: Fleet, user: str = "admin", password: str = PASSWORD) -> AsyncAdmin:
    return AsyncAdmin(fleet.bootstrap, ca=fleet.directory / "ca.pem", user=user, password=password)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = await secured(tmp_path, secrets_key_file=write_secret(tmp_path / "secrets.key"))
    try:
        yield fleet
    finally:
        await fleet.close()


def prove(fleet: Fleet, name: str, secret: str, *, now_ms: int = NOW_MS, is_tls: bool = True) -> str:
    """Prove a caller as the RocketMQ front will. Return its name."""
    access = fleet.running[1]._access
    assert access.authorizer is not None
    header = (
        f"MQv2-HMAC-SHA1 Credential={name}, SignedHeaders=x-mq-date-time, Signature={sign_date(secret, DATE).hex()}"
    )
    return access.rocketmq.prove(header, DATE, access.authorizer.access, now_ms, is_tls=is_tls).user


async def test_a_secret_proves_its_user_over_tls_within_five_minutes(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        async with admin_of(fleet) as admin:
            await admin.add_user("alice", PASSWORD)
            made = await admin.make_rocketmq_secret("alice")
            assert made.access_key == "alice"
            assert made.secret not in repr(made)
            assert [one.has_rocketmq_secret for one in await admin.list_users()] == [False, True]
            assert prove(fleet, "alice", made.secret) == "alice"
            for wrong in (
                ("alice", made.secret + "x", NOW_MS, True),
                ("admin", made.secret, NOW_MS, True),
                ("nobody", made.secret, NOW_MS, True),
                ("alice", PASSWORD, NOW_MS, True),
                ("alice", made.secret, NOW_MS + 301_000, True),
                ("alice", made.secret, NOW_MS, False),
            ):
                with pytest.raises(AuthenticationError, match="the access key, its secret or the date"):
                    prove(fleet, wrong[0], wrong[1], now_ms=wrong[2], is_tls=wrong[3])
            replaced = await admin.make_rocketmq_secret("alice")
            with pytest.raises(AuthenticationError):
                prove(fleet, "alice", made.secret)
            assert prove(fleet, "alice", replaced.secret) == "alice"
    audited = [each.getMessage() for each in caplog.records if each.name == "ledgermq.audit"]
    assert any("MakeRocketmqSecret name='alice'" in line for line in audited)
    assert made.secret not in caplog.text
    await fleet.stop()
    for file in fleet.directory.rglob("*"):
        assert not file.is_file() or made.secret.encode() not in file.read_bytes(), file


async def test_a_user_makes_its_own_secret_and_a_new_password_ends_it(fleet: Fleet) -> None:
    async with admin_of(fleet) as admin:
        await admin.add_user("alice", PASSWORD)
        await admin.add_user("bob", PASSWORD)
        async with admin_of(fleet, "alice") as alice:
            made = await alice.make_rocketmq_secret("alice")
            with pytest.raises(PermissionDeniedError):
                await alice.make_rocketmq_secret("bob")
        assert prove(fleet, "alice", made.secret) == "alice"
        await admin.rotate_user("alice", "another password")
        with pytest.raises(AuthenticationError):
            prove(fleet, "alice", made.secret)
        made = await admin.make_rocketmq_secret("alice")
        await admin.remove_rocketmq_secret("alice")
        with pytest.raises(AuthenticationError):
            prove(fleet, "alice", made.secret)


async def test_without_a_key_or_without_tls_there_are_no_secrets(tmp_path: Path) -> None:
    fleet = await secured(tmp_path)
    try:
        async with admin_of(fleet) as admin:
            with pytest.raises(InvalidArgumentError, match="set `secrets_key_file` on all nodes"):
                await admin.make_rocketmq_secret("admin")
    finally:
        await fleet.close()
    plain = Fleet(tmp_path / "plain", 1, secrets_key_file=write_secret(tmp_path / "secrets.key"))
    await plain.start()
    try:
        await plain.leader()
        async with AsyncAdmin(plain.bootstrap) as admin:
            with pytest.raises(InvalidArgumentError, match="accepted only over TLS"):
                await admin.make_rocketmq_secret("admin")
    finally:
        await plain.close()


def test_two_keys_during_a_rotation(tmp_path: Path) -> None:
    old, new, path = new_secret(), new_secret(), tmp_path / "key"
    write_secret(path, old)
    keys = SecretKeyFile(path)
    first = keys.encrypt(b"secret", b"alice")
    assert first != keys.encrypt(b"secret", b"alice"), "each encryption has its own nonce"
    write_secret(path, new, old)
    second = keys.encrypt(b"secret", b"alice")
    assert first[1:5] != second[1:5], "the first key of the file encrypts"
    assert keys.decrypt(first, b"alice") == keys.decrypt(second, b"alice") == b"secret"
    assert keys.decrypt(first, b"bob") is None, "a secret belongs to its user"
    for at in range(len(second)):
        assert keys.decrypt(second[:at] + bytes([second[at] ^ 1]) + second[at + 1 :], b"alice") is None
        assert keys.decrypt(second[:at], b"alice") is None
    write_secret(path, new)
    assert keys.decrypt(first, b"alice") is None
    assert keys.decrypt(second, b"alice") == b"secret"
    path.write_text("no key")
    assert keys.decrypt(second, b"alice") == b"secret", "a file that became unusable changes nothing"


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = write_secret(tmp_path / "key")
    path.chmod(0o640)
    with pytest.raises(SecretKeyError, match="others can read"):
        SecretKeyFile(path)
    for text in ("", "xyz", "00" * 31, "\n".join(["00" * 32] * 3)):
        with pytest.raises(SecretKeyError, match="needs one or two lines"):
            SecretKeyFile(write_secret(tmp_path / "key", text))
