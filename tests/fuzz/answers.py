"""Judges the answers of a call that gRPC took for a success.

The nodes' own methods fail with a status of gRPC. A method of RocketMQ's protocol has its status in the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from ledger.rocketmq.v2 import admin_pb2, service_pb2
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.v1 import broker_pb2
from tests.fuzz.callers import Caller
from tests.fuzz.methods import path_of

FRONT_DEFECTS = (pb.Code.Name(pb.INTERNAL_ERROR), pb.Code.Name(pb.INTERNAL_SERVER_ERROR))
FRONT_UNPROVEN = pb.Code.Name(pb.UNAUTHORIZED)
_FRONT_FILES = (service_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)
_FETCH = "/ledger.v1.Broker/Fetch"


def ended_with(caller: Caller, method: MethodDescriptor, answers: Sequence[bytes]) -> tuple[str, str]:
    """Return the name of the status of a call, and what the caller should not have got, or ""."""
    if method.containing_service.file in _FRONT_FILES:
        told = [cast(Any, GetMessageClass(method.output_type).FromString(answer)) for answer in answers]
        codes = [each.status.code for each in told if hasattr(each, "status") and each.HasField("status")]
        topics = {each.message.topic.name for each in told if hasattr(each, "message") and each.HasField("message")}
        # MULTIPLE_RESULTS: at least a part has succeeded, or fails in another way.
        status = "OK" if not codes or codes[0] in (pb.OK, pb.MULTIPLE_RESULTS) else pb.Code.Name(codes[0])
    elif path_of(method) == _FETCH:
        fetched = broker_pb2.FetchResponse.FromString(answers[0]).queues
        status, topics = "OK", {queue.topic_id for queue in fetched if queue.batches}
    else:
        return "OK", ""
    more = set() if caller.reads is None else topics - set(caller.reads)
    return status, f"messages of the topics {more}" if more else ""
