"""The settings with which a producer collects and delivers batches."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.codec import Codec

MAX_BATCH_MESSAGES = 65_535
# A small batch has at most so many bytes, and at most this part of `batch_bytes`.
_SMALL_BYTES = 16 << 10
_SMALL_PART = 16
# A producer has at most so many bytes in common batches, and at most this part of `batch_bytes`.
_COMMON_BYTES = 64 << 10
_COMMON_PART = 4


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """The settings with which one producer collects and delivers its batches.

    `retries` is how often a batch is sent again after a failure; None means until the delivery timeout. `codec` is the
    compression of batches. The docstring of AsyncProducer describes the other fields.
    """

    producer_id: int
    linger_ms: float = 5
    batch_bytes: int = 256 * 1024
    max_in_flight: int = 5
    delivery_timeout_ms: float = 120_000
    codec: Codec = Codec.NONE
    retries: int | None = None

    @property
    def small_bytes(self) -> int:
        """The size of the largest small batch, in bytes. Small batches travel on streams that producers share, unless
        they follow a large one."""
        return min(_SMALL_BYTES, self.batch_bytes // _SMALL_PART)

    @property
    def common_bytes(self) -> int:
        """The most bytes that a producer has under way in batches that it shares with other producers."""
        return min(_COMMON_BYTES, self.batch_bytes // _COMMON_PART)
