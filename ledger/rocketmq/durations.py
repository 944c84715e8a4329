"""Reads durations that clients send, which may have any value."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

# The bound of the type Duration.
_MAX_S = 315_576_000_000


def milliseconds(duration: Duration) -> int:
    """Return the length of a duration, or -1 if it is negative or out of the bounds of its type."""
    seconds, nanos = duration.seconds, duration.nanos
    if not 0 <= seconds <= _MAX_S or not 0 <= nanos < 1_000_000_000:
        return -1
    return int(seconds * 1000 + nanos // 1_000_000)
