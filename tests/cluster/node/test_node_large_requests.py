"""Large requests are refused before the node holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.cluster.fleet import Fleet

pytestmark = pytest.mark.real

ANY_SIZE = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))


@pytest.mark.parametrize(
    ("compression", "size", "code"),
    [
        (None, 12 << 20, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (grpc.Compression.Gzip, 12 << 20, grpc.StatusCode.UNIMPLEMENTED),
    ],
)
@pytest.mark.parametrize(
    "method", ["/ledger.v1.Broker/Fetch", "/raft.v1.Raft/Introduce", "/ledger.v1.Security/AddUser"]
)
async def test_a_large_request_is_refused(
    tmp_path: Path, compression: grpc.Compression | None, size: int, code: grpc.StatusCode, method: str
) -> None:
    fleet = Fleet(tmp_path, 1)
    await fleet.start()
    try:
        async with aio.insecure_channel(fleet.address(1), options=ANY_SIZE, compression=compression) as channel:
            call: Any = channel.unary_unary(method)
            with pytest.raises(aio.AioRpcError) as refused:
                await call(bytes(size), timeout=20)
            assert refused.value.code() is code
    finally:
        await fleet.close()
