"""RocketMQ's service Admin: every method has an answer of its own."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.rocketmq import service
from ledger.rocketmq.admin_service import AdminFront
from ledger.rocketmq.v2 import admin_pb2, admin_pb2_grpc
from ledger.rocketmq.v2 import definition_pb2 as pb

METHODS = sorted(name for name in vars(admin_pb2_grpc.AdminServicer) if not name.startswith("_"))
SERVED = {"DescribeTopicStatus", "DescribeGroupAccumulation", "ResetGroupOffset"}
# Its answer has no status.
WITHOUT_STATUS = "ChangeLogLevel"


@pytest.mark.parametrize("name", [name for name in METHODS if name not in SERVED | {WITHOUT_STATUS}])
async def test_a_method_that_is_not_served_says_so_in_its_own_answer(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "front_call", lambda *_, **__: SimpleNamespace(caller=None))

    async def clients(_: object) -> object:
        return None

    front: Any = SimpleNamespace(
        refusals=Counter(),
        prove=None,
        sessions=SimpleNamespace(seen=lambda call: None),
        pool=SimpleNamespace(of=clients),
    )
    method = admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods_by_name[name]
    answer = await getattr(AdminFront(front, is_tls=False), name)(None, cast(Any, None))
    assert answer.DESCRIPTOR is method.output_type
    assert answer.status.code == pb.NOT_IMPLEMENTED
    assert answer.status.message.startswith("this cluster does not serve the method")
    assert front.refusals == {(name, "NOT_IMPLEMENTED"): 1}
    assert name in vars(AdminFront), "the front defines it"
