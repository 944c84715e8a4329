"""The connection of a Spark process without a cluster."""

from __future__ import annotations

import threading

import pytest

from ledger.client.connection.cluster_client import ClusterClient
from ledger.errors import AuthenticationError, LedgerError, UnavailableError
from ledger.spark.source.connection import SparkConnection


@pytest.mark.parametrize("error", [AuthenticationError("a wrong password"), UnavailableError("no node answers")])
def test_a_connection_that_cannot_be_opened_leaves_no_thread_behind(
    error: LedgerError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark runs a failed task again in the same process, and each run opens a connection."""

    async def start(_: ClusterClient) -> None:
        raise error

    monkeypatch.setattr(ClusterClient, "start", start)
    with pytest.raises(type(error), match=str(error)):
        SparkConnection(("127.0.0.1:1",))
    assert "ledgermq-spark" not in [thread.name for thread in threading.enumerate()]
