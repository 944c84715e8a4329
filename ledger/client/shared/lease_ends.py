"""When a lease ends, as its member counts: never later than the leader of the shard does.

    member   asked                                             the answer arrives
    leader       the receive arrives ─ waited_ms ─ answers ─ lease_left_ms ─ the lease ends

A member that counted from the arrival of the answer would believe in its lease for too long, by the way of the answer.
So it counts from the time at which it asked: the receive arrived at the leader after that. A lease that is extended
lasts from the moment at which the leader takes the request, which is also after the member asked. The clocks of both
need only run at the same rate.
"""

from __future__ import annotations

from ledger.v1 import consumer_group_pb2

# The leader counts whole milliseconds: it rounds the time at which the lease ends, and the time at which it answers.
ROUNDING_MS = 1


def received_end_s(response: consumer_group_pb2.ShareResponse, lease_ms: int, asked_s: float, now_s: float) -> float:
    """Return when the first lease of an answer ends. `asked_s` is when the receive was sent, and `now_s` the arrival of
    the answer, by one clock in seconds.

    The receive asked for leases of `lease_ms`, and cannot have waited longer than since `asked_s`. A node that tells
    more is not believed. A node of an older version tells no wait; then the whole wait is taken from the lease."""
    waited_s = min(response.waited_ms / 1000, now_s - asked_s)
    return asked_s + waited_s + (min(response.lease_left_ms, lease_ms) - ROUNDING_MS) / 1000


def extended_end_s(lease_ms: int, asked_s: float) -> float:
    """Return when a lease ends that was extended to `lease_ms`, by a request that was sent at `asked_s`."""
    return asked_s + (lease_ms - ROUNDING_MS) / 1000
