"""The password of the first administrator: a new cluster needs one that is allowed, a running one needs none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.node.node import Node
from cluster.node.settings import SettingsError
from ledger.errors import LedgerError
from tests.cluster.fleet import Fleet
from tests.cluster.node.access.site import Site
from tests.cluster.secured import write_secret
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    return tmp_path / "password"


@pytest.fixture
def fleet(tmp_path: Path, password_file: Path) -> Fleet:
    return Fleet(
        tmp_path,
        1,
        authentication=True,
        cluster_secret_file=write_secret(tmp_path / "secret"),
        first_administrator_password_file=password_file,
    )


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        ("", "A password needs 8 to 1024 characters; this one has 0"),
        ("secret", "A password needs 8 to 1024 characters; this one has 6"),
        ("pass\tword", "characters that no password may have (control characters forbidden)"),
    ],
)
def test_a_new_node_refuses_a_password_that_is_not_allowed(
    fleet: Fleet, password_file: Path, password: str, reason: str
) -> None:
    """Otherwise the cluster would run without a user, and nothing would say why."""
    password_file.write_text(password + "\n")
    with pytest.raises(SettingsError) as refused:
        Node(fleet.settings(1))
    assert str(refused.value).startswith(f"`first_administrator_password_file`: {password_file}: ")
    assert reason in str(refused.value)
    assert not fleet.data(1).exists()


def test_a_new_node_needs_the_file(fleet: Fleet) -> None:
    with pytest.raises(SettingsError, match=r"`first_administrator_password_file`: .*No such file"):
        Node(fleet.settings(1))


async def test_a_node_that_joins_needs_no_file(fleet: Fleet) -> None:
    await Node(fleet.settings(1, join=True)).stop()


async def test_a_node_starts_again_after_the_file_was_removed(site: Site, tmp_path: Path) -> None:
    """docs/OPERATING.md says that the file may be removed."""
    await site.fleet.stop()
    (tmp_path / "password").unlink()
    await site.fleet.start()

    async def proves() -> bool:
        try:
            async with site.client("admin"):
                return True
        except LedgerError:
            return False

    await eventually(proves, "the administrator can prove itself")
