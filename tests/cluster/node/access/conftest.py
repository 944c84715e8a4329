"""The node of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger.errors import AuthenticationError, LedgerError
from tests.cluster.fleet import Fleet
from tests.cluster.node.access.site import PASSWORD, Site
from tests.cluster.secured import write_secret
from tests.cluster.waiter import eventually


@pytest.fixture
async def site(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    fleet = Fleet(
        tmp_path,
        1,
        authentication=True,
        cluster_secret_file=write_secret(tmp_path / "secret"),
        first_administrator_password_file=tmp_path / "password",
        **getattr(request, "param", {}),
    )
    await fleet.start()
    try:
        found = Site(fleet)

        async def begun() -> bool:
            try:
                async with found.client("admin"):
                    return True
            except AuthenticationError:
                raise  # the right password is never wrong, also when the cluster has just started
            except LedgerError:
                return False

        await eventually(begun, "the node serves its first administrator")
        yield found
    finally:
        await fleet.close()
