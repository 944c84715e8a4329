"""The times that have a date: the years 1 to 9999.

The timestamp of a message is any number of milliseconds that its producer gave. Protobuf's Timestamp, Python's datetime
and Spark's TimestampType have only these years. A message with another timestamp gets the nearest time there.
"""

from __future__ import annotations

# In ms since 1970.
EARLIEST_MS = -62_135_596_800_000
LATEST_MS = 253_402_300_799_999


def dated_ms(ms: int) -> int:
    """Return the time in ms since 1970 that has a date and is nearest to `ms`."""
    return min(max(ms, EARLIEST_MS), LATEST_MS)
