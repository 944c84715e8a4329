"""HTTP paths, the audit log, and quotas of users."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from grpc import aio

from ledger.access.mechanism import MECHANISM
from ledger.errors import ThrottledError
from tests.cluster.fleet import sample_batch
from tests.cluster.node.access.site import PASSWORD, Site

pytestmark = pytest.mark.real


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


async def test_paths_with_a_password_or_a_delegated_token(site: Site) -> None:
    async with site.client("admin") as admin:
        await admin.add_user("prometheus", "describe cluster")
        await admin.add_user("spark", "read-log cluster")
        scraper, spark = basic("prometheus", PASSWORD), basic("spark", PASSWORD)
        assert await site.http("/metrics", headers=scraper) == 200
        assert await site.http("/metrics", headers=basic("prometheus", "wrong password")) == 401
        assert await site.http("/shards", headers=scraper) == 403
        assert await site.http("/shards", headers=spark) == 200
        assert await site.http("/shards/0/segments", headers=spark) == 403, "shard 0 holds the verifiers of passwords"
        assert await site.http("/shards/%2b0/segments", headers=spark) in (403, 404)
        assert await site.http("/shards/0/segments", headers=basic("admin", PASSWORD)) == 200


async def test_administrative_acts_are_recorded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="ledgermq.audit"):
        async with site.client("admin") as admin:
            await admin.create_topic("orders")
            await admin.add_user("mallory")
            async with site.client("mallory") as mallory:
                with pytest.raises(aio.AioRpcError):
                    await mallory.create_topic("mine")
    lines = [record.getMessage() for record in caplog.records if record.name == "ledgermq.audit"]
    assert any(
        "admin from ipv4:" in line and "CreateTopic name='orders'" in line and line.endswith("done") for line in lines
    )
    assert any(line.startswith("mallory") and "no right to create topic:mine" in line for line in lines)
    assert not any("stored_key" in line for line in lines)
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("site", [{"produce_quota_messages_per_s": 2}], indirect=True)
async def test_quotas_count_users_and_not_hosts(site: Site) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        for user in ("alice", "bob"):
            await admin.add_user(user, "publish topic:orders")
        async with site.client("alice") as alice, site.client("alice") as again, site.client("bob") as bob:
            assert await alice.produce(sample_batch(orders, [b"x"] * 4, producer_id=1)) == [None]
            for client in (alice, again):
                (error,) = await client.produce(sample_batch(orders, producer_id=2))
                assert isinstance(error, ThrottledError)
            assert await bob.produce(sample_batch(orders, producer_id=3)) == [None]


async def test_reading_the_logs_bytes_over_http_is_recorded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async with site.client("admin") as admin:
        await admin.add_user("spark", "read-log cluster")
    with caplog.at_level("INFO", logger="ledgermq.audit"):
        assert await site.http("/shards/0/segments", headers=basic("admin", PASSWORD)) == 200
        assert await site.http("/shards/0/segments", headers=basic("spark", PASSWORD)) == 403
        assert await site.http("/metrics", headers=basic("admin", PASSWORD)) == 200
    lines = [record.getMessage() for record in caplog.records if record.name == "ledgermq.audit"]
    assert [line.split(" from ")[0] for line in lines] == ["admin", "spark"]
    assert lines[0].endswith("GET /shards/0/segments: allowed")
    assert "no right to administer cluster" in lines[1]


async def test_a_wrong_password_over_http_costs_the_same_for_an_unknown_user(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    mechanism = MECHANISM

    class Counted:
        @staticmethod
        def make_auth_info(password: str, *given: Any) -> Any:
            computed.append(password)
            return mechanism.make_auth_info(password, *given)

    monkeypatch.setattr("cluster.node.http.http_rights.MECHANISM", Counted)
    for user in ("admin", "nobody"):
        assert await site.http("/metrics", headers=basic(user, "wrong password")) == 401
    assert computed == ["wrong password"] * 2
