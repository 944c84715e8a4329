"""The settings that the front gives to a client, which replace those of the client."""

from __future__ import annotations

from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.v2 import definition_pb2 as pb

RECEIVE_BATCH = 32
LONG_POLL_S = 20
PRODUCER_ATTEMPTS = 3
# The waits before a message that a consumer could not handle is handed out again.
RETRY_DELAYS_S = (1, 5, 10, 30, *(minutes * 60 for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)), 3600, 7200)


def producer_settings(told: pb.Settings, *, max_body_bytes: int) -> pb.Settings:
    """Return the answer to the settings of a producer."""
    answer = _answer(told)
    answer.publishing.topics.extend(told.publishing.topics)
    answer.publishing.max_body_size = max_body_bytes
    answer.publishing.validate_message_type = True
    policy = answer.backoff_policy
    policy.max_attempts = PRODUCER_ATTEMPTS
    policy.exponential_backoff.initial.FromMilliseconds(10)
    policy.exponential_backoff.max.FromSeconds(1)
    policy.exponential_backoff.multiplier = 2
    return answer


def consumer_settings(told: pb.Settings, call: FrontCall, *, fifo: bool, max_attempts: int) -> pb.Settings:
    """Return the answer to the settings of a consumer. With `fifo`, the client itself tries a message again, and gives
    it up after `max_attempts`."""
    answer = _answer(told)
    subscription = answer.subscription
    if told.subscription.HasField("group"):
        subscription.group.CopyFrom(told.subscription.group)
    subscription.subscriptions.extend(told.subscription.subscriptions)
    subscription.fifo = fifo
    subscription.receive_batch_size = RECEIVE_BATCH
    subscription.long_polling_timeout.FromSeconds(LONG_POLL_S)
    policy = answer.backoff_policy
    policy.max_attempts = max_attempts
    if call.is_node_js:  # this client knows no other kind
        policy.exponential_backoff.initial.FromSeconds(RETRY_DELAYS_S[0])
        policy.exponential_backoff.max.FromSeconds(RETRY_DELAYS_S[-1])
        policy.exponential_backoff.multiplier = 2
    else:
        for delay_s in RETRY_DELAYS_S:
            policy.customized_backoff.next.add().FromSeconds(delay_s)
    return answer


def _answer(told: pb.Settings) -> pb.Settings:
    answer = pb.Settings(client_type=told.client_type, metric=pb.Metric(on=False))
    if told.HasField("access_point"):
        answer.access_point.CopyFrom(told.access_point)
    if told.HasField("request_timeout"):
        answer.request_timeout.CopyFrom(told.request_timeout)
    answer.user_agent.CopyFrom(told.user_agent)
    return answer
