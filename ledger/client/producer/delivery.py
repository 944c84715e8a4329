"""The settings with which a producer collects and delivers batches."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.codec import Codec

MAX_BATCH_MESSAGES = 65_535


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
